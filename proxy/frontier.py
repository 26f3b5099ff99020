"""How far a growing text may be released: hold-back, graphemes, encoded runs, word ends. Pure (guarding §7)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from proxy.redact import Mark

_RUN: Final = re.compile(r"[A-Za-z0-9+/=_-]{16,}\Z")
_RUN_CHARS: Final = 4096
_WORD_CHARS: Final = 256
_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f")
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|[。！？]|\n")
SENTENCE_ENDS: Final = frozenset(".!?。！？\n")


def holdback_start(text: str, end: int, holdback: int) -> int:
    """Return the offset before which no match of at most `holdback` + 1 visible characters can still begin.

    Characters that normalisation removes (format characters, combining marks) do not count, and a run of white
    space counts once, so that padding does not shrink the hold-back.
    """
    position = end
    left = holdback
    in_space = False
    while position > 0 and left > 0:
        position -= 1
        char = text[position]
        if char.isspace():
            left -= not in_space
            in_space = True
        elif unicodedata.category(char) not in ("Cf", "Mn", "Me"):
            left -= 1
            in_space = False
    return position


def clear_of_cuts(text: str, position: int) -> int:
    """Move a frontier back so that it cuts no grapheme and no encoded run that may still be growing."""
    run = _RUN.search(text, max(0, len(text) - _RUN_CHARS))
    if run is not None and run.start() < position and len(text) - run.start() < _RUN_CHARS:
        position = run.start()
    while 0 < position < len(text) and (unicodedata.combining(text[position]) or text[position] in _JOINERS):
        position -= 1
    return position


def end_of_words(text: str, start: int) -> int:
    """Return where the text ends at a word's end, so that a boundary rule sees whole words only.

    Args:
        text: the text so far.
        start: where the part not yet judged begins; without white space after it the whole text is taken.
    """
    for position in range(len(text) - 1, max(start, len(text) - _WORD_CHARS) - 1, -1):
        if text[position].isspace():
            return position
    return len(text)


def has_sentence(text: str, start: int) -> bool:
    """Say whether a sentence ends after `start`."""
    return _SENTENCE.search(text, start) is not None


def mask_piece(text: str, start: int, marks: Sequence[Mark]) -> str:
    """Return a delta with the marks of the whole field applied; the placeholder stands where the mark begins."""
    parts: list[str] = []
    position = start
    end = start + len(text)
    for mark in marks:
        if mark.end <= position or mark.start >= end:
            continue
        if mark.start >= position:
            parts += [text[position - start : mark.start - start], mark.placeholder]
        position = min(mark.end, end)
    parts.append(text[position - start :])
    return "".join(parts)
