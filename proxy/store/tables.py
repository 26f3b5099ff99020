"""The tables of a journal in Postgres, and the little that every session does first."""

from __future__ import annotations

from typing import Final

from proxy.store.driver import Connection
from supervisors.errors import StoreError

VERSION: Final = 1
"""Of the tables."""

COLUMNS: Final = "boot, seq, hash, id, request_id, time, model, found, body, mode, content, judged"
TYPES: Final = (
    "text",
    "int8",
    "text",
    "text",
    "text",
    "text",
    "text",
    "int4",
    "bytea",
    "text",
    "bytea",
    "text[]",
)

_CREATING: Final = 7_305_081_947_112_201
"""Advisory lock that keeps apart two starts that find no tables."""

_TABLES: Final = """
CREATE TABLE guardrail_boots (
    boot text COLLATE "C" PRIMARY KEY,
    genesis bytea NOT NULL,
    seq bigint NOT NULL,
    hash text NOT NULL
);
CREATE TABLE guardrail_records (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    boot text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    hash text NOT NULL,
    id text COLLATE "C" NOT NULL UNIQUE,
    request_id text COLLATE "C" NOT NULL,
    time text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    found integer NOT NULL,
    body bytea NOT NULL,
    mode text,
    content bytea,
    judged text[] NOT NULL,
    UNIQUE (boot, seq)
);
CREATE INDEX guardrail_records_request ON guardrail_records (request_id) WHERE request_id <> id;
CREATE INDEX guardrail_records_time ON guardrail_records (time, position);
CREATE INDEX guardrail_records_content ON guardrail_records (mode, time) WHERE content IS NOT NULL;
CREATE TABLE guardrail_anchors (
    boot text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    hash text NOT NULL,
    time text NOT NULL
);
-- version is `policy.version` of a record, the SHA-256 of text its `config`
CREATE TABLE guardrail_configs (version text PRIMARY KEY, time text NOT NULL, text text NOT NULL);
CREATE TABLE guardrail_begun (id text PRIMARY KEY, boot text COLLATE "C" NOT NULL, body bytea NOT NULL);
CREATE TABLE guardrail_schema (version integer NOT NULL);
"""


def create_tables(connection: Connection) -> None:
    """Make the tables where the session's search path points, unless they are there.

    Raises:
        StoreError: they are of another version than this program's.
    """
    if not _exist(connection):
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            if not _exist(connection):  # somebody may have been faster
                for statement in _TABLES.split(";"):
                    if statement.strip():
                        connection.execute(statement)
                connection.execute("INSERT INTO guardrail_schema VALUES (%s)", (VERSION,))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    check_tables(connection)


def _exist(connection: Connection) -> bool:
    # Not to_regclass: a session remembers what it did not find, also past the wait for a lock.
    query = "SELECT 1 FROM pg_class WHERE relname = 'guardrail_schema' AND pg_table_is_visible(oid)"
    return connection.execute(query).fetchone() is not None


def check_tables(connection: Connection) -> None:
    """Refuse a database without our tables, or with those of another version.

    Raises:
        StoreError: it is so.
    """
    if not _exist(connection):
        msg = "there is no journal in this database: its search path leads to no table guardrail_schema"
        raise StoreError(msg)
    row = connection.execute("SELECT max(version) FROM guardrail_schema").fetchone()
    version = None if row is None else row[0]
    if version != VERSION:
        msg = f"the journal in this database has schema {version}; this program reads and writes schema {VERSION}"
        raise StoreError(msg)
