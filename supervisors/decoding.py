"""Find runs in a text and decode them: base64 and hex, where one stretch of a text is another text.

Escapes, which stand for characters in place, are read by `supervisors.escapes`.

The pre-checks work on one byte a character, in a handful of C calls: a plain text of 600 characters costs a few
microseconds, and a text of a megabyte a few milliseconds.
"""

from __future__ import annotations

import binascii
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import itemgetter

from supervisors.offsets import Place

MIN_RUN = 16
"""Characters a base64 or hex run has at least (guarding §2)."""

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
_DIGITS = b"0123456789"


@dataclass(frozen=True, slots=True)
class Run:
    """One encoded stretch ``raw[start:end]`` and what it says."""

    start: int
    end: int
    text: str


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
    covered: list[Place] = []
    for shift in range(4):
        decoded = binascii.a2b_base64(dense[shift : len(dense) - (len(dense) - shift) % 4])
        marks = decoded.translate(_MARK_READABLE)
        if _READABLE_MIN in marks:
            source = _Source(data, words, dense)
            for match in _READABLE.finditer(marks):
                run = _read_words(source, shift, Place(*match.span()))
                if run is not None:
                    covered.append(Place(run.start, run.end))
                    yield run
    if b"\1" * MIN_RUN in words:
        yield from _unbroken_runs(data, sorted(covered))


def _unbroken_runs(data: bytes, covered: Sequence[Place]) -> Iterator[Run]:
    for match in _RUN.finditer(data):
        i = bisect_left(covered, match.start() + 1, key=itemgetter(0)) - 1
        if i < 0 or covered[i].end < match.end():
            text = _read(_a2b(match.group()))
            if text is not None:
                yield Run(match.start(), match.end(), text)


@dataclass(frozen=True)
class _Source:
    """A text, one byte a character; which of them are base64 characters; and those alone."""

    data: bytes
    words: bytes
    dense: bytes
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

    def find_word(self, offset: int) -> Place:
        """Return the unbroken run of base64 characters around an offset."""
        end = self.words.find(b"\0", offset)
        return Place(self.words.rfind(b"\0", 0, offset) + 1, len(self.data) if end < 0 else end)

    def reads(self, word: Place) -> bool:
        """Say whether a word is readable as a whole; asked once a word, however many texts are in it."""
        if word not in self.readable:
            self.readable[word] = _read(_a2b(self.data[word.start : word.end])) is not None
        return self.readable[word]


def _read_words(source: _Source, shift: int, readable: Place) -> Run | None:
    """Take the words of the text that a readable stretch of decoded bytes covers."""
    first, last = shift + (readable.start + 2) // 3 * 4, shift + readable.end // 3 * 4
    if last - first < MIN_RUN - 4:
        return None
    start, stop = source.at[first], source.at[last - 1] + 1
    if source.words.find(b"\0", start, stop) < 0:
        return _read_within_word(source, first, last)
    words: list[Place] = []
    for match in _WORD.finditer(source.data, start):
        if match.start() >= stop:
            break
        whole = match.start() == 0 or not source.words[match.start() - 1]
        if words or (whole and (bisect_left(source.at, match.start()) - shift) % 4 == 0):
            words.append(Place(*match.span()))
    if words and bisect_left(source.at, words[-1].end) > last + 3:
        words.pop()  # the last word goes on, and not readably: it is no part of the run
    if len(words) < 2:
        return None
    text = _read(_a2b(b"".join([source.data[word.start : word.end] for word in words])))
    return None if text is None else Run(words[0].start, _skip_padding(source.data, words[-1].end), text)


def _read_within_word(source: _Source, first: int, last: int) -> Run | None:
    """Read a text inside one unreadable word (a path, a glued prefix): long, or between signs; the run is the word."""
    data, at = source.data, source.at
    stop = last
    while stop < min(last + 3, len(at)) and at[stop] == at[stop - 1] + 1 and at[stop] in source:
        stop += 1
    alone = at[first] - 1 not in source and at[stop - 1] + 1 not in source
    if not alone and last - first < _STRAY_CHARS:
        return None
    word = source.find_word(at[first])
    if source.reads(word):
        return None  # found as a whole
    text = _read(_a2b(source.dense[first:stop])) or _read(_a2b(source.dense[first:last]))
    return None if text is None else Run(word.start, _skip_padding(data, word.end), text)


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
        digits = _HEX_PREFIX.sub(b"", data[start:end]).translate(None, _NOT_HEX)
        if len(digits) >= MIN_RUN:
            text = _read_hex(digits) or _read_hex(digits[1:])
            if text is not None:
                yield Run(start, end, text)


def _read_hex(digits: bytes) -> str | None:
    """Read all of the digits, or the longest text of twelve bytes or more among them."""
    data = binascii.unhexlify(digits[: len(digits) // 2 * 2])
    whole = _read(data)
    if whole is not None:
        return whole
    strays = [match.span() for match in _READABLE.finditer(data.translate(_MARK_READABLE))]
    start, end = max(strays, key=lambda span: span[1] - span[0], default=(0, 0))
    return _read(data[start:end])


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
