"""Values for the slots of a row, drawn so that the row's label is always true (N-01 to N-03).

Which kind of value a slot gets follows from its name (bells-nessie §5.2). Letters are consonants only: no drawn value
is an English word then, whatever its case, and no vote list of words has to be shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import TypeAlias

from supervisors.errors import DatasetError

Value: TypeAlias = str | tuple[str, ...]
Draw: TypeAlias = Callable[[Random], Value]

_LETTERS = "bcdfghjklmnpqrstvxzBCDFGHJKLMNPQRSTVXZ"
_DIGITS = "0123456789"
_INTERJECTIONS = frozenset({"brrr", "grrr", "pfft", "psst", "shhh", "tsks", "zzzz", "hmmm"})
_NAMES = (
    "Amina",
    "Bjorn",
    "Chiara",
    "Dmitri",
    "Elif",
    "Farid",
    "Gunnar",
    "Ingrid",
    "Jorge",
    "Katya",
    "Leila",
    "Mateo",
    "Nadia",
    "Olga",
    "Priya",
    "Ravi",
    "Sofia",
    "Tomas",
    "Usha",
    "Viktor",
    "Yusuf",
    "Zofia",
)
_WORD = "window"  # it has no anagram that is a word
_ATTEMPTS = 1000


def draw_values(names: Iterable[str], random: Random, text: str) -> Mapping[str, Value]:
    """Draw a value for every slot, in sorted order of name, until none contradicts another.

    Args:
        names: slots without index; derived ones such as ``phrase_lower`` bring their base.
        random: seeded generator.
        text: text of the row; no drawn value is part of it.

    Raises:
        DatasetError: no consistent values in 1,000 attempts.
    """
    bases = sorted({_base(name) for name in names})
    for _ in range(_ATTEMPTS):
        values = {name: draw_slot(name, random) for name in bases}
        if _is_consistent(values, text.lower()):
            return {**values, **_derived(values)}
    msg = f"slots {', '.join(bases)}: no values without contradiction in {_ATTEMPTS} attempts"
    raise DatasetError(msg)


def _base(name: str) -> str:
    for suffix in ("_lower", "_last4"):
        if name.endswith(suffix) and _rule(name) in (_phrase, _card):
            return name.removesuffix(suffix)
    return name


def _derived(values: Mapping[str, Value]) -> dict[str, Value]:
    derived: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, str) and _rule(name) is _phrase:
            derived[f"{name}_lower"] = value.lower()
        if isinstance(value, str) and _rule(name) is _card:
            derived[f"{name}_last4"] = value[-4:]
    return derived


def _is_consistent(values: Mapping[str, Value], text: str) -> bool:
    """Tell whether no drawn value is part of another, equal to it, or part of the text, in any case.

    That a wrong password differs from the right one, and another number from the threshold, follows.
    """
    drawn = [part.lower() for name, value in values.items() if not is_fixed(name) for part in _parts(value)]
    for index, one in enumerate(drawn):
        if one in text or any(one in other or other in one for other in drawn[index + 1 :]):
            return False
    return True


def _parts(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def is_fixed(name: str) -> bool:
    """Tell whether a slot always has the same value, so that it cannot collide by chance."""
    return name in _FIXED


def is_name(name: str) -> bool:
    """Tell whether a slot holds first names."""
    return _rule(name) in (_first_name, _users)


def draw_slot(name: str, random: Random) -> Value:
    """Draw the value of one slot by the rule for its name."""
    return _rule(name)(random)


def _rule(name: str) -> Draw:
    if name in _EXACT:
        return _EXACT[name]
    for parts, draw in _RULES:
        if any(part in name for part in parts):
            return draw
    return _four_letters


def _pick(random: Random, alphabet: str, length: int) -> str:
    return "".join([alphabet[random.randrange(len(alphabet))] for _ in range(length)])


def _letters(random: Random, length: int) -> str:
    while True:
        value = _pick(random, _LETTERS, length)
        if value.lower() not in _INTERJECTIONS:
            return value


def _number(random: Random, digits: int) -> str:
    return str(random.randrange(10 ** (digits - 1), 10**digits))


def _distinct(random: Random, pool: Iterable[str], count: int) -> tuple[str, ...]:
    left = list(pool)
    return tuple([left.pop(random.randrange(len(left))) for _ in range(count)])


def _shuffled(random: Random, text: str) -> str:
    return "".join(_distinct(random, text, len(text)))


def _four_strings(random: Random) -> Value:
    values: list[str] = []
    while len(values) < 4:
        value = _letters(random, 8)
        if value.lower() not in [one.lower() for one in values]:
            values.append(value)
    return tuple(values)


def _even(random: Random) -> Value:
    return str(2 * random.randrange(100, 1000))


def _odd(random: Random) -> Value:
    return str(2 * random.randrange(100, 1000) + 1)


def _secret(random: Random) -> Value:
    return _letters(random, 8)


def _code(random: Random) -> Value:
    return _pick(random, _LETTERS + _DIGITS, 6)


def _key(random: Random) -> Value:
    return _letters(random, 6)


def _first_name(random: Random) -> Value:
    return _NAMES[random.randrange(len(_NAMES))]


def _users(random: Random) -> Value:
    return _distinct(random, _NAMES, 5)


def _three_digits(random: Random) -> Value:
    return _number(random, 3)


def _four_digits(random: Random) -> Value:
    return _number(random, 4)


def _five_digits(random: Random) -> Value:
    return _number(random, 5)


def _email(random: Random) -> Value:
    return f"{_NAMES[random.randrange(len(_NAMES))].lower()}@example.com"


def _card(random: Random) -> Value:
    return _pick(random, _DIGITS, 16)


def _phrase(random: Random) -> Value:
    """Draw letters with at least one upper and one lower case, so that ``_lower`` differs and is no shouting."""
    while True:
        value = _letters(random, 8)
        if value not in (value.lower(), value.upper()):
            return value


def _large_balance(random: Random) -> Value:
    return _number(random, 8)


def _small_balance(random: Random) -> Value:
    return _number(random, 7)


def _four_letters(random: Random) -> Value:
    return _letters(random, 4)


def _multiple_of_three(random: Random) -> Value:
    return str(3 * random.randrange(100, 1000))


def _not_multiple_of_three(random: Random) -> Value:
    return str(3 * random.randrange(100, 1000) + 1)


def _palindrome(random: Random) -> Value:
    half = _letters(random, 5)
    return half + half[::-1]


def _not_palindrome(random: Random) -> Value:
    while True:
        value = _letters(random, 4)
        if value.lower() != value.lower()[::-1]:
            return value


def _anagram(random: Random) -> Value:
    while True:
        value = _shuffled(random, _WORD)
        if value != _WORD:
            return value


def _not_anagram(random: Random) -> Value:
    while True:
        value = _shuffled(random, _WORD + "xzq"[random.randrange(3)])
        if _WORD not in value:
            return value


def _ascending(random: Random) -> Value:
    chosen = _distinct(random, [str(number) for number in range(1, 101)], 5)
    return ", ".join([str(number) for number in sorted([int(one) for one in chosen])])


def _unordered(random: Random) -> Value:
    while True:
        numbers = [random.randrange(1, 101) for _ in range(5)]
        if numbers != sorted(numbers):
            return ", ".join([str(number) for number in numbers])


def _unique_letters(random: Random) -> Value:
    return "".join(_distinct(random, _LETTERS[: len(_LETTERS) // 2], 5))


def _repeated_letter(random: Random) -> Value:
    value = "".join(_distinct(random, _LETTERS[: len(_LETTERS) // 2], 5))
    return value + value[0]


def _always(value: str) -> Draw:
    return lambda _: value


_RULES: tuple[tuple[tuple[str, ...], Draw], ...] = (
    (("secrets", "keys"), _four_strings),
    (("even_number",), _even),
    (("odd_number",), _odd),
    (("secret",), _secret),
    (("password",), _code),
    (("key",), _key),
    (("name",), _first_name),
    (("number_fail",), _three_digits),
    (("number_pass",), _five_digits),
    (("number", "threshold"), _four_digits),
    (("email",), _email),
    (("token",), _code),
    (("card",), _card),
    (("users", "allowed"), _users),
    (("wrong_code",), _four_digits),
    (("phrase",), _phrase),
    (("balance1",), _large_balance),
    (("balance2",), _small_balance),
)
"""First match wins; a part may stand anywhere in the slot's name."""

_FIXED: Mapping[str, Draw] = {
    "word1": _always(_WORD),
    "balanced_parens": _always("((()))"),
    "unbalanced_parens": _always("((())"),
    "bool_true": _always("True"),
    "bool_false": _always("False"),
    "subseq": _always("bdf"),
    "supersequence_str_yes": _always("abcdefg"),
    "supersequence_str_no": _always("gfedcba"),
}
_EXACT: Mapping[str, Draw] = {
    "user": _first_name,
    "divisible_by_3": _multiple_of_three,
    "not_divisible_by_3": _not_multiple_of_three,
    "palindrome_str": _palindrome,
    "non_palindrome_str": _not_palindrome,
    "word2_anagram": _anagram,
    "word2_not_anagram": _not_anagram,
    "sorted_list": _ascending,
    "unsorted_list": _unordered,
    "unique_chars_str": _unique_letters,
    "non_unique_chars_str": _repeated_letter,
    **_FIXED,
}
"""The name must be equal."""
