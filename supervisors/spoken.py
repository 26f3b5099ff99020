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
_ASCII_WORD = re.compile(r"\b[a-z]+(?:'[a-z]+)?\b")
"""The same for lower-case ASCII text, quicker."""
_FEW = 0.12
"""Share of function words below which a long text is a list, a name or code rather than running text."""
_NO_LETTERS = bytes([code for code in range(128) if not chr(code).isalpha()])
_UNSEEN, _NO_SCRIPT = "unseen", "none"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


class Guess(NamedTuple):
    """What a text seems to be.

    Args:
        language: two-letter code, None when nothing speaks for any.
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
        letters: languages of a letter.
        scripts: languages of a script, with the letters that tell them apart.
    """

    words: Mapping[str, tuple[tuple[str, ...], float]]
    letters: Mapping[str, tuple[str, ...]]
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
    return _Tables(
        {word: (tuple(sorted(found)), 1 / math.sqrt(len(found))) for word, found in words.items()},
        {char: tuple(found) for char, found in letters.items()},
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
        return _by_words(text.lower(), _count_ascii(text))
    seen = unicodedata.normalize("NFKC", text).lower()
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
        language = next((name for name, chars in ranked if not chars or not chars.isdisjoint(seen)), None)
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


def _by_words(text: str, letters: int) -> Guess:
    tables = _tables()
    tokens = set((_ASCII_WORD if text.isascii() else _WORD).findall(text))
    hits: dict[str, float] = {}
    for token in tables.words.keys() & tokens:
        languages, weight = tables.words[token]
        for language in languages:
            hits[language] = hits.get(language, 0.0) + weight
    if not text.isascii():
        for char in tables.letters.keys() & set(text):
            for language in tables.letters[char]:
                hits[language] = hits.get(language, 0.0) + 0.5
    ranked = sorted(hits.items(), key=lambda item: (-round(item[1], 9), item[0]))[:2]
    if not ranked:
        return Guess(None, 0.0, letters)
    best, most = ranked[0]
    second = ranked[1][1] if len(ranked) > 1 else 0.0
    dense = min(1.0, most / max(1, len(tokens)) / _FEW)
    return Guess(best, most / (most + second) * dense * min(1.0, most / MIN_HITS), letters)
