"""Trial keys by the order they were added, in a file that ends with the process; memory holds only a part of them.

A trial key is a sha256 in hexadecimal, so its 32 bytes are kept. Any other text is kept as it is, under its own sha256.
Keys are mostly looked up in the order they were added, so those near the last one found are kept in a dict; for any
other there is an index, sorted in a file too, which is made when it is first needed.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge

from evals.spill import Spill

_BYTES = 32
_HEX = 2 * _BYTES
_WINDOW = 512
"""Keys beside each other that are kept in memory at a time; there are at most three such parts."""
_TRUST = 4
"""Keys that must have been found in one part before the next one is believed to come now."""
_RUN = 4096
_ENTRY = _BYTES + 4
_BLOCK = 64


class Keys:
    """Keys and their places, from 0 in the order they were added; a key is never taken out."""

    def __init__(self) -> None:
        self._raw = Spill()
        self._names: _Names | None = None  # of keys that are no sha256
        self._single: dict[bytes, int] = {}  # added after the first search
        self._indexed: int | None = None  # how many there were then
        self._index: _Index | None = None
        self._before: dict[bytes, int] = {}
        self._near: dict[bytes, int] = {}
        self._next = 0
        self._hits = _TRUST
        self._last: int = -1
        self._block = (0, b"")

    def __len__(self) -> int:
        return len(self._raw) // _BYTES

    def __iter__(self) -> Iterator[str]:
        return map(self.key, range(len(self)))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.find(key) is not None

    def key(self, place: int) -> str:
        """Return the key at a place."""
        name = self._names.name(place) if self._names is not None else ""
        if name:
            return name
        first, block = self._block
        start = (place - first) * _BYTES
        if not 0 <= start < len(block):
            self._block = first, block = place, self._raw.read(place * _BYTES, _WINDOW * _BYTES)
            start = 0
        digest = block[start : start + _BYTES]
        return "" if self._names is not None and digest == _EMPTY else digest.hex()

    def append(self, key: str) -> int:
        """Add a key that may be there already, and return its place: one that is there twice has two."""
        digest = _digest(key)
        place = len(self)
        self._raw.append(digest)
        if digest.hex() != key:
            self._names = self._names or _Names()
            self._names.put(place, key)
        if self._indexed is not None:
            self._single.setdefault(digest, place)
        return place

    def add(self, key: str) -> int:
        """Return the place of a key, the next one when it is new."""
        place = self.find(key)
        return self.append(key) if place is None else place

    def find(self, key: str) -> int | None:
        """Return the place of a key, any of them when it was appended several times, None when it was not."""
        digest = _digest(key)
        place = self._near.get(digest)
        if place is not None:
            self._hits += 1
            return place
        place = self._before.get(digest)
        return self._search(digest) if place is None else place

    def doubled(self) -> Iterator[tuple[str, int]]:
        """Yield the keys that were appended several times before the first search, with how often."""
        for place, times in self._indexed_keys().doubled():
            yield self.key(place), times

    def _search(self, digest: bytes) -> int | None:
        if self._indexed is None:
            self._indexed = len(self)
        place = self._single.get(digest)
        if place is not None or not self._indexed:
            return place
        if self._hits >= _TRUST and self._next < self._indexed:
            ahead = self._part(self._next)
            place = ahead.get(digest)
            if place is not None:
                self._move(ahead)
                return place
            self._hits = 0
        place = self._indexed_keys().find(digest)
        if place is not None:
            part: int = place // _WINDOW * _WINDOW
            if part == self._last:  # the second one from there: more will come
                self._next = part
                self._move(self._part(part))
            self._last = part
        return place

    def _part(self, start: int) -> dict[bytes, int]:
        end = min(start + _WINDOW, self._indexed or 0)
        data = self._raw.read(start * _BYTES, (end - start) * _BYTES)
        return {data[at : at + _BYTES]: start + at // _BYTES for at in range(len(data) - _BYTES, -1, -_BYTES)}

    def _move(self, near: dict[bytes, int]) -> None:
        self._before, self._near = self._near, near
        self._next += _WINDOW
        self._hits = 0

    def _indexed_keys(self) -> _Index:
        if self._indexed is None:
            self._indexed = len(self)
        if self._index is None:
            self._index = _Index(self._raw, self._indexed)
        return self._index


class _Names:
    """Texts by place, most of them perhaps none."""

    def __init__(self) -> None:
        self._texts = Spill()
        self._ends = Spill()

    def put(self, place: int, text: str) -> None:
        """Keep the text of a place behind all others."""
        end = len(self._texts).to_bytes(8)
        while len(self._ends) < 8 * place:
            self._ends.append(end * min(1024, place - len(self._ends) // 8))
        self._texts.append(text.encode("utf-8", "surrogatepass"))
        self._ends.append(len(self._texts).to_bytes(8))

    def name(self, place: int) -> str:
        """Return the text of a place, empty where there is none."""
        found = self._ends.read(8 * max(0, place - 1), 16)
        start, end = int.from_bytes(found[:8]), int.from_bytes(found[8:])
        if place == 0:
            start, end = 0, start
        return self._texts.read(start, max(0, end - start)).decode("utf-8", "surrogatepass")


class _Index:
    """Digests in order with their places; in memory only the first of every block.

    Args:
        raw: digests.
        count: how many of them.
    """

    def __init__(self, raw: Spill, count: int) -> None:
        runs = Spill()
        for first in range(0, count, _RUN):
            data = raw.read(first * _BYTES, min(_RUN, count - first) * _BYTES)
            entries = [
                data[at : at + _BYTES] + (first + at // _BYTES).to_bytes(4) for at in range(0, len(data), _BYTES)
            ]
            entries.sort()
            runs.append(b"".join(entries))
        self._sorted = Spill()
        self._firsts = array("Q")
        size = _RUN * _ENTRY
        block: list[bytes] = []
        for entry in merge(*[_entries(runs, start, start + size) for start in range(0, len(runs), size)]):
            block.append(entry)
            if len(block) == _BLOCK:
                self._keep(block)
                block = []
        self._keep(block)

    def _keep(self, block: list[bytes]) -> None:
        if block:
            self._firsts.append(int.from_bytes(block[0][:8]))
            self._sorted.append(b"".join(block))

    def find(self, digest: bytes) -> int | None:
        """Return the first place of a digest."""
        first = int.from_bytes(digest[:8])
        number = max(0, bisect_right(self._firsts, first) - 1)
        while number > 0 and self._firsts[number] == first:  # digests that begin alike fill several blocks
            number -= 1
        for at in range(number, len(self._firsts)):
            if self._firsts[at] > first:
                break
            block = self._sorted.read(at * _BLOCK * _ENTRY, _BLOCK * _ENTRY)
            start = block.find(digest)
            while start >= 0 and start % _ENTRY:
                start = block.find(digest, start + 1)
            if start >= 0:
                return int.from_bytes(block[start + _BYTES : start + _ENTRY])
        return None

    def doubled(self) -> Iterator[tuple[int, int]]:
        """Yield the first place of every digest that is there several times, with how often."""
        last, place, times = b"", 0, 0
        for entry in _entries(self._sorted, 0, len(self._sorted)):
            digest = entry[:_BYTES]
            if digest == last:
                times += 1
                continue
            if times > 1:
                yield place, times
            last, place, times = digest, int.from_bytes(entry[_BYTES:]), 1
        if times > 1:
            yield place, times


def _entries(source: Spill, start: int, end: int) -> Iterator[bytes]:
    size = _BLOCK * _ENTRY
    for at in range(start, min(end, len(source)), size):
        block = source.read(at, min(size, end - at))
        yield from [block[place : place + _ENTRY] for place in range(0, len(block), _ENTRY)]


def _digest(key: str) -> bytes:
    if len(key) == _HEX:
        try:
            digest = bytes.fromhex(key)
        except ValueError:
            digest = b""
        if digest.hex() == key:
            return digest
    return hashlib.sha256(f"\0{key}".encode("utf-8", "surrogatepass")).digest()


_EMPTY = _digest("")
