"""Find runs in a text and decode them: base64 and hex, where one stretch of a text is another text.

Escapes, which stand for characters in place, are read by `supervisors.escapes`.

The pre-checks work on one byte a character, in a handful of C calls: a plain text of 600 characters costs a few
microseconds, and a text of a megabyte a few milliseconds.
"""

from __future__ import annotations

import binascii
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, pairwise
from operator import itemgetter

from supervisors.hexadecimal import find_hex_runs
from supervisors.offsets import Place
from supervisors.runs import (
    MARK_READABLE,
    MIN_RUN,
    READABLE_MIN,
    WORD,
    Pick,
    Run,
    Words,
    find_long,
    find_readable,
    read_text,
    skip_padding,
)

_TAIL_WORDS = 256
_STRAY_CHARS = 24
"""Characters of an unreadable word that read as 18 printable bytes are taken for a text hidden in it."""
_BLOCK = 512
"""Characters whose places are worked out together."""

_BASE64_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_NOT_BASE64 = bytes(i for i in range(256) if i not in _BASE64_CHARS)
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_TO_SPACES = bytes([i if i in _BASE64_CHARS else 32 for i in range(256)])
_PADDING = (b"", b"", b"==", b"=")
_MARK_BASE64 = bytes(int(i in _BASE64_CHARS) for i in range(256))


def find_runs(kind: str, text: str, pick: Pick | None = None) -> Iterator[Run]:
    """Decode the base64 or hex runs of a text that say something readable.

    Args:
        kind: ``base64`` or ``hex``.
        text: any text.
        pick: returns the places that are asked about, so that the rest need not be decoded; runs that are found in
            other ways are returned wherever they are. None where everything is asked about.
    """
    data = text.encode("ascii", "replace")  # one byte a character, so offsets stay
    return find_hex_runs(data, pick) if kind == "hex" else _base64_runs(data, pick)


def _base64_runs(data: bytes, pick: Pick | None) -> Iterator[Run]:
    """Decode all characters of the alphabet at each of the four alignments and look for 12 readable bytes.

    So base64 is found with anything between its characters: line breaks, spaces, dots, characters nobody sees.
    What is readable but not ASCII is found only in unbroken runs.
    """
    words = data.translate(_MARK_BASE64)
    dense = data.translate(_TO_STANDARD, _NOT_BASE64)
    source = _Source(data, words, dense)
    for shift in range(4):
        decoded = binascii.a2b_base64(dense[shift : len(dense) - (len(dense) - shift) % 4])
        marks = decoded.translate(MARK_READABLE)
        if READABLE_MIN in marks:
            for readable in find_readable(marks):
                yield from _read_stretch(source, shift, readable)
    if b"\1" * MIN_RUN in words:
        yield from _unbroken_runs(source, pick)


def _unbroken_runs(source: _Source, pick: Pick | None) -> Iterator[Run]:
    data, covered = source.data, sorted(source.covered)
    standard = data.translate(_TO_STANDARD)
    places = [(start, skip_padding(data, end)) for start, end in find_long(source.words)]
    for start, stop in places if pick is None else pick(places):
        end = source.words.find(b"\0", start, stop)
        end = stop if end < 0 else end
        if covered:
            i = bisect_left(covered, start + 1, key=itemgetter(0)) - 1
            if i >= 0 and covered[i].end >= end:
                continue
        text = read_text(_a2b(standard[start:end]))
        if text is not None:
            yield Run(start, stop, text)


@dataclass(frozen=True)
class _Source:
    """A text, one byte a character; which of them are base64 characters; those alone; and what was read already.

    Where each of those alone stands is worked out block by block, for the blocks that are asked about: a text with one
    run in it needs one, and a list of all places would cost more than all the decoding.
    """

    data: bytes
    words: bytes
    dense: bytes
    covered: list[Place] = field(default_factory=list[Place])
    readable: dict[Place, bool] = field(default_factory=dict[Place, bool])

    blocks: dict[int, Sequence[int]] = field(default_factory=dict[int, "Sequence[int]"])

    @cached_property
    def before(self) -> Sequence[int]:
        """Return how many base64 characters stand before each block."""
        starts = range(0, len(self.words), _BLOCK)
        return [0, *accumulate([self.words.count(b"\1", start, start + _BLOCK) for start in starts])]

    @cached_property
    def spaced(self) -> bytes:
        """Return the text with a space for everything that is no base64 character."""
        return self.data.translate(_TO_SPACES)

    def at(self, index: int) -> int:
        """Return the offset in `data` of a byte of `dense`."""
        number = bisect_right(self.before, index) - 1
        block = self.blocks.get(number)
        if block is None:
            start = number * _BLOCK
            places = range(start, start + _BLOCK)
            block = self.blocks[number] = array("I", compress(places, self.words[start : start + _BLOCK]))
        return block[index - self.before[number]]

    def __contains__(self, offset: int) -> bool:
        """Say whether there is a letter or digit at an offset."""
        return 0 <= offset < len(self.data) and self.data[offset : offset + 1].isalnum()

    def count(self, offset: int) -> int:
        """Return how many base64 characters stand before an offset."""
        number = min(offset, len(self.words)) // _BLOCK
        return self.before[number] + self.words.count(b"\1", number * _BLOCK, offset)

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
            self.readable[word] = read_text(_a2b(self.data[word.start : word.end].translate(_TO_STANDARD))) is not None
        return self.readable[word]


def _read_stretch(source: _Source, shift: int, readable: Place) -> Iterator[Run]:
    """Read what a readable stretch of decoded bytes covers: a text in one word, or words that join to one.

    Words beside a run may be base64 by accident or by intent, so what is joined is read with its words apart as well.
    A word that is covered in part is read by itself.
    """
    first, last = shift + (readable.start + 2) // 3 * 4, shift + readable.end // 3 * 4
    if last - first < MIN_RUN - 4:
        return
    start, stop = source.at(first), source.at(last - 1) + 1
    if source.words.find(b"\0", start, stop) < 0:
        yield from _read_within_word(source, first, last)
        if source.begins(start) and source.ends(stop, stop + 3):
            yield from _read_words(source, start, source.find_word(start), last)
        return
    for match in WORD.finditer(source.data, start, stop):
        at = source.count(match.start())
        if source.begins(match.start()) and (at - shift) % 4 == 0:
            yield from _read_words(source, match.start(), source.find_word(stop - 1), last)
            break
        yield from _read_within_word(source, at + (shift - at) % 4, min(last, source.count(match.end())))


def _read_words(source: _Source, start: int, final: Place, last: int) -> Iterator[Run]:
    """Read words that a stretch of readable bytes covers; the end of the text may stand in the next ones.

    Args:
        source: the text.
        start: where the first of them begins.
        final: the last of them.
        last: one past the last byte of `dense` that is surely readable.
    """
    over = final if source.count(final.end) > last + 3 else None
    end = final.end
    if over is not None:  # it goes on, and not readably: it is no part of the run
        yield from _read_within_word(source, source.count(over.start), last)
        end = source.words.rfind(b"\1", start, over.start) + 1
    if end <= start:
        return
    if source.words.find(b"\0", start, end) >= 0:
        yield from _join_words(source, Place(start, end), last)
    begin = _find_tail(source, start, end)
    if begin is None:
        return
    if over is not None:
        if source.at(last) - 1 not in source:
            yield from _join_words(source, Place(begin, over.end), last, shown=False)
        return
    word = source.find_next(end)
    while word is not None and source.count(word.end) <= last + 3:
        yield from _join_words(source, Place(begin, word.end), last, shown=False)
        word = source.find_next(word.end)


def _find_tail(source: _Source, start: int, end: int) -> int | None:
    """Return where the last words of some begin, with one that begins with a byte; None where there is no such one."""
    starts: list[int] = []
    at = end
    while at > start and len(starts) <= _TAIL_WORDS:
        starts.append(max(start, source.words.rfind(b"\0", start, at) + 1))
        at = source.words.rfind(b"\1", start, starts[-1]) + 1
    if len(starts) <= _TAIL_WORDS:
        return start
    first = source.count(start)
    early = reversed(starts[_TAIL_WORDS // 2 : _TAIL_WORDS])
    return next((begin for begin in early if (source.count(begin) - first) % 4 == 0), None)


def _join_words(source: _Source, place: Place, last: int, *, shown: bool = True) -> Iterator[Run]:
    """Read words joined, and each by itself: where one of them begins and ends, so may a word of the text."""
    first = source.count(place.start)
    sizes = list(map(len, source.spaced[place.start : place.end].split()))
    data = _a2b(source.dense[first : first + sum(sizes)])
    text = read_text(data)
    if text is None:
        data = data[: (last - first) // 4 * 3]
        text = read_text(data)
    if text is None:
        return
    start, end = place.start, skip_padding(source.data, place.end)
    some = max(sizes) >= MIN_RUN
    yield Run(start, end, text, Words(source.data, place, 0) if some else None, shown)
    cuts = [at * 3 // 4 for at in accumulate(sizes, initial=0)]
    said = read_text(b" ".join([data[left:right] for left, right in pairwise(cuts)]))
    if said is not None:
        yield Run(start, end, said, Words(source.data, place, 1) if some else None, shown=False)
        if shown and some:
            source.covered.extend(_find_whole(source.data, place))


def _find_whole(data: bytes, place: Place) -> Iterator[Place]:
    """Return the words that are long enough to be runs of their own and begin with a byte of what is joined."""
    stands = 0
    for match in WORD.finditer(data, *place):
        size = match.end() - match.start()
        if size >= MIN_RUN and stands % 4 == 0:
            yield Place(*match.span())
        stands += size


def _read_within_word(source: _Source, first: int, last: int) -> Iterator[Run]:
    """Read a text inside one unreadable word (a path, a glued prefix); the run is the word.

    A short one glued to letters may be noise: it is searched, but not shown to who reads whole texts.
    """
    data, at = source.data, source.at
    last -= (last - first) % 4
    if last - first < MIN_RUN - 4:
        return
    stop = last
    while stop < min(last + 3, len(source.dense)) and at(stop) == at(stop - 1) + 1 and at(stop) in source:
        stop += 1
    alone = at(first) - 1 not in source and at(stop - 1) + 1 not in source
    shown = alone or last - first >= _STRAY_CHARS
    word = source.find_word(at(first))
    if source.reads(word):
        return  # found as a whole
    text = read_text(_a2b(source.dense[first:stop])) or read_text(_a2b(source.dense[first:last]))
    if text is not None and (shown or _is_wordy(text)):
        if shown:
            source.covered.append(word)
        yield Run(word.start, skip_padding(data, word.end), text, shown=shown)


def _is_wordy(text: str) -> bool:
    """Say whether a text is letters, digits and spaces for the most part; what noise decodes to seldom is."""
    return sum([char.isalnum() or char == " " for char in text]) * 6 >= len(text) * 5


def _a2b(run: bytes) -> bytes:
    """Decode characters of the standard alphabet, without padding."""
    over = len(run) % 4
    return binascii.a2b_base64(run + _PADDING[over] if over != 1 else run[:-1])
