"""The lines of a journal, read from its file when they are wanted: a million of them are never in memory together."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, overload

import orjson

from evals.keys import Keys
from evals.statistics.jsonable import Json
from supervisors.errors import StoreError

JsonObject = dict[str, Json]
_BLOCK_BYTES = 1 << 20
_NEAR_BYTES = 1 << 14
"""A line so close behind the last block is read with what follows it; after a jump only this much is read."""


def parse_object(data: bytes | str) -> JsonObject | None:
    """Return the JSON object of a line, None when it is anything else."""
    try:
        value: object = orjson.loads(data)
    except ValueError:
        # Lone surrogates in escapes, NaN and very long numbers: orjson refuses them, the standard library reads them.
        value = _parse_slowly(data)
    # JSON objects have text names and JSON values, which is what the cast says.
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _parse_slowly(data: bytes | str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


class Lines(Sequence[JsonObject]):
    """The whole lines of a file, by place; each is parsed when it is asked for.

    Args:
        path: the file.
        ends: place after each line; lines that are appended later are not seen.
    """

    def __init__(self, path: Path, ends: array[int]) -> None:
        self._path = path
        self._ends = ends
        self._block = b""
        self._block_start = 0
        self._last: tuple[int, JsonObject] | None = None

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | Sequence[JsonObject]:
        """Return a line; the last one is kept, because its members are read one after the other."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if self._last is None or self._last[0] != place:
            self._last = (place, self._parse(place, self._read(place)))
        return self._last[1]

    def __iter__(self) -> Iterator[JsonObject]:
        for place, data in enumerate(self.raw()):
            yield self._parse(place, data)

    def raw(self) -> Iterator[bytes]:
        """Yield the bytes of each line, without its end."""
        if not self._ends:
            return
        with self._path.open("rb") as stream:
            start = 0
            for end in self._ends:
                yield stream.read(end - start)[:-1]
                start = end

    def _read(self, place: int) -> bytes:
        start = self._ends[place - 1] if place else 0
        end = self._ends[place]
        behind = self._block_start + len(self._block)
        if not self._block_start <= start < end <= behind:
            follows = behind - _NEAR_BYTES <= start <= behind + _NEAR_BYTES
            with self._path.open("rb") as stream:
                stream.seek(start)
                self._block = stream.read(max(_BLOCK_BYTES if follows else _NEAR_BYTES, end - start))
            self._block_start = start
        return self._block[start - self._block_start : end - self._block_start - 1]

    def _parse(self, place: int, data: bytes) -> JsonObject:
        line = parse_object(data)
        if line is None:
            msg = f"{self._path} line {place + 1}: was changed while it was read"
            raise StoreError(msg)
        return line


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal file holds.

    Args:
        lines: whole lines, in order.
        size_bytes: length of the whole lines; what follows is torn.
        torn_bytes: length of an incomplete last line, 0 if there is none.
    """

    lines: Sequence[JsonObject]
    size_bytes: int
    torn_bytes: int


def read_journal(path: Path) -> Contents:
    """Read a journal; an incomplete last line is reported, never returned.

    Raises:
        StoreError: it cannot be read, or a line other than the last is broken.
    """
    ends: array[int] = array("Q")
    position = size = 0
    broken = False
    try:
        with path.open("rb") as stream:
            for data in stream:
                if broken:
                    msg = f"{path} line {len(ends) + 1}: is not JSON; the run is corrupt, `evals verify` shows how much"
                    raise StoreError(msg)
                size += len(data)
                broken = not data.endswith(b"\n") or parse_object(data) is None
                if not broken:
                    position = size
                    ends.append(position)
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StoreError(msg) from error
    return Contents(Lines(path, ends), position, size - position)


class Counted(Mapping[str, JsonObject]):
    """Trial key → the line that counts, fetched when it is asked for.

    Args:
        lines: of the journal.
        keys: of the trials, perhaps of more than have a line.
        places: place of a key → place of its line, -1 where there is none.
    """

    def __init__(self, lines: Sequence[JsonObject], keys: Keys, places: Sequence[int]) -> None:
        self._lines = lines
        self.known = keys
        self._places = places

    def __getitem__(self, key: str) -> JsonObject:
        place = self._find(key)
        if place < 0:
            raise KeyError(key)
        return self._lines[place]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) >= 0

    def __iter__(self) -> Iterator[str]:
        return (self.known.key(place) for place, line in enumerate(self._places) if line >= 0)

    def __len__(self) -> int:
        return sum(line >= 0 for line in self._places)

    def at(self, key_place: int) -> JsonObject | None:
        """Return the line of the key at a place of the keys, None where there is none."""
        line = self._places[key_place] if key_place < len(self._places) else -1
        return None if line < 0 else self._lines[line]

    def _find(self, key: str) -> int:
        place = self.known.find(key)
        return -1 if place is None or place >= len(self._places) else self._places[place]
