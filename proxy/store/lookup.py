"""Reading a journal in Postgres: look-ups for the admin routes, and the audit. SQL only through parameters (X-11)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

from proxy.store.audit import Anchor, Boot, StoredRow
from proxy.store.chain import storable
from proxy.store.driver import Connection, Driver, bounded, load_driver
from proxy.store.protocol import Filters, StoredRecord
from proxy.store.query import Database
from proxy.store.tables import COLUMNS, check_tables
from supervisors.errors import QueryError, StoreError

_LONGEST_S: Final = 10.0
"""Longest time of a look-up."""


class PostgresReader:
    """Look-ups on a connection that cannot write, opened when it is needed and again when it broke.

    Args:
        driver: the library.
        address: connection string or URI.
    """

    def __init__(self, driver: Driver, address: str) -> None:
        self._driver = driver
        self._address = address
        self._connection: Connection | None = None

    def fetch(self, key: str) -> Sequence[StoredRecord]:
        """Return the record with this id, else the newest ones with this request id."""
        return self._read(lambda database: database.fetch(key))

    def search(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records by time, newest first."""
        return self._read(lambda database: database.search(filters))

    def _read(self, read: Callable[[Database], Sequence[StoredRecord]]) -> Sequence[StoredRecord]:
        """Ask; a connection that was kept may be one that has ended since, so that a new one is asked again."""
        if self._connection is not None:
            try:
                return self._ask(self._connection, read)
            except QueryError:
                raise
            except StoreError:
                self.close()
        self._connection = self._driver.connect(self._address, "guardrail-proxy reading", readonly=True)
        try:
            return self._ask(self._connection, read)
        except StoreError:
            self.close()
            raise

    def _ask(
        self, connection: Connection, read: Callable[[Database], Sequence[StoredRecord]]
    ) -> Sequence[StoredRecord]:
        with self._driver.translated(), bounded(connection, _LONGEST_S):
            return read(_database(connection))

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            with suppress(self._driver.error):
                self._connection.close()
            self._connection = None


def _plain(text: str) -> str:
    """Return a value as a parameter can be: what no column holds matches nothing."""
    return storable(text).replace("\x00", "\ufffd")


def _database(connection: Connection) -> Database:
    def run(sql: str, values: Sequence[object]) -> Sequence[tuple[Any, ...]]:
        return connection.execute(sql.replace("?", "%s"), values).fetchall()

    return Database("guardrail_records", run, _plain, _judged)


def _judged(name: str, label: str) -> tuple[str, Sequence[object]]:
    return "? = ANY(judged)", [f"{name}={label}" if label else name]


class PostgresAudit:
    """A snapshot of a journal in Postgres. Get it from `open_postgres_audit`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def damage(self) -> Iterator[str]:
        """Yield nothing: the server checks its own pages."""
        yield from ()

    def boots(self) -> Mapping[str, Boot]:
        """Return the process starts by id."""
        rows = self._connection.execute("SELECT boot, genesis, seq, hash FROM guardrail_boots ORDER BY boot").fetchall()
        return {boot: Boot(boot, genesis, seq, head) for boot, genesis, seq, head in rows}

    def anchors(self) -> Mapping[str, Anchor]:
        """Return the anchor of each chain that retention has cut."""
        rows = self._connection.execute("SELECT boot, seq, hash, time FROM guardrail_anchors").fetchall()
        return {boot: Anchor(seq, last, time) for boot, seq, last, time in rows}

    def unrecorded(self) -> Iterator[tuple[str, str]]:
        """Yield id and process start of the streams that have begun and have no record."""
        query = (
            "SELECT id, boot FROM guardrail_begun AS begun WHERE NOT EXISTS"
            " (SELECT 1 FROM guardrail_records WHERE id = begun.id) ORDER BY id"
        )
        for name, boot in self._connection.execute(query).fetchall():
            yield str(name), str(boot)

    def config(self, version: str) -> str | None:
        """Return the archived text of a config version."""
        query = "SELECT text FROM guardrail_configs WHERE version = %s"
        row = self._connection.execute(query, (version,)).fetchone()
        return None if row is None else str(row[0])

    def hash_at(self, boot: str, seq: int) -> str | None:
        """Return the hash of one record, None if it is not there."""
        query = "SELECT hash FROM guardrail_records WHERE boot = %s AND seq = %s"
        row = self._connection.execute(query, (boot, seq)).fetchone()
        return None if row is None else str(row[0])

    def rows(self) -> Iterator[StoredRow]:
        """Yield all records in the order of their positions; the server hands them out in portions."""
        query = f"SELECT {COLUMNS} FROM guardrail_records ORDER BY position"  # noqa: S608 - constant
        with closing(self._connection.cursor("records")) as cursor:
            for row in cursor.execute(query):
                yield StoredRow(*row)


@contextmanager
def open_postgres_audit(address: str) -> Generator[PostgresAudit]:
    """Open a journal for one pass over a consistent snapshot.

    Raises:
        StoreError: it cannot be reached, or breaks off on the way.
        MissingError: psycopg is not installed.
    """
    driver = load_driver()
    connection = driver.connect(address, "guardrail-proxy audit", readonly=True)
    try:
        with driver.translated():
            check_tables(connection)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield PostgresAudit(connection)
    finally:
        connection.close()
