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
from typing import Literal

from evals.lines import Contents, JsonObject, Lines, Taker, parse_object, read_journal
from evals.statistics.jsonable import Json
from supervisors.errors import StoreError

__all__ = [
    "Chain",
    "Contents",
    "Entry",
    "JournalFile",
    "JsonObject",
    "LineType",
    "canonical",
    "check_fits",
    "find_break",
    "now_text",
    "parse_object",
    "read_journal",
    "seal",
    "sha256_json",
]
LineType = Literal[
    "run_start", "trial", "attempt", "resume", "interrupt", "limit_change", "budget_stop", "note", "run_end", "score"
]
FIRST_PREV = "0" * 64
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHAIN_BYTES = 1024
"""More than the members of the chain take."""
_CHAIN = frozenset({"seq", "ts", "type", "prev_sha256", "sha256"})
_PLACE = "." * 64
_PLACE_MEMBER = f'"sha256":"{_PLACE}",'
"""Where a line's own hash will stand; `ts` and `type` always follow it, hence the comma."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be written: the type of the line and its fields."""

    type: LineType
    fields: Mapping[str, Json]


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
    line, _ = _seal(entry, seq, prev, ts)
    return line


def _seal(entry: Entry, seq: int, prev: str, ts: str) -> tuple[JsonObject, str]:
    """Return a line and its text, which is written in one go: the hash goes where its place was kept."""
    clash = _CHAIN & entry.fields.keys()
    if clash:
        msg = f"a {entry.type} line cannot carry {sorted(clash)}: these names belong to the chain"
        raise StoreError(msg)
    line: JsonObject = {**entry.fields, "seq": seq, "ts": ts, "type": entry.type, "prev_sha256": prev}
    line["sha256"] = _PLACE
    text = canonical(line)
    body = text.replace(_PLACE_MEMBER, "")
    if len(text) - len(body) == len(_PLACE_MEMBER):
        sha256 = hashlib.sha256(body.encode("ascii")).hexdigest()
        text = text.replace(_PLACE_MEMBER, f'"sha256":"{sha256}",')
    else:  # an entry holds the very text of the place: take the long way
        sha256 = sha256_json({name: value for name, value in line.items() if name != "sha256"})
        text = canonical({**line, "sha256": sha256})
    line["sha256"] = sha256
    if len(text) >= MAX_LINE_BYTES:
        msg = f"a {entry.type} line has {len(text)} bytes, at most {MAX_LINE_BYTES}; long texts go to text/"
        raise StoreError(msg)
    return line, text


def check_fits(entry: Entry) -> None:
    """Hold an entry against what a line can be, before it shares a batch with others.

    Raises:
        ValueError: a number in it is not finite, or it is too long for a line.
    """
    if len(canonical(dict(entry.fields))) > MAX_LINE_BYTES - _CHAIN_BYTES:
        msg = f"a {entry.type} line of at most {MAX_LINE_BYTES} bytes cannot hold it"
        raise ValueError(msg)


class Chain:
    """Holds each line of a journal against the one before it.

    Args:
        problem: what is wrong with the first line that does not fit, None as long as all fit.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._prev = FIRST_PREV
        self._ts = ""

    def take(self, number: int, line: JsonObject, data: bytes) -> None:
        """Take the next line and its bytes."""
        if self.problem is None:
            ts = str(line.get("ts"))
            self.problem = self._break(number, line, data, ts)
            self._prev, self._ts = str(line.get("sha256")), ts

    def _break(self, number: int, line: JsonObject, data: bytes, ts: str) -> str | None:
        if line.get("seq") != number:
            return f"line {number + 1}: seq is {line.get('seq')}, expected {number}"
        if line.get("prev_sha256") != self._prev:
            return f"line {number + 1}: prev_sha256 is not the hash of the line before"
        if not _has_its_hash(line, data):
            return f"line {number + 1}: sha256 is not the hash of the line"
        if ts < self._ts:
            return f"line {number + 1}: time {ts} is before {self._ts}"
        return None


def find_break(lines: Sequence[JsonObject]) -> str | None:
    """Return what is wrong with the first line that does not fit the chain, None when all fit."""
    chain = Chain()
    raw = lines.raw() if isinstance(lines, Lines) else (canonical(line).encode("ascii") for line in lines)
    for number, (line, data) in enumerate(zip(lines, raw, strict=True)):
        chain.take(number, line, data)
        if chain.problem is not None:
            break
    return chain.problem


def _has_its_hash(line: JsonObject, data: bytes) -> bool:
    """Hold a line against its hash: its own bytes without that member are what was hashed."""
    sha256 = str(line.get("sha256"))
    member = f'"sha256":"{sha256}",'.encode("ascii", "replace")
    body = data.replace(member, b"", 1)
    if len(body) < len(data) and hashlib.sha256(body).hexdigest() == sha256:
        return True
    body_of = {name: value for name, value in line.items() if name != "sha256"}
    return canonical(line).encode("ascii") == data and sha256 == sha256_json(body_of)


class JournalFile:
    """An open journal; `append` returns when the lines are on disk.

    Args:
        path: file to open or to make; a torn last line is cut off.
        clock: gives the time of a line; a line is never earlier than the one before it.
        takers: get each line that is there already.

    Raises:
        StoreError: it cannot be opened, is corrupt, or its chain is broken.
    """

    def __init__(self, path: Path, clock: Callable[[], str] = now_text, takers: Sequence[Taker] = ()) -> None:
        self._path = path
        self._clock = clock
        chain = Chain()
        found = read_journal(path, chain.take, *takers) if path.exists() else Contents((), 0, 0)
        if chain.problem is not None:
            msg = f"{path} {chain.problem}; the run is corrupt, `evals verify` shows how much"
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
        self._failed = False
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
            line, text = _seal(entry, self._seq, self._prev, self._ts)
            self._seq, self._prev = self._seq + 1, str(line["sha256"])
            data += text.encode("ascii") + b"\n"
        try:
            self._file.write(data)
            self._file.flush()
            self._sync()
        except OSError as error:
            self._failed = True
            raise StoreError(self._refused(error)) from error
        return self._seq - before

    def _sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file.

        Raises:
            StoreError: the disk does not take what is left; not after `append` has said so.
        """
        try:
            self._file.close()
        except OSError as error:
            if not self._failed:
                raise StoreError(self._refused(error)) from error

    def _refused(self, error: OSError) -> str:
        return f"{self._path}: cannot be written: {error.strerror}; free some space and resume"
