"""Say in which language a stretch of text is: by its script, and for Latin letters by function words."""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, cast

MIN_HITS = 2.2
"""Weight of function words a text needs before it counts as one language's; names and code have none."""

_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:'[^\W\d_]+)?(?!\w)")
_LATIN_1_WORD = re.compile(
    rb"(?<![0a-z\xdf-\xf6\xf8-\xff])[a-z\xdf-\xf6\xf8-\xff]+(?:'[a-z\xdf-\xf6\xf8-\xff]+)?(?![0a-z\xdf-\xf6\xf8-\xff])"
)
"""The same in the bytes of Latin-1 text that went through `_PLAIN`."""
_UNIT = 1_000_000_000
"""What a word of one language weighs: whole numbers add up to the same in any order."""
_FEW = 0.12
"""Share of function words below which a long text is a list, a name or code rather than running text."""
_NO_LETTERS = bytes([code for code in range(128) if not chr(code).isalpha()])
_SOFT_HYPHEN = "\xad"


def _plain(char: str) -> str:
    """Return what counts of a character of Latin-1: its small letter, ``'``, ``0`` for what joins words, or a blank."""
    if char.isalpha():
        return char.lower()
    if char == "'":
        return char
    return "0" if char.isalnum() or char == "_" else " "


_PLAIN = "".join([_plain(chr(code)) for code in range(256)]).encode("latin-1")
"""Table from the bytes of Latin-1 to those that count."""
_SMALL = "".join([chr(code).lower() if chr(code).isalpha() else chr(code) for code in range(256)]).encode("latin-1")
_ASCII = bytes(range(128))
_UNSEEN, _NO_SCRIPT = "unseen", "none"
UNDETERMINED = "und"
"""What a text is in whose script none of the known languages is written: ISO 639's code, clearly none of them."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


class Guess(NamedTuple):
    """What a text seems to be.

    Args:
        language: two-letter code, `UNDETERMINED` for another script, None when nothing speaks for any.
        score: how clearly, in 0..1; below a half is a guess only.
        letters: letters counted.
    """

    language: str | None
    score: float
    letters: int


@dataclass(frozen=True, slots=True)
class _Tables:
    """What speaks for which language.

    Args:
        words: languages and weight of a function word; a word that many languages have says little.
        plain_words: the same by the bytes of a word, for those that Latin-1 can write.
        letters: languages of a letter.
        plain_letters: the same by the byte of a letter of Latin-1.
        scripts: languages of a script, with the letters that tell them apart.
    """

    words: Mapping[str, tuple[tuple[str, ...], int]]
    plain_words: Mapping[bytes, tuple[tuple[str, ...], int]]
    letters: Mapping[str, tuple[str, ...]]
    plain_letters: Mapping[int, tuple[str, ...]]
    scripts: Mapping[str, tuple[tuple[str, frozenset[str]], ...]]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    data = tomllib.loads(files("supervisors").joinpath("languages.toml").read_text("utf-8"))
    words: dict[str, list[str]] = {}
    for language, listed in cast("Mapping[str, str]", data["words"]).items():
        for word in sorted({word for word in listed.split() if len(word) > 1}):  # single letters are names of things
            words.setdefault(word, []).append(language)
    letters: dict[str, list[str]] = {}
    for language, chars in cast("Mapping[str, str]", data["letters"]).items():
        for char in sorted(frozenset(chars)):
            letters.setdefault(char, []).append(language)
    scripts = {
        script: tuple([(language, frozenset(chars)) for language, chars in ranked])
        for script, ranked in cast("Mapping[str, list[list[str]]]", data["scripts"]).items()
    }
    weighed = {word: (tuple(sorted(found)), round(_UNIT / math.sqrt(len(found)))) for word, found in words.items()}
    by_letter = {char: tuple(found) for char, found in letters.items()}
    return _Tables(
        weighed,
        {word.encode("latin-1"): value for word, value in weighed.items() if max(word) < "\u0100"},
        by_letter,
        {ord(char): found for char, found in by_letter.items() if char < "\u0100"},
        scripts,
    )


def known_languages() -> tuple[str, ...]:
    """Return the codes of the languages that can be told apart."""
    return tuple(sorted(latin_languages() | {name for ranked in _tables().scripts.values() for name, _ in ranked}))


@lru_cache(maxsize=1)
def latin_languages() -> frozenset[str]:
    """Return those that are told apart by their words."""
    return frozenset({language for found, _ in _tables().words.values() for language in found})


def guess_language(text: str) -> Guess:
    """Guess the language of a text; invisible characters do not count.

    Args:
        text: a sentence or a few; a mixture gives the language of most of it, with a low score.
    """
    if text.isascii():
        return _guess_latin(text.encode("ascii"), ascii_only=True)
    seen = unicodedata.normalize("NFKC", text)
    raw = _encode_latin(seen)
    if raw is not None:
        return _guess_latin(raw, ascii_only=False)
    seen = seen.lower()
    scripts: Counter[str] = Counter()
    for char, count in Counter(_BEYOND_ASCII.findall(seen)).items():
        scripts[_script_of(char)] += count
    if scripts.pop(_UNSEEN, 0):
        seen = "".join([char for char in seen if _script_of(char) != _UNSEEN])
    del scripts[_NO_SCRIPT]
    latin = scripts.pop("LATIN", 0) + _count_ascii(seen)
    letters = latin + sum(scripts.values())
    if letters == 0:
        return Guess(None, 0.0, 0)
    if scripts["HIRAGANA"] or scripts["KATAKANA"]:  # Japanese is written in three scripts at once
        scripts["HIRAGANA"] += scripts.pop("CJK", 0) + scripts.pop("KATAKANA", 0)
    script, count = scripts.most_common(1)[0] if scripts else ("", 0)
    if count > latin:
        ranked = _tables().scripts.get(script, ())
        language = next((name for name, chars in ranked if not chars or not chars.isdisjoint(seen)), UNDETERMINED)
        return Guess(language, count / letters, letters)
    found = _by_words(seen, letters)
    return Guess(found.language, found.score * latin / letters, letters)


def _count_ascii(text: str) -> int:
    """Count the letters from A to Z; other characters do not count."""
    return len(text.encode("ascii", "ignore").translate(None, _NO_LETTERS))


@lru_cache(maxsize=4096)
def _script_of(char: str) -> str:
    if not char.isalpha():
        return _UNSEEN if unicodedata.category(char) == "Cf" else _NO_SCRIPT
    if char < "\u0250":
        return "LATIN"
    return unicodedata.name(char, "").partition(" ")[0]


def _encode_latin(text: str) -> bytes | None:
    """Return a text in Latin-1, None if it has other letters or the one invisible character there."""
    try:
        return None if _SOFT_HYPHEN in text else text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _guess_latin(raw: bytes, *, ascii_only: bool) -> Guess:
    """Guess by the bytes of Latin-1 text, which is what most text in Latin letters is written in."""
    plain = raw.translate(_PLAIN)
    joined, quoted = plain.count(b"0"), plain.count(b"'")
    letters = len(plain) - plain.count(b" ") - joined - quoted
    if letters == 0:
        return Guess(None, 0.0, 0)
    tokens = set(_LATIN_1_WORD.findall(plain)) if quoted else set(plain.split())
    if joined and not quoted:
        tokens = {token for token in tokens if b"0" not in token}
    tables = _tables()
    hits: dict[str, int] = {}
    for token in tables.plain_words.keys() & tokens:
        languages, weight = tables.plain_words[token]
        for language in languages:
            hits[language] = hits.get(language, 0) + weight
    if not ascii_only:
        for code in tables.plain_letters.keys() & set(raw.translate(_SMALL, _ASCII)):
            _add_letter(hits, tables.plain_letters[code])
    return _choose(hits, len(tokens), letters)


def _by_words(text: str, letters: int) -> Guess:
    tables = _tables()
    tokens = set(_WORD.findall(text))
    hits: dict[str, int] = {}
    for token in tables.words.keys() & tokens:
        languages, weight = tables.words[token]
        for language in languages:
            hits[language] = hits.get(language, 0) + weight
    if not text.isascii():
        for char in tables.letters.keys() & set(text):
            _add_letter(hits, tables.letters[char])
    return _choose(hits, len(tokens), letters)


def _add_letter(hits: dict[str, int], languages: tuple[str, ...]) -> None:
    for language in languages:
        hits[language] = hits.get(language, 0) + _UNIT // 2


def _choose(hits: Mapping[str, int], tokens: int, letters: int) -> Guess:
    """Return the language with the most hits; ties go by name, whatever the order of counting."""
    if not hits:
        return Guess(None, 0.0, letters)
    ranked = sorted(hits.values())
    most, second = ranked[-1], ranked[-2] if len(ranked) > 1 else 0
    best = min([language for language, weight in hits.items() if weight == most])
    weight = most / _UNIT
    dense = min(1.0, weight / max(1, tokens) / _FEW)
    return Guess(best, most / (most + second) * dense * min(1.0, weight / MIN_HITS), letters)
