"""A growing text and how far it may be released: hold-back, graphemes, encoded runs, word ends (guarding §7)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from proxy.redact import Mark
from supervisors.escapes import LONGEST_ESCAPE, find_unit, holds_signs
from supervisors.norm import normalize
from supervisors.types import Kind

_RUN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_SHORTEST_RUN: Final = 16
_RUN_CHARS: Final = 4096
WORD_CHARS: Final = 256
"""Longest word that is not cut."""
_FEWEST_PAIRS: Final = 8
_NEAR_CHARS: Final = 32
_FEWEST_AT_END: Final = 2
_PAIR: Final = re.compile(r"(?:0x|\\x)?[A-Za-z0-9+/]{0,2}")
_PAIRS_BEHIND: Final = re.compile(r"(?:[\s:,;.-]{1,2}[A-Za-z0-9+/]{1,2}(?:x0|x\\)?(?![A-Za-z0-9+/]))*")
_PAIRS_AHEAD: Final = re.compile(
    r"(?:[\s:,;.-]{1,2}(?:0x|\\x)?[A-Za-z0-9+/]{1,2}(?![A-Za-z0-9+/]))*[\s:,;.-]{0,2}(?:0|0x|\\x?)?"
)
"""Bytes in hex, ``76 69`` or ``0x76, 0x69``, or base64 in letters; what is behind a place is matched backwards."""
_SEAM: Final = re.compile(r"[\s:,;.-]+")
_IN_PAIR: Final = re.compile(r"[\\A-Za-z0-9+/]*")
_MARKS: Final = frozenset({"Cf", "Cc", "Mn", "Mc", "Me"})
_JOINING: Final = re.compile("[\u1160-\u11ff\u314f-\u3163\ud7b0-\ud7ff\uff9e\uff9f\uffc2-\uffdc]")
"""Hangul vowels and finals and half-width voiced marks: normalisation joins them to the letter before them."""
_TAIL_CHARS: Final = 16
"""Characters that an escape may take: so many are looked at for each that is held back, and more if need be."""
_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f")
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|[。！？]|\n")
SENTENCE_ENDS: Final = frozenset(".!?。！？\n")
_APART: Final = frozenset({"tool_args", "tool_result"})
"""Kinds whose texts are read together, and still no text of theirs waits for the next one."""


@dataclass(slots=True)
class Field:
    """One text field of the choice as it grows.

    Args:
        kind: what it is.
        whole: released only as a whole (tool calls, audio).
        parts: deltas in order.
        length: characters so far.
        released: characters that have left.
        windowed: characters given to the window group.
        open: where a long match of the window group may have begun, None when none can have.
        credit: characters that every enforcing supervisor has covered.
        ended: nothing more will come, says the upstream.
        settled: the window group has judged it to its end, and knew that it had ended.
        fixed: some of it stands where it cannot be rewritten.
        part: what of the reply has to go as a whole if this text cannot stay, because a signature covers it.
        cuts: offsets where one text ends and the next begins, for who does not join them.
        counted: characters given to the window group, the hold-back there, and where that begins.
        looked: characters, cuts and end as they were at the last look, of a text that nothing continues.
        clear: so much follows it that no match which begins in it can still be open.
        name: its pointer.
        number: how many fields of the choice began before it.
        before: the field of this kind that came to an end where this one begins, None for none.
        after: the one that begins where this one ends.
    """

    kind: Kind
    whole: bool
    parts: list[str] = field(default_factory=list[str])
    length: int = 0
    released: int = 0
    windowed: int = 0
    open: int | None = None
    credit: int = 0
    ended: bool = False
    settled: bool = False
    fixed: bool = False
    part: str = ""
    cuts: list[int] = field(default_factory=list[int])
    counted: tuple[int, int, int] = (-1, 0, 0)
    looked: tuple[int, int, bool] = (-1, 0, False)
    clear: bool = False
    name: str = ""
    number: int = 0
    before: Field | None = field(default=None, repr=False, compare=False)
    after: Field | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        """Return the exact concatenation of the deltas (S-03)."""
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    def grow(self, text: str) -> None:
        """Append a delta."""
        self.parts.append(text)
        self.length += len(text)
        self.ended = self.settled = self.clear = False  # a thought may go on although it seemed to have ended
        if self.after is not None:  # what comes in turns is not read as one text after the other
            self.after.before = None
            self.after = None

    def cut(self) -> None:
        """Note that a reader may take what follows for a text of its own."""
        if self.length and (not self.cuts or self.cuts[-1] != self.length):
            self.cuts.append(self.length)

    def stretches(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the texts that lie between start and end when nothing is joined; none when that is one text."""
        inside = self.cuts[bisect_right(self.cuts, start) : bisect_left(self.cuts, end)]
        return list(pairwise([start, *inside, end])) if inside else []

    def may_leave(self, frontier: int) -> bool:
        """Say whether its part need not wait: the text is judged to its end, or no redaction can take it out."""
        return not self.whole or (self.ended and frontier == self.length)

    def covered(self, holdback: int) -> int:
        """Return how far no match of a window supervisor can still be open."""
        if self.settled:
            alone = self.clear or self.after is None or self.kind in _APART
            return self.length if alone else self._covered_before(holdback)
        if self.counted[:2] != (self.windowed, holdback):
            self.counted = (self.windowed, holdback, holdback_start(self.text, self.windowed, holdback))
        position = self.counted[2]
        return clear_of_cuts(self.text, position if self.open is None else min(position, self.open))

    def _covered_before(self, holdback: int) -> int:
        """Return how far no match can still be open that goes on in what comes after."""
        found: list[str] = []
        chain: list[Field] = []
        wanted = _TAIL_CHARS * holdback + _RUN_CHARS
        last = self
        while last.after is not None and wanted > 0 and last.windowed == last.length:
            last = last.after
            chain.append(last)
            found.append(last.text[: min(last.windowed, wanted)])
            wanted -= len(found[-1])
        if wanted > 0 and last.settled:
            return self.length
        joined = self.text + "".join(found)
        position = holdback_start(joined, len(joined), holdback)
        if self.open is None:
            self._note_clear(chain, clear_of_cuts(joined, position))
        position = position if self.open is None else min(position, self.open)
        return min(self.length, clear_of_cuts(joined, position))

    def _note_clear(self, chain: Sequence[Field], position: int) -> None:
        """Note which of the texts behind this one lie before a place where no match can still be open."""
        end = self.length
        for one in chain:
            end += one.length
            if end > position or one.open is not None:
                break
            one.clear = True

    @property
    def over(self) -> bool:
        """Say whether nothing more is to come, as the upstream says or as it looks: another of its kind has begun."""
        return self.ended or self.after is not None

    @property
    def open_chars(self) -> int:
        """Return how much of what was judged is held because a long match may have begun."""
        return 0 if self.open is None else max(0, self.windowed - self.open)


def holdback_start(text: str, end: int, holdback: int) -> int:
    """Return the offset before which no match of at most `holdback` + 1 visible characters can still begin.

    Characters that normalisation removes (format characters, combining marks) do not count, a run of white space
    counts once, and an escape counts as what it says, so that padding does not shrink the hold-back.
    """
    position = _count_back(text, end, holdback)
    if position == 0 or not holds_signs(text[max(0, position - LONGEST_ESCAPE) : end]):
        return position
    length = _TAIL_CHARS * (holdback + _TAIL_CHARS)
    while True:
        start = max(0, end - length)
        place = start + find_unit(text[start:end], lambda said: _count_back(said, len(said), holdback))
        if start == 0 or place > start + LONGEST_ESCAPE:
            return min(position, place)
        length *= 4


def _count_back(text: str, end: int, holdback: int) -> int:
    position = end
    left = holdback
    in_space = False
    while position > 0 and left > 0:
        position -= 1
        char = text[position]
        if char.isspace():
            left -= not in_space
            in_space = True
        elif not _is_unseen(char):
            left -= 1
            in_space = False
    return position


@lru_cache(4096)
def _is_unseen(char: str) -> bool:
    """Say whether a character is gone after normalisation: deleted, or part of the one before it."""
    if char.isascii():
        return not char.isprintable()
    return unicodedata.category(char) in _MARKS or _JOINING.match(char) is not None or not normalize(char)


def clear_of_cuts(text: str, position: int) -> int:
    """Move a frontier back so that it cuts no grapheme and no encoded run, growing or ended."""
    if 0 < position <= len(text):
        before = text[max(0, position - _RUN_CHARS) : position]
        behind = len(before) - len(before.rstrip(_RUN))
        after = text[position : position + _RUN_CHARS]
        ahead = len(after) - len(after.lstrip(_RUN))
        if _SHORTEST_RUN <= behind + ahead < _RUN_CHARS:
            position -= behind
        else:
            position -= _count_pairs(before, after)
    while 0 < position < len(text) and (unicodedata.combining(text[position]) or text[position] in _JOINERS):
        position -= 1
    return position


def _count_pairs(before: str, after: str) -> int:
    """Return how many characters before a frontier belong to a run that is written in pairs or in single letters."""
    cut, rest = _IN_PAIR.match(before[: -_NEAR_CHARS - 1 : -1]), _IN_PAIR.match(after)
    if cut is None or rest is None or _PAIR.fullmatch(cut[0][::-1] + rest[0]) is None:
        return 0
    for chars in (_NEAR_CHARS, _RUN_CHARS):  # a copy of all that is before is needed for few texts only
        behind, ahead = _PAIRS_BEHIND.match(before[: -chars - 1 : -1], cut.end()), _PAIRS_AHEAD.match(after, rest.end())
        if behind is None or ahead is None or behind.end() < chars // 2:
            break
    if behind is None or ahead is None or behind.end() + ahead.end() >= _RUN_CHARS:
        return 0
    pairs = len(_SEAM.findall(behind[0])) + len(_SEAM.findall(ahead[0]))
    fewest = _FEWEST_AT_END if ahead.end() == len(after) else _FEWEST_PAIRS
    return behind.end() if pairs >= fewest else 0


def end_of_words(text: str, start: int) -> int:
    """Return where the text ends at a word's end, so that a boundary rule sees whole words only.

    Args:
        text: the text so far.
        start: where the part not yet judged begins; without white space after it the whole text is taken.
    """
    tail = text[max(start, len(text) - WORD_CHARS) :]
    if tail[-1:].isspace():
        return len(text) - 1
    words = tail.rsplit(None, 1)
    last = words[-1] if words else ""
    return len(text) - len(last) - 1 if len(last) < len(tail) else len(text)


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
