"""The journal in Postgres: for several replicas or workers, each with a chain of its own.

A batch is one transaction. An answer to COMMIT that never comes leaves open whether the batch is stored; the next
attempt asks the head of the chain before it writes anything, so that nothing is lost or stored twice (O-16).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Callable, Generator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from proxy.record import Begun, Record
from proxy.store.chain import Link, Origin, digest, genesis, storable
from proxy.store.driver import Connection, Driver, bounded, load_driver
from proxy.store.journal import Leftovers, StoredJournal, new_boot
from proxy.store.lookup import PostgresReader
from proxy.store.retention import Retention, timestamp
from proxy.store.sealing import Sealer, judged_names, to_columns
from proxy.store.tables import COLUMNS, TYPES, create_tables
from proxy.store.trimming import trim
from proxy.store.writer import BatchWriter, WriterSettings
from supervisors.errors import StoreError

log = logging.getLogger(__name__)

_TOGETHER: Final = 16
"""Records sealed before the interpreter is offered to the event loop."""
_LONGEST_S: Final = 30.0
"""Longest time of one batch; then the connection is cut and the batch comes again."""
_BEAT_S: Final = 10.0
"""An idle writer looks so often whether its connection, and with it the sign that it lives, is still there."""
_SETTLED_S: Final = 3 * _BEAT_S
"""How long a server must run before a missing sign of life says that a process is gone: by then the living are back."""
_ALIVE: Final = "hashtextextended(%s, 0)"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A batch on its way, until it is known to be stored.

    Args:
        head: of the chain once it is.
        taken: records of the batch it stands for, repeated ones included.
        written: those that are new.
        noted: ids of notes that go with it.
        begun: notes in the table afterwards.
    """

    head: Link
    taken: int = 0
    written: Sequence[Record] = ()
    noted: Sequence[str] = ()
    begun: Set[str] = frozenset()


@dataclass(slots=True)
class _Progress:
    """What of the batch that will come again is known to be stored."""

    taken: int = 0
    written: list[Record] = field(default_factory=list[Record])


class PostgresSink:
    """Write batches; one chain for each instance of this class. Used by one thread at a time.

    Args:
        driver: the library.
        address: connection string or URI.
        origin: whose chain it is.
        retention: what to forget.
        settled_s: how long the server must have been up before streams of others are taken over.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        driver: Driver,
        address: str,
        origin: Origin,
        retention: Retention,
        settled_s: float = _SETTLED_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._driver = driver
        self._address = address
        self._origin = origin
        self._retention = retention
        self._settled_s = settled_s
        self._now = now
        self._sealer = Sealer(origin)
        self._configs: dict[str, str] = {}
        self._notes: dict[str, Begun] = {}
        self._begun: Set[str] = frozenset()
        self._forgotten: set[str] = set()
        self._attempt: _Attempt | None = None
        self._progress = _Progress()
        self._connection: Connection | None = None
        with self._session() as connection:
            create_tables(connection)
            self._head = self._begin_chain(connection)

    @contextmanager
    def _session(self) -> Generator[Connection]:
        """Lend the connection, opened anew if need be; one that failed is not used again."""
        connection = self._connection
        try:
            if connection is None:
                connection = self._connection = self._connect()
            with self._driver.translated(), bounded(connection, _LONGEST_S):
                yield connection
        except StoreError:
            self._disconnect()
            raise

    def _connect(self) -> Connection:
        connection = self._driver.connect(self._address, f"guardrail-proxy {self._origin.boot}")
        alive = False
        try:
            with self._driver.translated(), bounded(connection, _LONGEST_S):
                # A record is counted once it is durable, whatever the server's default.
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', false)"
                    " WHERE current_setting('synchronous_commit') = 'off'"
                )
                alive = _value(connection, f"SELECT pg_try_advisory_lock_shared({_ALIVE})", self._origin.boot)
        finally:
            if not alive:
                connection.close()
        if not alive:
            msg = "another start is looking whether this process lives"
            raise StoreError(msg)
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(self._driver.error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self, connection: Connection) -> Generator[None]:
        connection.execute("BEGIN")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(self._driver.error):
                connection.execute("ROLLBACK")
            raise

    def _begin_chain(self, connection: Connection) -> Link:
        with self._transaction(connection):
            query = "SELECT boot, seq, hash FROM guardrail_records ORDER BY position DESC LIMIT 1"
            newest = connection.execute(query).fetchone()
            previous: dict[str, Any] | None = None
            if newest is not None:
                previous = {"boot": newest[0], "seq": newest[1], "hash": newest[2]}
            line = genesis(self._origin, timestamp(self._now()), secrets.token_hex(16), previous)
            head = Link(0, digest(line))
            values = (self._origin.boot, line, head.seq, head.hash)
            connection.execute("INSERT INTO guardrail_boots VALUES (%s, %s, %s, %s)", values)
        extra = {"boot": self._origin.boot, "genesis": head.hash, "previous": previous}
        log.info("journal opened", extra=extra)
        return head

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        """Append a batch in one durable transaction; records whose id is already stored are left out.

        Raises:
            StoreError: no connection, read-only, disk full, or the head of the chain is not where it was left.
        """
        ids = {record.id for record in batch}
        with self._session() as connection:
            self._settle(connection)
            rest = batch[self._progress.taken :]
            try:
                self._append(connection, rest, len(rest), ids)
            except self._driver.repeated:
                self._append(connection, self._without_repeated(connection, rest), len(rest), ids)
        written, self._progress = self._progress.written, _Progress()
        return written

    def _settle(self, connection: Connection) -> None:
        """Find out what became of an attempt whose answer was lost; its transaction ends before ours sees the head."""
        attempt, self._attempt = self._attempt, None
        if attempt is None or not attempt.written:
            return  # notes alone can come twice
        try:
            with self._transaction(connection):
                stored = self._stored_head(connection)
        except BaseException:
            self._attempt = attempt
            raise
        if stored == attempt.head:
            self._stored(attempt)

    def _stored(self, attempt: _Attempt) -> None:
        self._head, self._begun = attempt.head, attempt.begun
        self._progress.taken += attempt.taken
        self._progress.written += attempt.written
        for name in attempt.noted:
            self._notes.pop(name, None)
        self._forgotten &= attempt.begun

    def _append(self, connection: Connection, batch: Sequence[Record], taken: int, ids: Set[str]) -> None:
        attempt = _Attempt(self._head)
        with self._transaction(connection):
            if self._stored_head(connection) != self._head:
                msg = "the chain of this process does not end where it was left: was the database restored or changed?"
                raise StoreError(msg)
            if batch:
                head = self._copy(connection, batch)
                values = (head.seq, head.hash, self._origin.boot)
                connection.execute("UPDATE guardrail_boots SET seq = %s, hash = %s WHERE boot = %s", values)
                attempt = replace(attempt, head=head)
            begun = self._write_notes(connection, ids | self._forgotten)
            attempt = replace(attempt, taken=taken, written=tuple(batch), noted=tuple(self._notes), begun=begun)
            self._attempt = attempt  # from here on only the head of the chain can say what became of it
        self._attempt = None
        self._stored(attempt)

    def _copy(self, connection: Connection, batch: Sequence[Record]) -> Link:
        head = self._head
        digests = {version: self._config_digest(connection, version) for version in {one.version for one in batch}}
        with connection.cursor().copy(f"COPY guardrail_records ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as rows:
            rows.set_types(TYPES)
            for number, record in enumerate(batch, 1):
                sealed = self._sealer.seal(record, head, digests[record.version])
                head = sealed.link
                rows.write_row((*to_columns(record, sealed), judged_names(sealed.body)))
                if number % _TOGETHER == 0:
                    time.sleep(0)  # lets go of the interpreter, as each statement of the other store does
        return head

    def _stored_head(self, connection: Connection) -> Link | None:
        query = "SELECT seq, hash FROM guardrail_boots WHERE boot = %s FOR UPDATE"
        row = connection.execute(query, (self._origin.boot,)).fetchone()
        return None if row is None else Link(*row)

    def _without_repeated(self, connection: Connection, batch: Sequence[Record]) -> Sequence[Record]:
        """Return the records whose id is neither stored nor that of an earlier one."""
        kept: dict[str, Record] = {}
        for record in batch:
            key = storable(record.id)
            if key in kept or _value(connection, "SELECT 1 FROM guardrail_records WHERE id = %s", key) is not None:
                log.error("record id occurs twice, the second is not stored", extra={"record": record.id})
            else:
                kept[key] = record
        return list(kept.values())

    def _config_digest(self, connection: Connection, version: str) -> str | None:
        known = self._configs.get(version)
        if known is None:
            text = _value(connection, "SELECT text FROM guardrail_configs WHERE version = %s", version)
            if text is None:
                return None
            known = self._configs[version] = digest(str(text).encode())
        return known

    def begin(self, begun: Begun) -> None:
        """Keep a note for the next write."""
        self._notes[begun.id] = begun

    def forget(self, record_id: str) -> None:
        """Drop a note, also one that is written."""
        self._notes.pop(record_id, None)
        self._forgotten.add(record_id)

    def _write_notes(self, connection: Connection, here: Set[str]) -> Set[str]:
        """Write the notes whose record is still to come, delete those whose record has come."""
        fresh = [(one.id, self._origin.boot, orjson.dumps(one)) for one in self._notes.values() if one.id not in here]
        if fresh:
            statement = "INSERT INTO guardrail_begun VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            connection.cursor().executemany(statement, fresh)
        over = sorted(self._begun & here)
        if over:
            connection.execute("DELETE FROM guardrail_begun WHERE id = ANY(%s)", (over,))
        return (self._begun | {row[0] for row in fresh}) - here

    def leftovers(self) -> Leftovers:
        """Take over the streams that processes which are gone left without a record.

        Raises:
            StoreError: the database cannot be asked.
        """
        found: list[tuple[Begun, str | None]] = []
        with self._session() as connection:
            up = "SELECT extract(epoch FROM now() - pg_postmaster_start_time()) >= %s"
            if not _value(connection, up, self._settled_s):
                return []
            with self._transaction(connection):
                query = "SELECT DISTINCT boot FROM guardrail_begun WHERE boot <> %s"
                for (boot,) in connection.execute(query, (self._origin.boot,)).fetchall():
                    if _value(connection, f"SELECT pg_try_advisory_xact_lock({_ALIVE})", boot):
                        claim = "UPDATE guardrail_begun SET boot = %s WHERE boot = %s RETURNING body"
                        for (body,) in connection.execute(claim, (self._origin.boot, boot)).fetchall():
                            found.append(_read_note(connection, body))
        self._begun = {begun.id for begun, _ in found}
        return found

    def archive(self, version: str, text: str) -> None:
        """Keep the text of a config version; the same version again changes nothing.

        Raises:
            StoreError: it could not be written, or the version is archived with another text.
        """
        with self._session() as connection:
            values = (version, timestamp(self._now()), text)
            connection.execute("INSERT INTO guardrail_configs VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", values)
            stored = _value(connection, "SELECT text FROM guardrail_configs WHERE version = %s", version)
        if stored != text:
            msg = f"config version {version[:12]} is archived with another text"
            raise StoreError(msg)

    def tidy(self) -> bool:
        """Forget one piece of what has expired; true when there may be more. Also shows that this process lives.

        Raises:
            StoreError: the database takes no writes.
        """
        with self._session() as connection:
            if self._retention.record_days is None and not self._retention.content_days:
                connection.execute("SELECT 1")
                return False
            with self._transaction(connection):
                return trim(connection, self._retention, self._now())

    def close(self) -> None:
        """End the session; logs the head of the chain, which an auditor can compare."""
        extra = {"boot": self._origin.boot, "seq": self._head.seq, "hash": self._head.hash}
        log.info("journal closed", extra=extra)
        self._disconnect()


def _value(connection: Connection, query: str, value: object) -> Any:
    """Return the first column of the first row, None without a row."""
    row = connection.execute(query, (value,)).fetchone()
    return None if row is None else row[0]


def _read_note(connection: Connection, body: bytes) -> tuple[Begun, str | None]:
    fields: dict[str, Any] = orjson.loads(body)
    fields["policies"] = tuple(fields["policies"])
    begun = Begun(**fields)
    text = _value(connection, "SELECT text FROM guardrail_configs WHERE version = %s", begun.version)
    return begun, None if text is None else str(text)


async def open_postgres(
    address: str,
    replica: str | None = None,
    *,
    settings: WriterSettings | None = None,
    retention: Retention | None = None,
    counted: Callable[[Record], None] | None = None,
    settled_s: float = _SETTLED_S,
) -> StoredJournal:
    """Open the journal, begin a chain for this process start, and start its writer.

    Args:
        address: connection string or URI of libpq.
        replica: name of this instance in its records; the host's by default.
        settings: batching, queue and failure behaviour.
        retention: what to forget; default nothing.
        counted: called once for every record that is stored, in the writer's thread: `Metrics.count`.
        settled_s: how long the server must have been up before streams of processes that are gone are taken over.

    Raises:
        StoreError: the server cannot be reached, or its tables are of another version.
        MissingError: psycopg is not installed.
    """
    options = replace(settings or WriterSettings(), tidy_s=_BEAT_S)
    boot = new_boot()

    def build() -> StoredJournal:
        driver = load_driver()
        sink = PostgresSink(
            driver, address, Origin(boot, replica or socket.gethostname()), retention or Retention(), settled_s
        )
        reader = PostgresReader(driver, address)
        try:
            leftovers = sink.leftovers()
        except StoreError:
            sink.close()
            raise
        writer = BatchWriter(sink, options, counted) if counted else BatchWriter(sink, options)
        writer.start()
        return StoredJournal(sink, writer, reader, boot, leftovers)

    return await asyncio.to_thread(build)
