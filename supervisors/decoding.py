"""Find runs in a text and decode them: base64 and hex, where one stretch of a text is another text.

Escapes, which stand for characters in place, are read by `supervisors.escapes`.

The pre-checks work on one byte a character, in a handful of C calls: a plain text of 600 characters costs a few
microseconds, and a text of a megabyte a few milliseconds.
"""

from __future__ import annotations

import binascii
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, pairwise
from operator import itemgetter
from typing import TypeAlias

from supervisors.offsets import Offsets, Place

MIN_RUN = 16
"""Characters a base64 or hex run has at least (guarding §2)."""

_TAIL_WORDS = 256
_STRAY_CHARS = 24
_SLICE = 65_536
"""Characters of an unreadable word that read as 18 printable bytes are taken for a text hidden in it."""

_PRINTABLE = 0.9
_BASE64_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_NOT_BASE64 = bytes(i for i in range(256) if i not in _BASE64_CHARS)
_NOT_HEX = bytes(i for i in range(256) if i not in b"0123456789abcdefABCDEF")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_MARK_BASE64 = bytes(int(i in _BASE64_CHARS) for i in range(256))
_MARK_READABLE = bytes(int(32 <= i < 127 or i in b"\t\r\n") for i in range(256))
_READABLE_MIN = b"\1" * (MIN_RUN * 3 // 4)

_READABLE = re.compile(rb"\x01{12,}")
_WORD = re.compile(rb"[A-Za-z0-9+/_-]+")
_RUN = re.compile(rb"[A-Za-z0-9+/_-]{16,}=*")
_HEX_REGION = re.compile(rb"[0-9A-Fa-fx\\\s:,;-]{16,}")
_HEX_UNIT = rb"(?:(?:[\s:,;-]{0,2}(?:0x|\\x)|[\s:-])?[0-9A-Fa-f]{2})"
_HEX_RUN = re.compile(rb"(?:(?<![0-9A-Za-z])|0x|\\x)[0-9A-Fa-f]{2}" + _HEX_UNIT + rb"{7,4000}|[0-9A-Fa-f]{16,4000}")
_HEX_MORE = re.compile(_HEX_UNIT + rb"{1,4000}")
_HEX_PREFIX = re.compile(rb"0x|\\x")
_HEX_GAPS = bytes(32 if i in _NOT_HEX else i for i in range(256))
_DIGITS = b"0123456789"
_NO_WORDS = Offsets()


_Word: TypeAlias = tuple[int, int]
"""Where a word begins and ends; a text may have half a million, and a `Place` costs more than all else."""


@dataclass(frozen=True, slots=True)
class Run:
    """One encoded stretch ``raw[start:end]`` and what it says.

    Args:
        start: its first character.
        end: one past its last.
        text: what it says.
        words: where in `text` the words of the stretch are that are long enough to be a run, and where they stand.
        shown: who reads the whole text should see it; false for what only a search for words needs.
    """

    start: int
    end: int
    text: str
    words: Offsets = _NO_WORDS
    shown: bool = True

    def locate(self, start: int, end: int) -> Place:
        """Return where ``text[start:end]`` stands: in one word, if that is a run, or in the whole stretch."""
        i = bisect_right(self.words.outs, start) - 1
        if i >= 0 and end <= self.words.out_ends[i]:
            return Place(self.words.starts[i], self.words.ends[i])
        return Place(self.start, self.end)


def find_runs(kind: str, text: str) -> Iterator[Run]:
    """Decode the base64 or hex runs of a text that say something readable.

    Args:
        kind: ``base64`` or ``hex``.
        text: any text.
    """
    data = text.encode("ascii", "replace")  # one byte a character, so offsets stay
    return _hex_runs(data) if kind == "hex" else _base64_runs(data)


def _base64_runs(data: bytes) -> Iterator[Run]:
    """Decode all characters of the alphabet at each of the four alignments and look for 12 readable bytes.

    So base64 is found with anything between its characters: line breaks, spaces, dots, characters nobody sees.
    What is readable but not ASCII is found only in unbroken runs.
    """
    words = data.translate(_MARK_BASE64)
    dense = data.translate(_TO_STANDARD, _NOT_BASE64)
    source = _Source(data, words, dense)
    for shift in range(4):
        decoded = binascii.a2b_base64(dense[shift : len(dense) - (len(dense) - shift) % 4])
        marks = decoded.translate(_MARK_READABLE)
        if _READABLE_MIN in marks:
            for match in _READABLE.finditer(marks):
                yield from _read_stretch(source, shift, Place(*match.span()))
    if b"\1" * MIN_RUN in words:
        yield from _unbroken_runs(data, sorted(source.covered))


def _unbroken_runs(data: bytes, covered: Sequence[Place]) -> Iterator[Run]:
    for match in _RUN.finditer(data):
        i = bisect_left(covered, match.start() + 1, key=itemgetter(0)) - 1
        if i < 0 or covered[i].end < match.end():
            text = _read(_a2b(match.group()))
            if text is not None:
                yield Run(match.start(), match.end(), text)


@dataclass(frozen=True)
class _Source:
    """A text, one byte a character; which of them are base64 characters; those alone; and what was read already."""

    data: bytes
    words: bytes
    dense: bytes
    covered: list[Place] = field(default_factory=list[Place])
    readable: dict[Place, bool] = field(default_factory=dict[Place, bool])

    @cached_property
    def at(self) -> Sequence[int]:
        """Return the offset in `data` of each byte of `dense`."""
        if self.words.startswith(b"\1" * len(self.dense)):  # one run: a list of its places would be most of the work
            return range(len(self.dense))
        at = array("I")
        for start in range(0, len(self.data), _SLICE):  # piece by piece: a long one would hold the interpreter lock
            at.extend(compress(range(start, start + _SLICE), self.words[start : start + _SLICE]))
        return at

    def __contains__(self, offset: int) -> bool:
        """Say whether there is a letter or digit at an offset."""
        return 0 <= offset < len(self.data) and self.data[offset : offset + 1].isalnum()

    def count(self, offset: int) -> int:
        """Return how many base64 characters stand before an offset."""
        return bisect_left(self.at, offset)

    def begins(self, offset: int) -> bool:
        """Say whether a run of base64 characters begins at an offset where one stands."""
        return offset == 0 or not self.words[offset - 1]

    def ends(self, first: int, last: int) -> bool:
        """Say whether a run of base64 characters ends between two offsets."""
        return last >= len(self.words) or self.words.find(b"\0", first, last + 1) >= 0

    def find_next(self, offset: int) -> Place | None:
        """Return the next run of base64 characters from an offset on."""
        start = self.words.find(b"\1", offset)
        return None if start < 0 else self.find_word(start)

    def find_word(self, offset: int) -> Place:
        """Return the unbroken run of base64 characters around an offset."""
        end = self.words.find(b"\0", offset)
        return Place(self.words.rfind(b"\0", 0, offset) + 1, len(self.data) if end < 0 else end)

    def reads(self, word: Place) -> bool:
        """Say whether a word is readable as a whole; asked once a word, however many texts are in it."""
        if word not in self.readable:
            self.readable[word] = _read(_a2b(self.data[word.start : word.end])) is not None
        return self.readable[word]


def _read_stretch(source: _Source, shift: int, readable: Place) -> Iterator[Run]:
    """Read what a readable stretch of decoded bytes covers: a text in one word, or words that join to one.

    Words beside a run may be base64 by accident or by intent, so what is joined is read with its words apart as well.
    A word that is covered in part is read by itself.
    """
    first, last = shift + (readable.start + 2) // 3 * 4, shift + readable.end // 3 * 4
    if last - first < MIN_RUN - 4:
        return
    start, stop = source.at[first], source.at[last - 1] + 1
    words: list[_Word] = []
    if source.words.find(b"\0", start, stop) < 0:
        yield from _read_within_word(source, first, last)
        if source.begins(start) and source.ends(stop, stop + 3):
            words = [source.find_word(start)]
    else:
        for match in _WORD.finditer(source.data, start, stop):
            at = source.count(match.start())
            if source.begins(match.start()) and (at - shift) % 4 == 0:
                words = [other.span() for other in _WORD.finditer(source.data, match.start(), stop)]
                words[-1] = source.find_word(words[-1][0])
                break
            yield from _read_within_word(source, at + (shift - at) % 4, min(last, source.count(match.end())))
    if words:
        yield from _read_words(source, words, last)


def _read_words(source: _Source, words: list[_Word], last: int) -> Iterator[Run]:
    """Read words that a stretch of readable bytes covers; the end of the text may stand in the next ones."""
    over = words.pop() if source.count(words[-1][1]) > last + 3 else None
    if over is not None:  # it goes on, and not readably: it is no part of the run
        yield from _read_within_word(source, source.count(over[0]), last)
    if len(words) > 1:
        yield from _join_words(source, words, last)
    words = _cut_tail(source, words)
    if over is not None and words and source.at[last] - 1 not in source:
        yield from _join_words(source, [*words, over], last, shown=False)
    while over is None and words:
        word = source.find_next(words[-1][1])
        if word is None or source.count(word.end) > last + 3:
            break
        words.append(word)
        yield from _join_words(source, words, last, shown=False)


def _cut_tail(source: _Source, words: Sequence[_Word]) -> list[_Word]:
    """Return the last words, from one on that begins with a byte."""
    if len(words) <= _TAIL_WORDS:
        return list(words)
    first = source.count(words[0][0])
    tail = [word for word in words[-_TAIL_WORDS : -_TAIL_WORDS // 2] if (source.count(word[0]) - first) % 4 == 0]
    return [word for word in words[-_TAIL_WORDS:] if tail and word >= tail[0]]


def _join_words(source: _Source, words: Sequence[_Word], last: int, *, shown: bool = True) -> Iterator[Run]:
    """Read words joined, and each by itself: where one of them begins and ends, so may a word of the text."""
    first = source.count(words[0][0])
    sizes = [end - start for start, end in words]
    data = _a2b(source.dense[first : first + sum(sizes)])
    text = _read(data)
    if text is None:
        data = data[: (last - first) // 4 * 3]
        text = _read(data)
    if text is None:
        return
    stands = [0, *accumulate(sizes)]
    cuts = [at * 3 // 4 for at in stands]
    long = [i for i, size in enumerate(sizes) if size >= MIN_RUN]
    start, end = words[0][0], _skip_padding(source.data, words[-1][1])
    yield Run(start, end, text, _find_words(source, words, cuts, long, 0), shown)
    said = _read(b" ".join([data[left:right] for left, right in pairwise(cuts)]))
    if said is not None:
        yield Run(start, end, said, _find_words(source, words, cuts, long, 1), shown=False)
        if shown:
            source.covered.extend([Place(*words[i]) for i in long if stands[i] % 4 == 0])


def _find_words(
    source: _Source, words: Sequence[_Word], cuts: Sequence[int], long: Sequence[int], space: int
) -> Offsets:
    """Say where the words that are runs of their own are in what they say, with so many spaces between words."""
    return Offsets(
        tuple([cuts[i] + i * space for i in long]),
        tuple([cuts[i + 1] + i * space for i in long]),
        tuple([words[i][0] for i in long]),
        tuple([_skip_padding(source.data, words[i][1]) for i in long]),
    )


def _read_within_word(source: _Source, first: int, last: int) -> Iterator[Run]:
    """Read a text inside one unreadable word (a path, a glued prefix): long, or between signs; the run is the word."""
    data, at = source.data, source.at
    last -= (last - first) % 4
    if last - first < MIN_RUN - 4:
        return
    stop = last
    while stop < min(last + 3, len(at)) and at[stop] == at[stop - 1] + 1 and at[stop] in source:
        stop += 1
    alone = at[first] - 1 not in source and at[stop - 1] + 1 not in source
    if not alone and last - first < _STRAY_CHARS:
        return
    word = source.find_word(at[first])
    if source.reads(word):
        return  # found as a whole
    text = _read(_a2b(source.dense[first:stop])) or _read(_a2b(source.dense[first:last]))
    if text is not None:
        source.covered.append(word)
        yield Run(word.start, _skip_padding(data, word.end), text)


def _skip_padding(data: bytes, end: int) -> int:
    while end < len(data) and data[end] == 61:
        end += 1
    return end


def _a2b(run: bytes) -> bytes:
    run = run.translate(_TO_STANDARD, b"=")
    if len(run) % 4 == 1:
        run = run[:-1]
    return binascii.a2b_base64(run + b"=" * (-len(run) % 4))


def _hex_runs(data: bytes) -> Iterator[Run]:
    if len(data) - len(data.translate(None, _DIGITS)) < MIN_RUN // 2:
        return  # every readable ASCII byte begins with a digit
    for start, end in _find_hex(data):
        written = _HEX_PREFIX.sub(b"", data[start:end])
        digits = written.translate(None, _NOT_HEX)
        if len(digits) < MIN_RUN:
            continue
        text = _read_hex(digits)
        if text is not None:
            yield Run(start, end, text)
        apart = None if len(digits) == len(written) else _read_hex(written.translate(_HEX_GAPS).replace(b" ", b"20"))
        if apart is not None and apart != text:  # what stands beside bytes may look like some
            yield Run(start, end, apart, shown=text is None)


def _read_hex(digits: bytes) -> str | None:
    """Read all of the digits, or every text of twelve bytes or more among them, wherever its first byte begins."""
    data = binascii.unhexlify(digits[: len(digits) // 2 * 2])
    whole = _read(data)
    if whole is not None:
        return whole
    odd = binascii.unhexlify(digits[1 : 1 + (len(digits) - 1) // 2 * 2])
    found = [text for each in (data, odd) for text in _find_texts(each)]
    return b"\n".join(found).decode("ascii") or _read(odd)


def _find_texts(data: bytes) -> Iterator[bytes]:
    marks = data.translate(_MARK_READABLE)
    if _READABLE_MIN in marks:
        for match in _READABLE.finditer(marks):
            yield data[match.start() : match.end()]


def _find_hex(data: bytes) -> Iterator[Place]:
    """Find bytes written in hex. A long run is matched piece by piece: a match holds the interpreter lock."""
    for region in _HEX_REGION.finditer(data):
        at = region.start()
        while (match := _HEX_RUN.search(data, at, region.end())) is not None:
            at = match.end()
            while (more := _HEX_MORE.match(data, at, region.end())) is not None:
                at = more.end()
            if data[at : at + 1] and data[at] not in _NOT_HEX:
                at += 1  # an odd digit: one before the bytes, perhaps
            yield Place(match.start(), at)


def _read(data: bytes) -> str | None:
    """Decode bytes if they are text: UTF-8 (or UTF-16 as Windows writes it), nine tenths of it printable."""
    wide = len(data) >= 8 and not any(data[1:16:2])
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
