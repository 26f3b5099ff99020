"""Formats whose verdict is a word: at the start, at the end, or as the whole reply (guards §5.2)."""

from __future__ import annotations

import re
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisors.parsers.objects import parse_object, to_names
from supervisors.parsers.reading import (
    Asked,
    Pair,
    Reading,
    Unreadable,
    Word,
    count_verdict_words,
    split_list,
)

_CODE = re.compile(r"[A-Za-z]{1,2}\d{1,2}")
_UNSAFE_LIST = re.compile(r"unsafe[\s:,]+(.+)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_CONFIDENCE = re.compile(r"<confidence>\s*(high|low)\s*</confidence>", re.IGNORECASE)
_DECIMAL = re.compile(r"\d{1,3}(?:\.\d{0,20})?|\.\d{1,20}")
_RESULT = re.compile(r"\[RESULT\] ?:? ?(safe|unsafe)(?: ?[,;]? ?score ?:? ?([1-5])?)?", re.IGNORECASE)
_SPECIAL = re.compile(r"<(SAFE|UNSAFE-([A-Z]\d{1,2}))>")


class _Format(BaseModel):
    """Declarations every format shares; its fields are `parser_args` of a card."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pair: ClassVar[Pair | None] = None
    short: ClassVar[bool] = False
    keeps_marks: ClassVar[bool] = False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _refuse_repeats(lines: list[str], words: tuple[str, ...]) -> None:
    """GP-03: a verdict stated twice is no verdict, whether or not the two agree."""
    if sum([count_verdict_words(line, words) for line in lines]) > 1:
        raise Unreadable("contradiction")


class SafeUnsafe(_Format):
    """``safe``, or ``unsafe`` and a second line of categories.

    Args:
        tail: ``codes`` allows nothing else, ``free`` allows prose after it.
        names: the second line holds names instead of codes.
    """

    tail: Literal["codes", "free"] = "codes"
    names: bool = False

    pair: ClassVar[Pair | None] = Pair("unsafe", "safe", exact=False)

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the first line as the verdict and, if unsafe, the next one as categories."""
        if text.startswith(("{", "```")):
            return self._read_object(text)
        lines = _lines(text)
        if not lines:
            raise Unreadable
        head = lines[0][:-1] if lines[0][-1] in ".!" else lines[0]
        listed = _UNSAFE_LIST.fullmatch(lines[0])
        verdict = head.casefold()
        codes: tuple[str, ...] | None = None
        if verdict not in ("safe", "unsafe"):
            codes = self._categories(listed.group(1)) if listed and not self.names else None
            if codes is None:
                raise Unreadable
            verdict = "unsafe"
        statement = [verdict, *lines[1:]]
        _refuse_repeats(statement, ("safe", "unsafe"))
        rest = lines[1:]
        if codes is None and verdict == "unsafe" and rest:
            codes = self._categories(rest[0])
            rest = rest if codes is None else rest[1:]
        word: Word = "unsafe" if verdict == "unsafe" else "safe"
        free = self.tail == "free"
        return Reading(word, free or not rest, codes or (), critique="\n".join(rest) or None if free else None)

    def _categories(self, line: str) -> tuple[str, ...] | None:
        """Return the categories of a line that holds nothing else, or None."""
        if self.names:
            parts = split_list(line)
            short = all(len(part) <= 60 for part in parts) and not line.endswith(".")
            return parts if short else None
        code, colon, name = line.partition(":")
        if colon and _CODE.fullmatch(code.strip()) and len(name) <= 80:
            return (code.strip(),)
        parts = tuple([part for part in re.split(r"[,\s]+", line) if part])
        return parts if parts and all(_CODE.fullmatch(part) for part in parts) else None

    def _read_object(self, text: str) -> Reading:
        """Read the object that hosted servers give in JSON mode; `safe` must be a JSON boolean."""
        members = parse_object(text)
        verdict = members.get("safe")
        if not isinstance(verdict, bool):
            raise Unreadable("missing_field" if verdict is None else "unknown_label")
        listed = members.get("categories")
        raw = to_names(listed)
        if verdict and raw:
            raise Unreadable("contradiction")
        known = set(members) <= {"safe", "categories"} and (listed is None or isinstance(listed, list))
        return Reading("safe" if verdict else "unsafe", known, raw)


class YesNo(_Format):
    """``Yes`` or ``No`` as the first word.

    Args:
        tail: what may follow: nothing, a confidence tag, or anything in a sentence or line of its own.
    """

    tail: Literal["none", "confidence", "free"] = "none"

    pair: ClassVar[Pair | None] = Pair("yes", "no", exact=True)
    short: ClassVar[bool] = True

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the first word; polarity says which one is the risk."""
        match = re.match(r"(yes|no)(?![\w'’-])", text, re.IGNORECASE)
        if match is None:
            raise Unreadable
        _refuse_repeats(_lines(text), ("yes", "no"))
        rest = text[match.end() :].strip()
        confidence = None
        if self.tail == "confidence" and (tag := _CONFIDENCE.match(rest)):
            confidence, rest = tag.group(1).casefold(), rest[tag.end() :].strip()
        word = to_word(match.group(1).casefold() == "yes", asked)
        ends = self.tail == "free" and _ENDS.match(text, match.end()) is not None
        return Reading(word, ends or not rest, confidence=confidence)


_ENDS: Final = re.compile(r"[.!]?[ \t]*(\n|$)|[.!][ \t]")
"""What ends the word: with a comma or a question mark behind it, it may be the beginning of another sentence."""


def to_word(yes: bool, asked: Asked) -> Word:
    """Turn yes or no into the verdict by the polarity of the criterion."""
    return "unsafe" if yes == (asked.polarity == "yes_is_unsafe") else "safe"


class Digit(_Format):
    """``1`` for unsafe or ``0`` for safe as the whole reply."""

    pair: ClassVar[Pair | None] = Pair("1", "0", exact=True)

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the whole text; an optional full stop is ignored."""
        value = text.removesuffix(".").strip()
        if value not in ("0", "1"):
            raise Unreadable
        return Reading("unsafe" if value == "1" else "safe")


class Float(_Format):
    """A bare risk in 0..1. The card compares it with its threshold (`decide_by: score`)."""

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the whole text as a decimal number."""
        if not _DECIMAL.fullmatch(text):
            raise Unreadable
        risk = float(text)
        if risk > 1.0:
            raise Unreadable
        return Reading("unsafe" if risk >= 0.5 else "safe", score=risk)


class LastLine(_Format):
    """The last line, as a whole, is one of your policy's words; reasoning may precede it.

    Args:
        unsafe: words that mean unsafe.
        safe: words that mean safe.
    """

    unsafe: tuple[str, ...] = Field(default=("VIOLATION",), min_length=1)
    safe: tuple[str, ...] = Field(default=("SAFE",), min_length=1)

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the last line; the same or the other word on a line of its own elsewhere is a contradiction."""
        bad = [word.casefold() for word in self.unsafe]
        good = [word.casefold() for word in self.safe]
        values = [line.removesuffix(".").strip().casefold() for line in _lines(text)]
        stated = [value for value in values if value in bad or value in good]
        if not values or values[-1] not in (*bad, *good):
            raise Unreadable
        if len(stated) > 1:
            raise Unreadable("contradiction")
        _refuse_repeats([line for line in _lines(text) if count_verdict_words(line, (*bad, *good)) > 1], (*bad, *good))
        return Reading("unsafe" if values[-1] in bad else "safe")


class FirstCode(_Format):
    """A code word of the taxonomy, one of which means safe.

    Args:
        safe: the code that means safe.
        letters: single capital letters are categories of your own policy.
    """

    safe: str
    letters: bool = False

    short: ClassVar[bool] = True

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the first word as a code."""
        match = _WORD.match(text)
        code = self._find(match.group(), asked) if match else None
        if match is None or code is None:
            raise Unreadable
        codes = [self.safe.casefold(), *[key.casefold() for key in asked.taxonomy.rows]]
        _refuse_repeats(_lines(text), tuple(codes))
        clean = not text[match.end() :].strip()
        return Reading("safe", clean) if code == self.safe else Reading("unsafe", clean, (code,))

    def _find(self, word: str, asked: Asked) -> str | None:
        if word.casefold() == self.safe.casefold():
            return self.safe
        if self.letters and len(word) == 1 and word.isascii() and word.isupper():
            return word
        return asked.taxonomy.find_code(word)


class SpecialToken(_Format):
    """``<SAFE>`` or ``<UNSAFE-S3>``."""

    short: ClassVar[bool] = True
    keeps_marks: ClassVar[bool] = True

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the only verdict token of the text."""
        tokens = list(_SPECIAL.finditer(text))
        if not tokens:
            raise Unreadable
        if len(tokens) > 1:
            raise Unreadable("contradiction")
        clean = tokens[0].group() == text
        code = tokens[0].group(2)
        return Reading("unsafe", clean, (code,)) if code else Reading("safe", clean)


class ResultBlock(_Format):
    """Lines ``[REASONING]``, ``[RESULT]: safe, score 2`` and ``[UNSAFE CATEGORY]``."""

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the only result line; a rating of 1 to 5 becomes (n − 1)/4 (GP-13)."""
        folded = text.casefold()
        if folded.count("[result]") != 1:
            raise Unreadable("contradiction" if "[result]" in folded else "")
        lines = _lines(text)
        at = next((i for i, line in enumerate(lines) if line.casefold().startswith("[result]")), None)
        match = _RESULT.fullmatch(" ".join(lines[at].split())) if at is not None else None
        if at is None or match is None:
            raise Unreadable
        rest = lines[at + 1 :]
        categories: tuple[str, ...] = ()
        if rest and rest[0].casefold().startswith("[unsafe category]"):
            categories = split_list(rest[0][len("[unsafe category]") :].strip(" :"))
            rest = rest[1:]
        word: Word = "unsafe" if match.group(1).casefold() == "unsafe" else "safe"
        clean = not rest and (at == 0 or lines[0].casefold().startswith("[reasoning]"))
        rating = match.group(2)
        return Reading(word, clean, categories, score=(int(rating) - 1) / 4 if rating else None)
