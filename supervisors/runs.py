"""What an encoded run says and where, and when decoded bytes are text: shared by the readers of base64 and of hex."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from supervisors.offsets import Offsets, Place

Pick = Callable[[Sequence[tuple[int, int]]], Iterable[tuple[int, int]]]
"""Returns those of some places of a text that are asked about."""

MIN_RUN = 16
"""Characters a base64 or hex run has at least (guarding §2)."""

MARK_READABLE = bytes(int(32 <= i < 127 or i in b"\t\r\n") for i in range(256))
READABLE_MIN = b"\1" * (MIN_RUN * 3 // 4)
WORD = re.compile(rb"[A-Za-z0-9+/_-]+")
_MARKED = re.compile(b"\1" * MIN_RUN + b"\1*")  # a search looks for the plain beginning first
_PRINTABLE = 0.9
_SHORT = 64
"""Bytes up to which a search for what no text in UTF-8 holds is cheaper than an exception."""
_BROKEN = re.compile(rb"[\xc0-\xff][\x00-\x7f\xc0-\xff]")
_NO_WORDS = Offsets()


@dataclass(frozen=True, slots=True)
class Run:
    """One encoded stretch ``raw[start:end]`` and what it says.

    Args:
        start: its first character.
        end: one past its last.
        text: what it says.
        words: the words of the stretch that are long enough to be runs of their own; None where there are none.
        shown: who reads the whole text should see it; false for what only a search for words needs.
    """

    start: int
    end: int
    text: str
    words: Words | None = None
    shown: bool = True

    def locate(self, start: int, end: int) -> Place:
        """Return where ``text[start:end]`` stands: in one word, if that is a run, or in the whole stretch."""
        words = _NO_WORDS if self.words is None else self.words.offsets
        i = bisect_right(words.outs, start) - 1
        if i >= 0 and end <= words.out_ends[i]:
            return Place(words.starts[i], words.ends[i])
        return Place(self.start, self.end)


@dataclass(frozen=True)
class Words:
    """The words of a stretch that are runs of their own: where they stand, and where what they say is.

    Args:
        data: the text, one byte a character.
        place: the stretch.
        space: how many spaces are between the words in what it says.
    """

    data: bytes
    place: Place
    space: int

    @cached_property
    def offsets(self) -> Offsets:
        """Return where they are in what the stretch says; asked for only when something was found in it."""
        spans = [match.span() for match in WORD.finditer(self.data, *self.place)]
        cuts = [at * 3 // 4 for at in accumulate([end - start for start, end in spans], initial=0)]
        long = [i for i, (start, end) in enumerate(spans) if end - start >= MIN_RUN]
        return Offsets(
            tuple([cuts[i] + i * self.space for i in long]),
            tuple([cuts[i + 1] + i * self.space for i in long]),
            tuple([spans[i][0] for i in long]),
            tuple([skip_padding(self.data, spans[i][1]) for i in long]),
        )


def find_readable(marks: bytes) -> Iterator[Place]:
    """Return the stretches of twelve readable bytes or more."""
    start = marks.find(READABLE_MIN)
    while start >= 0:
        end = marks.find(b"\0", start + len(READABLE_MIN))
        end = len(marks) if end < 0 else end
        yield Place(start, end)
        start = marks.find(READABLE_MIN, end)


def find_long(marks: bytes) -> Sequence[tuple[int, int]]:
    """Return the unbroken stretches of sixteen marks or more."""
    return [match.span() for match in _MARKED.finditer(marks)]


def skip_padding(data: bytes, end: int) -> int:
    """Return the end of a run with the padding after it."""
    while end < len(data) and data[end] == 61:
        end += 1
    return end


def read_text(data: bytes) -> str | None:
    """Decode bytes if they are text: UTF-8 (or UTF-16 as Windows writes it), nine tenths of it printable."""
    wide = len(data) >= 8 and not data[1] and not any(data[1:16:2])
    if not wide and data and (0x80 <= data[0] < 0xC2 or data[0] > 0xF4 or data[-1] >= 0xC0):
        return None  # no character begins or ends so: most noise is told here, without an exception
    if not wide and len(data) <= _SHORT and _BROKEN.search(data):
        return None  # and here most of the rest
    try:
        text = data[: len(data) // 2 * 2].decode("utf-16-le") if wide else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not text:
        return None
    if text.isprintable():
        return text
    printable = sum([char.isprintable() or char.isspace() for char in text])
    return text if printable >= _PRINTABLE * len(text) else None
