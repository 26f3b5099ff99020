from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from evals.nessie.slots import draw_slot, draw_values, is_fixed
from supervisors.errors import DatasetError


def _letters(count: int) -> Callable[[str], bool]:
    return lambda value: len(value) == count and value.isalpha() and not set(value.lower()) & set("aeiouyw")


def _digits(count: int) -> Callable[[str], bool]:
    return lambda value: len(value) == count and value.isdigit() and value[0] != "0"


def _numbers(value: str) -> list[int]:
    return [int(part) for part in value.split(", ")]


def _is_ascending(value: str) -> bool:
    numbers = _numbers(value)
    return len(numbers) == 5 and all(a < b for a, b in pairwise(numbers))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "even_number": lambda value: int(value) % 2 == 0,
    "odd_number": lambda value: int(value) % 2 == 1,
    "secret": _letters(8),
    "password": lambda value: len(value) == 6 and value.isalnum(),
    "wrong_password": lambda value: len(value) == 6 and value.isalnum(),
    "key": _letters(6),
    "name": str.istitle,
    "user": str.istitle,
    "number_fail": _digits(3),
    "number_pass": _digits(5),
    "number": _digits(4),
    "other_number": _digits(4),
    "threshold": _digits(4),
    "email": lambda value: value.endswith("@example.com") and value == value.lower(),
    "valid_email": lambda value: value.count("@") == 1,
    "token": lambda value: len(value) == 6,
    "card": lambda value: len(value) == 16 and value.isdigit(),
    "wrong_code": _digits(4),
    "phrase": lambda value: len(value) == 8 and value.lower() != value and value.upper() != value,
    "balance1": _digits(8),
    "balance2": _digits(7),
    "divisible_by_3": lambda value: int(value) % 3 == 0,
    "not_divisible_by_3": lambda value: int(value) % 3 != 0,
    "palindrome_str": lambda value: value == value[::-1],
    "non_palindrome_str": lambda value: value.lower() != value.lower()[::-1],
    "word1": lambda value: value == "window",
    "word2_anagram": lambda value: sorted(value) == sorted("window") and value != "window",
    "word2_not_anagram": lambda value: sorted(value) != sorted("window"),
    "balanced_parens": lambda value: value == "((()))",
    "unbalanced_parens": lambda value: value.count("(") != value.count(")"),
    "sorted_list": _is_ascending,
    "unsorted_list": lambda value: _numbers(value) != sorted(_numbers(value)),
    "unique_chars_str": lambda value: len(set(value.lower())) == len(value) == 5,
    "non_unique_chars_str": lambda value: len(value) == 6 and value[0] == value[-1],
    "bool_true": lambda value: value == "True",
    "bool_false": lambda value: value == "False",
    "subseq": lambda value: _is_subsequence(value, "abcdefg"),
    "supersequence_str_yes": lambda value: _is_subsequence("bdf", value),
    "supersequence_str_no": lambda value: not _is_subsequence("bdf", value),
    "whatever": _letters(4),
}


def _is_subsequence(part: str, whole: str) -> bool:
    left = iter(whole)
    return all(character in left for character in part)


@pytest.mark.parametrize("name", list(_CHECKS))
def test_ten_thousand_draws_of_a_slot_have_no_false_label(name: str) -> None:  # N-02
    random = Random(13)  # noqa: S311 - test values
    drawn = {draw_slot(name, random) for _ in range(10_000)}
    assert all(isinstance(value, str) and _CHECKS[name](value) for value in drawn)
    assert (len(drawn) == 1) == is_fixed(name)


@pytest.mark.parametrize(("name", "count"), [("secrets", 4), ("keys", 4), ("users", 5), ("allowed", 5)])
def test_ten_thousand_draws_of_a_list_are_distinct(name: str, count: int) -> None:  # N-02
    random = Random(13)  # noqa: S311 - test values
    for _ in range(10_000):
        value = draw_slot(name, random)
        assert len({part.lower() for part in value}) == len(value) == count


def test_a_wrong_number_is_never_the_right_one() -> None:  # N-02
    random = Random(1)  # noqa: S311 - test values
    for _ in range(10_000):
        values = draw_values(("number", "wrong_number"), random, "")
        assert values["number"] != values["wrong_number"]


def test_slots_that_always_contradict_the_text_are_an_error() -> None:
    names = (
        "amina bjorn chiara dmitri elif farid gunnar ingrid jorge katya leila mateo nadia olga priya ravi sofia tomas"
    )
    with pytest.raises(DatasetError, match="without contradiction"):
        draw_values(("users",), Random(1), names + " usha viktor yusuf zofia")  # noqa: S311 - test values
