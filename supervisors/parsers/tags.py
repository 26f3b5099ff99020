"""Formats whose verdict stands between two marks. Text around a safe one makes the reply unreadable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from supervisors.parsers.reading import (
    NOT_ASSESSED,
    Asked,
    Pair,
    Reading,
    Unreadable,
    count_verdict_words,
    split_list,
)
from supervisors.parsers.words import to_word


class _Tag(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    pair: ClassVar[Pair | None] = None
    short: ClassVar[bool] = False
    keeps_marks: ClassVar[bool] = False


def _find(text: str, name: str) -> Sequence[re.Match[str]]:
    return list(re.finditer(rf"<{name}>([^<]{{0,200}})</{name}>", text, re.IGNORECASE))


def _count(text: str, name: str) -> int:
    return len(re.findall(rf"</?{name}>", text, re.IGNORECASE))


def _only(text: str, name: str) -> re.Match[str]:
    """Return the only tag; half a tag more is already a contradiction (GP-03)."""
    tags = _find(text, name)
    if not tags:
        raise Unreadable("missing_verdict" if _count(text, name) else "")
    if _count(text, name) != 2:
        raise Unreadable("contradiction")
    return tags[0]


class ScoreTag(_Tag):
    """``<score> yes </score>``.

    Args:
        inline_reasoning: the server strips the think marks and keeps the text: the last tag wins and prose may
            precede it.
    """

    inline_reasoning: bool = False

    pair: ClassVar[Pair | None] = Pair("yes", "no", exact=True, after="<score>")

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the tag; polarity says which answer is the risk."""
        tags = _find(text, "score")
        tag = tags[-1] if self.inline_reasoning and tags else _only(text, "score")
        value = tag.group(1).strip().casefold()
        if value not in ("yes", "no"):
            raise Unreadable("missing_field" if value in NOT_ASSESSED else "unknown_label")
        before = "" if self.inline_reasoning else text[: tag.start()]
        return Reading(to_word(value == "yes", asked), not (before + text[tag.end() :]).strip())


class LabelTag(_Tag):
    """``<label>safe</label>``, or the violated category in its place."""

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the tag: anything but ``safe`` is a violation and names it."""
        tag = _only(text, "label")
        value = tag.group(1).strip()
        if value.casefold() in NOT_ASSESSED:
            raise Unreadable("missing_field")
        clean = tag.group() == text
        if value.casefold() == "safe":
            return Reading("safe", clean)
        return Reading("unsafe", clean, tuple([name for name in split_list(value) if name.casefold() != "unsafe"]))


class AnswerTag(_Tag):
    """``<answer>PASS</answer>`` or ``FAIL``, or that word alone."""

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the tag or the bare word; one beside the other is a contradiction."""
        if not _count(text, "answer"):
            value, clean = text.strip().casefold(), True
        else:
            tag = _only(text, "answer")
            value, clean = tag.group(1).strip().casefold(), tag.group() == text
            around = (text[: tag.start()] + "\n" + text[tag.end() :]).split("\n")
            if any(count_verdict_words(line, ("pass", "fail")) for line in around):
                raise Unreadable("contradiction")
        if value not in ("pass", "fail"):
            raise Unreadable("" if clean and not _count(text, "answer") else "unknown_label")
        return Reading("unsafe" if value == "fail" else "safe", clean)
