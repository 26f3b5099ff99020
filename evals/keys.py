"""Trial keys by the order they were first seen, in about 45 bytes each instead of the 200 of a text in a dict.

A trial key is a sha256 in hexadecimal, so its 32 bytes are kept, and the first four of them are its place in a table
of numbers. Any other text is kept as it is, under its own sha256.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator

_BYTES = 32
_HEX = 2 * _BYTES
_FIRST_SIZE = 1024


class Keys:
    """Keys and their places, from 0 in the order they were added; a key is never taken out."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._odd: dict[int, str] = {}
        self._table = array("I", bytes(4 * _FIRST_SIZE))  # place + 1; 0 is free

    def __len__(self) -> int:
        return len(self._raw) // _BYTES

    def __iter__(self) -> Iterator[str]:
        return map(self.key, range(len(self)))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.find(key) is not None

    def key(self, place: int) -> str:
        """Return the key at a place."""
        start = place * _BYTES
        odd = self._odd.get(place)
        return self._raw[start : start + _BYTES].hex() if odd is None else odd

    def find(self, key: str) -> int | None:
        """Return the place of a key, None when it was never added."""
        found = self._table[self._slot(_digest(key))]
        return found - 1 if found else None

    def add(self, key: str) -> int:
        """Return the place of a key, the next one when it is new."""
        digest = _digest(key)
        slot = self._slot(digest)
        if self._table[slot]:
            return self._table[slot] - 1
        place = len(self)
        self._raw += digest
        self._table[slot] = place + 1
        if digest.hex() != key:
            self._odd[place] = key
        if 3 * (place + 1) > 2 * len(self._table):
            self._grow()
        return place

    def _slot(self, digest: bytes) -> int:
        """Return the slot that holds a digest, or the free one it would get."""
        table, raw, mask = self._table, self._raw, len(self._table) - 1
        slot = int.from_bytes(digest[:4]) & mask
        while table[slot]:
            start = (table[slot] - 1) * _BYTES
            if raw.startswith(digest, start):
                break
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._table = array("I", bytes(8 * len(self._table)))
        for place in range(len(self)):
            start = place * _BYTES
            self._table[self._slot(bytes(self._raw[start : start + _BYTES]))] = place + 1


def _digest(key: str) -> bytes:
    if len(key) == _HEX:
        try:
            digest = bytes.fromhex(key)
        except ValueError:
            digest = b""
        if digest.hex() == key:
            return digest
    return hashlib.sha256(f"\0{key}".encode("utf-8", "surrogatepass")).digest()
