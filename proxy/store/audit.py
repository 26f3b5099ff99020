"""Read a journal as an auditor does: row by row in the order of writing, from one snapshot, believing no index."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from proxy.store.schema import COLUMNS, has_log, open_readonly, remove_own_log
from supervisors.errors import StoreError


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the table of records, as found: a damaged file may hold anything, hence `object`."""

    boot: object
    seq: object
    hash: object
    id: object
    request_id: object
    time: object
    model: object
    found: object
    body: object
    mode: object
    content: object
    judged: object = None
    """Column of Postgres: supervisors and their labels, see `proxy.store.sealing.judged_names`."""


@dataclass(frozen=True, slots=True)
class Boot:
    """A process start: its genesis line and the head its chain should end at."""

    boot: str
    genesis: bytes
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """A place in a chain that somebody noted elsewhere, or that can be noted: it fixes everything before it.

    Args:
        boot: id of the process start.
        seq: of the record, 0 for the beginning of the chain.
        hash: of the record.
    """

    boot: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where retention has cut a chain: the last record deleted, and when it was."""

    seq: int
    hash: str
    time: str


class Audit(Protocol):
    """A snapshot of a journal, whichever database it is in."""

    def damage(self) -> Iterator[str]:
        """Yield what the database itself finds wrong."""
        ...

    def boots(self) -> Mapping[str, Boot]:
        """Return the process starts by id."""
        ...

    def anchors(self) -> Mapping[str, Anchor]:
        """Return the anchor of each chain that retention has cut."""
        ...

    def unrecorded(self) -> Iterator[tuple[str, str]]:
        """Yield id and process start of the streams that have begun and have no record."""
        ...

    def config(self, version: str) -> str | None:
        """Return the archived text of a config version."""
        ...

    def hash_at(self, boot: str, seq: int) -> str | None:
        """Return the hash of one record, None if it is not there."""
        ...

    def rows(self) -> Iterator[StoredRow]:
        """Yield all records, those of one chain in the order they were written, one at a time."""
        ...


class SqliteAudit:
    """A snapshot of a journal in a file. Get it from `open_audit`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def damage(self) -> Iterator[str]:
        """Yield what SQLite itself finds wrong with the file."""
        for (line,) in self._connection.execute("PRAGMA integrity_check(20)"):
            if line != "ok":
                yield str(line)

    def boots(self) -> Mapping[str, Boot]:
        """Return the process starts by id."""
        rows = self._connection.execute("SELECT boot, genesis, seq, hash FROM boots")
        return {str(boot): Boot(str(boot), _bytes(line), seq, str(head)) for boot, line, seq, head in rows}

    def anchors(self) -> Mapping[str, Anchor]:
        """Return the anchor of each chain that retention has cut."""
        rows = self._connection.execute("SELECT boot, seq, hash, time FROM anchors ORDER BY seq")
        return {str(boot): Anchor(seq, str(last), str(time)) for boot, seq, last, time in rows}

    def unrecorded(self) -> Iterator[tuple[str, str]]:
        """Yield id and process start of the streams that have begun and have no record."""
        known = self._connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'begun'").fetchone()[0]
        if known:  # older journals have no such table
            query = "SELECT id, boot FROM begun WHERE id NOT IN (SELECT id FROM records) ORDER BY id"
            yield from self._connection.execute(query)

    def config(self, version: str) -> str | None:
        """Return the archived text of a config version."""
        row = self._connection.execute("SELECT text FROM configs WHERE version = ?", (version,)).fetchone()
        return None if row is None else str(row[0])

    def hash_at(self, boot: str, seq: int) -> str | None:
        """Return the hash of one record, None if it is not there."""
        row = self._connection.execute("SELECT hash FROM records WHERE boot = ? AND seq = ?", (boot, seq)).fetchone()
        return None if row is None else str(row[0])

    def rows(self) -> Iterator[StoredRow]:
        """Yield all records in the order they were written, one at a time."""
        for row in self._connection.execute(f"SELECT {COLUMNS} FROM records NOT INDEXED ORDER BY position"):  # noqa: S608 - constant
            yield StoredRow(*row)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@contextmanager
def open_audit(path: Path) -> Generator[SqliteAudit]:
    """Open a journal for one pass over a consistent snapshot; nothing is left beside it that was not there.

    Raises:
        StoreError: it cannot be opened, or turns out to be unreadable on the way.
    """
    had_log = has_log(path)
    connection = open_readonly(path)
    connection.text_factory = _text
    try:
        connection.execute("BEGIN")
        yield SqliteAudit(connection)
    except sqlite3.Error as error:
        msg = f"the journal {path} is damaged: {error}"
        raise StoreError(msg) from error
    finally:
        connection.close()
        if not had_log:
            remove_own_log(path)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
