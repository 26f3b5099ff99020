"""The append-only, hash-chained journal of a run (H-105 to H-109).

One JSON object a line, ASCII only. A line counts once it is on disk; what a crash leaves of a line is cut off when the
file is opened again, and any other damage makes the file corrupt.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from evals.statistics.jsonable import Json
from supervisors.errors import StoreError

JsonObject = dict[str, Json]
LineType = Literal[
    "run_start", "trial", "attempt", "resume", "interrupt", "limit_change", "budget_stop", "note", "run_end", "score"
]
FIRST_PREV = "0" * 64
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHAIN = frozenset({"seq", "ts", "type", "prev_sha256", "sha256"})


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be written: the type of the line and its fields."""

    type: LineType
    fields: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal file holds.

    Args:
        lines: whole lines, in order.
        size_bytes: length of the whole lines; what follows is torn.
        torn_bytes: length of an incomplete last line, 0 if there is none.
    """

    lines: tuple[JsonObject, ...]
    size_bytes: int
    torn_bytes: int


def canonical(value: Json) -> str:
    """Return the one text of a JSON value: sorted names, no blanks, ASCII; lone surrogates and NUL as escapes."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_json(value: Json) -> str:
    """Return the sha256 of the canonical text."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def now_text() -> str:
    """Return the time in UTC as written into lines."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seal(entry: Entry, seq: int, prev: str, ts: str) -> JsonObject:
    """Return a whole line: the entry in its place of the chain, with its own hash.

    Raises:
        StoreError: the entry uses a name of the chain, or the line is longer than 16 MiB.
    """
    clash = _CHAIN & entry.fields.keys()
    if clash:
        msg = f"a {entry.type} line cannot carry {sorted(clash)}: these names belong to the chain"
        raise StoreError(msg)
    line: JsonObject = {**entry.fields, "seq": seq, "ts": ts, "type": entry.type, "prev_sha256": prev}
    line["sha256"] = sha256_json(line)
    if len(canonical(line)) >= MAX_LINE_BYTES:
        msg = f"a {entry.type} line has {len(canonical(line))} bytes, at most {MAX_LINE_BYTES}; long texts go to text/"
        raise StoreError(msg)
    return line


def read_journal(path: Path) -> Contents:
    """Read a journal; an incomplete last line is reported, never returned.

    Raises:
        StoreError: it cannot be read, or a line other than the last is broken.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StoreError(msg) from error
    lines: list[JsonObject] = []
    position = 0
    while position < len(data):
        end = data.find(b"\n", position)
        line = parse_object(data[position:end]) if end >= 0 else None
        if line is None:
            if 0 <= end < len(data) - 1:
                msg = f"{path} line {len(lines) + 1}: is not JSON; the run is corrupt, `evals verify` shows how much"
                raise StoreError(msg)
            break
        lines.append(line)
        position = end + 1
    return Contents(tuple(lines), position, len(data) - position)


def parse_object(data: bytes | str) -> JsonObject | None:
    """Return the JSON object of a line, None when it is anything else."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    # JSON objects have text names and JSON values, which is what the cast says.
    return cast("JsonObject", value) if isinstance(value, dict) else None


def find_break(lines: Sequence[Mapping[str, Json]]) -> str | None:
    """Return what is wrong with the first line that does not fit the chain, None when all fit."""
    prev = FIRST_PREV
    last_ts = ""
    for number, line in enumerate(lines):
        body = {name: value for name, value in line.items() if name != "sha256"}
        if line.get("seq") != number:
            return f"line {number + 1}: seq is {line.get('seq')}, expected {number}"
        if line.get("prev_sha256") != prev:
            return f"line {number + 1}: prev_sha256 is not the hash of the line before"
        if line.get("sha256") != sha256_json(body):
            return f"line {number + 1}: sha256 is not the hash of the line"
        ts = str(line.get("ts"))
        if ts < last_ts:
            return f"line {number + 1}: time {ts} is before {last_ts}"
        prev, last_ts = str(line["sha256"]), ts
    return None


class JournalFile:
    """An open journal; `append` returns when the lines are on disk.

    Args:
        path: file to open or to make; a torn last line is cut off.
        clock: gives the time of a line; a line is never earlier than the one before it.

    Raises:
        StoreError: it cannot be opened, is corrupt, or its chain is broken.
    """

    def __init__(self, path: Path, clock: Callable[[], str] = now_text) -> None:
        self._path = path
        self._clock = clock
        found = read_journal(path) if path.exists() else Contents((), 0, 0)
        problem = find_break(found.lines)
        if problem is not None:
            msg = f"{path} {problem}; the run is corrupt, `evals verify` shows how much"
            raise StoreError(msg)
        try:
            self._file = path.open("ab")
            path.chmod(0o600)
            if found.torn_bytes:
                self._file.truncate(found.size_bytes)
                self._sync()
        except OSError as error:
            msg = f"{path}: cannot be written: {error.strerror}"
            raise StoreError(msg) from error
        self.lines = found.lines
        self.torn_bytes = found.torn_bytes
        self._seq = len(found.lines)
        self._prev = str(found.lines[-1]["sha256"]) if found.lines else FIRST_PREV
        self._ts = str(found.lines[-1]["ts"]) if found.lines else ""

    def append(self, entries: Iterable[Entry]) -> int:
        """Write lines, wait for the disk, and return how many there were.

        Raises:
            StoreError: the disk does not take them.
        """
        data = bytearray()
        before = self._seq
        for entry in entries:
            self._ts = max(self._ts, self._clock())
            line = seal(entry, self._seq, self._prev, self._ts)
            self._seq, self._prev = self._seq + 1, str(line["sha256"])
            data += canonical(line).encode("ascii") + b"\n"
        try:
            self._file.write(data)
            self._file.flush()
            self._sync()
        except OSError as error:
            msg = f"{self._path}: cannot be written: {error.strerror}; free some space and resume"
            raise StoreError(msg) from error
        return self._seq - before

    def _sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
