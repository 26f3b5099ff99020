"""The journal in one SQLite file: the default store, for one host."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from proxy.record import Begun, Record
from proxy.store.chain import Link, Origin, digest, genesis, storable
from proxy.store.journal import LONGEST_S, StoredJournal, new_boot
from proxy.store.lock import Lock
from proxy.store.protocol import Filters, StoredRecord
from proxy.store.query import Database
from proxy.store.retention import Retention, forget, timestamp
from proxy.store.schema import COLUMNS, open_readonly, open_writable
from proxy.store.sealing import Sealer, to_columns
from proxy.store.writer import BatchWriter, WriterSettings
from supervisors.errors import StoreError

log = logging.getLogger(__name__)

_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
LOCAL = "local"
"""The replica of a journal that has only one."""
_STEPS = 100_000
"""Steps of SQLite's machine between two looks at the clock: some milliseconds."""
_TOGETHER = 32
"""Records in one statement: each statement lets go of the interpreter and waits to get it back."""


@lru_cache(_TOGETHER)
def _insert(number: int) -> str:
    return f"INSERT INTO records ({COLUMNS}) VALUES {', '.join([_ROW] * number)}"  # noqa: S608 - constant


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        msg = f"{type(error).__name__}: {error}"
        raise StoreError(msg) from error


def _place_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


class SqliteSink:
    """Write batches into the file; one chain for each instance of this class.

    Args:
        path: journal file, created if new.
        boot: id of the process start, never used before.
        replica: name of this instance in its records.
        retention: what to forget.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        boot: str,
        replica: str,
        retention: Retention,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._boot = boot
        self._origin = Origin(boot, replica)
        self._configs: dict[str, str] = {}
        self._retention = retention
        self._now = now
        self._sealer = Sealer(self._origin)
        self._notes: dict[str, Begun] = {}
        self._begun: set[str] = set()
        self._forgotten: set[str] = set()
        self.lock: Lock | None = None
        self._connection = open_writable(path)
        self._place = _place_of(path)
        try:
            with _translated():
                self._head = self._begin_chain()
        except StoreError:
            self._connection.close()
            raise

    def _begin_chain(self) -> Link:
        with self._transaction():
            newest = self._connection.execute(
                "SELECT boot, seq, hash FROM records ORDER BY position DESC LIMIT 1"
            ).fetchone()
            previous: dict[str, Any] | None = None
            if newest is not None:
                previous = {"boot": newest[0], "seq": newest[1], "hash": newest[2]}
            line = genesis(self._origin, timestamp(self._now()), secrets.token_hex(16), previous)
            head = Link(0, digest(line))
            self._connection.execute("INSERT INTO boots VALUES (?, ?, ?, ?)", (self._boot, line, head.seq, head.hash))
        log.info("journal opened", extra={"boot": self._boot, "genesis": head.hash, "previous": previous})
        return head

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        """Append a batch in one durable transaction; records whose id is already stored are left out.

        Raises:
            StoreError: disk full, read-only, locked, damaged, moved; the chain stands where it stood.
        """
        ids = {record.id for record in batch} | self._forgotten
        with _translated():
            if _place_of(self._path) != self._place:
                msg = "the journal file was moved or replaced; put it back, or restart"
                raise StoreError(msg)
            try:
                return self._append(batch, ids)
            except sqlite3.IntegrityError:
                return self._append(self._without_repeated(batch), ids)

    def _append(self, batch: Sequence[Record], ids: Set[str]) -> Sequence[Record]:
        with self._transaction():
            head = self._stored_head()
            for start in range(0, len(batch), _TOGETHER):
                values: list[object] = []
                step = batch[start : start + _TOGETHER]
                for record in step:
                    sealed = self._sealer.seal(record, head, self._config_digest(record.version))
                    head = sealed.link
                    values += to_columns(record, sealed)
                self._connection.execute(_insert(len(step)), values)
            self._connection.execute(
                "UPDATE boots SET seq = ?, hash = ? WHERE boot = ?", (head.seq, head.hash, self._boot)
            )
            begun = self._write_notes(ids)
        self._head = head
        self._begun = begun
        self._notes.clear()
        self._forgotten.clear()
        return list(batch)

    def _without_repeated(self, batch: Sequence[Record]) -> Sequence[Record]:
        """Return the records whose id is neither stored nor that of an earlier one."""
        kept: dict[str, Record] = {}
        for record in batch:
            key = storable(record.id)
            stored = self._connection.execute("SELECT 1 FROM records WHERE id = ?", (key,)).fetchone()
            if stored is None and key not in kept:
                kept[key] = record
            else:
                log.error("record id occurs twice, the second is not stored", extra={"record": record.id})
        return list(kept.values())

    def begin(self, begun: Begun) -> None:
        """Keep a note for the next write."""
        self._notes[begun.id] = begun

    def forget(self, record_id: str) -> None:
        """Drop a note, also one that is written."""
        self._notes.pop(record_id, None)
        self._forgotten.add(record_id)

    def _write_notes(self, here: Set[str]) -> set[str]:
        """Write the notes whose record is still to come, delete those whose record has come."""
        if not self._notes and not self._begun:
            return self._begun
        fresh = [(one.id, self._boot, orjson.dumps(one)) for one in self._notes.values() if one.id not in here]
        self._connection.executemany("INSERT OR IGNORE INTO begun VALUES (?, ?, ?)", fresh)
        over = [(one,) for one in self._begun & here]
        self._connection.executemany("DELETE FROM begun WHERE id = ?", over)
        return (self._begun | {row[0] for row in fresh}) - here

    def leftovers(self) -> list[tuple[Begun, str | None]]:
        """Return the streams that earlier starts left without a record, each with the archive of its config version.

        Raises:
            StoreError: the file cannot be read.
        """
        with _translated():
            rows = self._connection.execute("SELECT body FROM begun WHERE boot != ?", (self._boot,)).fetchall()
            found: list[tuple[Begun, str | None]] = []
            for (body,) in rows:
                fields: dict[str, Any] = orjson.loads(body)
                fields["policies"] = tuple(fields["policies"])
                begun = Begun(**fields)
                query = "SELECT text FROM configs WHERE version = ?"
                text = self._connection.execute(query, (begun.version,)).fetchone()
                found.append((begun, None if text is None else str(text[0])))
        self._begun = {begun.id for begun, _ in found}
        return found

    def _stored_head(self) -> Link:
        # Read back, not remembered: after a failed commit only the file knows whether the batch is in it.
        return Link(*self._connection.execute("SELECT seq, hash FROM boots WHERE boot = ?", (self._boot,)).fetchone())

    def _config_digest(self, version: str) -> str | None:
        known = self._configs.get(version)
        if known is None:
            row = self._connection.execute("SELECT text FROM configs WHERE version = ?", (version,)).fetchone()
            if row is None:
                return None
            known = self._configs[version] = digest(row[0].encode())
        return known

    def archive(self, version: str, text: str) -> None:
        """Keep the text of a config version; the same version again changes nothing.

        Raises:
            StoreError: it could not be written, or the version is archived with another text.
        """
        with _translated(), self._transaction():
            row = self._connection.execute("SELECT text FROM configs WHERE version = ?", (version,)).fetchone()
            if row is None:
                values = (version, timestamp(self._now()), text)
                self._connection.execute("INSERT INTO configs VALUES (?, ?, ?)", values)
            elif row[0] != text:
                msg = f"config version {version[:12]} is archived with another text"
                raise StoreError(msg)

    def tidy(self) -> bool:
        """Forget one piece of what has expired; true when there may be more.

        Raises:
            StoreError: the file takes no writes.
        """
        with _translated():
            return forget(self._connection, self._retention, self._now())

    def close(self) -> None:
        """Close the file; logs the head of the chain, which an auditor can compare."""
        log.info("journal closed", extra={"boot": self._boot, "seq": self._head.seq, "hash": self._head.hash})
        try:
            # With other workers still at it this folds what it can; the last one folds the rest.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
        except sqlite3.Error as error:
            log.warning("journal did not close cleanly", extra={"reason": str(error)})
        if self.lock is not None:
            self.lock.close()


class SqliteReader:
    """Look-ups in the file, on a connection that cannot write.

    Args:
        path: of the journal.
        longest_s: a statement that runs longer is ended: nobody waits for it any more.
    """

    def __init__(self, path: Path, longest_s: float = LONGEST_S) -> None:
        self._connection = open_readonly(path)
        self._longest_s = longest_s
        self._until = 0.0
        self._connection.set_progress_handler(self._is_late, _STEPS)
        self._database = Database("records", self._run, storable, _judged)

    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def _run(self, sql: str, values: Sequence[object]) -> Sequence[tuple[Any, ...]]:
        self._until = time.monotonic() + self._longest_s
        return self._connection.execute(sql, values).fetchall()

    def fetch(self, key: str) -> Sequence[StoredRecord]:
        """Return the record with this id, else the newest ones with this request id."""
        with _translated():
            return self._database.fetch(key)

    def search(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records by time, newest first."""
        with _translated():
            return self._database.search(filters)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _judged(name: str, label: str) -> tuple[str, Sequence[object]]:
    condition = (
        "EXISTS (SELECT 1 FROM json_each(CAST(body AS TEXT), '$.verdicts') AS verdict"
        " WHERE verdict.value ->> 'supervisor' = ? AND (? = '' OR verdict.value ->> 'label' = ?))"
    )
    return condition, [name, label, label]


async def open_journal(
    path: Path,
    *,
    replica: str = LOCAL,
    settings: WriterSettings | None = None,
    retention: Retention | None = None,
    counted: Callable[[Record], None] | None = None,
) -> StoredJournal:
    """Open the journal, begin a chain for this process start, and start its writer.

    Args:
        path: SQLite file, created if new; its folder must exist.
        replica: name of this instance in its records.
        settings: batching, queue and failure behaviour.
        retention: what to forget; default nothing.
        counted: called once for every record on disk, in the writer's thread: `Metrics.count`.

    Raises:
        StoreError: the file cannot be opened or is of another schema.
    """
    boot = new_boot()

    def build() -> StoredJournal:
        lock = Lock(path)
        try:
            sink = SqliteSink(path, boot, replica, retention or Retention())
        except StoreError:
            lock.close()
            raise
        sink.lock = lock
        try:
            reader = SqliteReader(path)
            leftovers = sink.leftovers() if lock.alone else ()
        except StoreError:
            sink.close()
            raise
        options = settings or WriterSettings()
        writer = BatchWriter(sink, options, counted) if counted else BatchWriter(sink, options)
        writer.start()
        return StoredJournal(sink, writer, reader, boot, leftovers)

    return await asyncio.to_thread(build)
