"""The lines of a journal, read from its file when they are wanted: a million of them are never in memory together."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast, overload

import orjson

from evals.keys import Keys
from evals.statistics.jsonable import Json
from supervisors.errors import StoreError

JsonObject = dict[str, Json]
_EVERY = 16
"""Lines that are read together when one of them is asked for."""
_BLOCKS = 4
_BLOCK_BYTES = 1 << 20
"""Longer ones are not kept."""
Taker = Callable[[int, JsonObject, bytes], None]
"""Gets each line of a journal while it is read: its place, the line, and its bytes without their end."""


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
        starts: place in the file of every 16th line, and of the end.
        count: how many lines; those that are appended later are not seen.
    """

    def __init__(self, path: Path, starts: array[int], count: int) -> None:
        self._path = path
        self._starts = starts
        self._count = count
        self._blocks: dict[int, list[bytes]] = {}
        self._last: tuple[int, JsonObject] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | Sequence[JsonObject]:
        """Return a line; the last one is kept, because its members are read one after the other."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(self._count)[index]
        if self._last is None or self._last[0] != place:
            self._last = (place, self._parse(place, self._read(place)))
        return self._last[1]

    def __iter__(self) -> Iterator[JsonObject]:
        for place, data in enumerate(self.raw()):
            yield self._parse(place, data)

    def raw(self) -> Iterator[bytes]:
        """Yield the bytes of each line, without its end."""
        if not self._count:
            return
        place = 0
        with self._path.open("rb") as stream:
            for place, data in enumerate(stream, 1):
                yield self._whole(place - 1, data)
                if place == self._count:
                    return
        self._whole(place, b"")

    def _read(self, place: int) -> bytes:
        """Return a line from its block; the last few blocks are kept, for places that jump and come back."""
        number, offset = divmod(place, _EVERY)
        block = self._blocks.get(number)
        if block is not None:
            return self._whole(place, block[offset])
        with self._path.open("rb") as stream:
            stream.seek(self._starts[number])
            if self._starts[number + 1] - self._starts[number] > _BLOCK_BYTES:
                return self._whole(place, next(islice(stream, offset, None), b""))
            block = list(islice(stream, _EVERY))
        block += [b""] * (_EVERY - len(block))
        if len(self._blocks) >= _BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = block
        return self._whole(place, block[offset])

    def _whole(self, place: int, data: bytes) -> bytes:
        if not data.endswith(b"\n"):
            raise StoreError(self._changed(place))
        return data[:-1]

    def _parse(self, place: int, data: bytes) -> JsonObject:
        line = parse_object(data)
        if line is None:
            raise StoreError(self._changed(place))
        return line

    def _changed(self, place: int) -> str:
        return f"{self._path} line {place + 1}: was changed while it was read"


STATES = ("missing", "ok", "error", "skipped")
"""What a counting line can say of a trial, by code; only a file that was changed says anything else: `OTHER`."""
OTHER = len(STATES)


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


def read_journal(path: Path, *takers: Taker) -> Contents:
    """Read a journal; a last line without its end is reported, never returned.

    A write that broke off leaves the beginning of a line. A line that has its end and is no JSON was damaged later.

    Args:
        path: the file.
        takers: get each line, so that whoever needs all of them does not read the file again.

    Raises:
        StoreError: it cannot be read, or a whole line is no JSON.
    """
    starts = array("Q")
    position = size = place = 0
    try:
        with path.open("rb") as stream:
            for data in stream:
                size += len(data)
                if not data.endswith(b"\n"):
                    break
                line = parse_object(data)
                if line is None:
                    msg = f"{path} line {place + 1}: is not JSON; the run is corrupt, `evals verify` shows how much"
                    raise StoreError(msg)
                for take in takers:
                    take(place, line, data[:-1])
                if place % _EVERY == 0:
                    starts.append(position)
                place += 1
                position = size
        starts.append(position)
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StoreError(msg) from error
    return Contents(Lines(path, starts, place), position, size - position)


class Counted(Mapping[str, JsonObject]):
    """Trial key → the line that counts, fetched when it is asked for.

    Args:
        lines: of the journal.
        keys: of the trials, perhaps of more than have a line.
        places: place of a key → place of its line, -1 where there is none.
        states: place of a key → what its line says of the trial, as code of `STATES`.
    """

    def __init__(self, lines: Sequence[JsonObject], keys: Keys, places: Sequence[int], states: bytes) -> None:
        self._lines = lines
        self.known = keys
        self._places = places
        self._states = states

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

    def has(self, key_place: int) -> bool:
        """Say whether the key at a place of the keys has a line."""
        return key_place < len(self._places) and self._places[key_place] >= 0

    def state(self, key_place: int) -> str:
        """Return missing, ok, error or skipped, or what else the line of the key at a place says."""
        code = self._states[key_place] if key_place < len(self._states) else 0
        if code < OTHER:
            return STATES[code]
        line = self.at(key_place)
        return "missing" if line is None else str(line.get("status"))

    def _find(self, key: str) -> int:
        place = self.known.find(key)
        return -1 if place is None or place >= len(self._places) else self._places[place]
