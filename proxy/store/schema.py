"""The SQLite schema of the journal, how a file is opened, and how a record becomes a row."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from proxy.rows import complete
from supervisors.errors import StoreError

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE boots (
    boot TEXT PRIMARY KEY,
    genesis BLOB NOT NULL,      -- canonical JSON, its SHA-256 is the first `prev`
    seq INTEGER NOT NULL,       -- head: last record written, so that a cut tail shows
    hash TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    boot TEXT NOT NULL,
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    request_id TEXT NOT NULL,
    time TEXT NOT NULL,
    model TEXT NOT NULL,
    found INTEGER NOT NULL,     -- bit set of labels and actions, see FOUND
    body BLOB NOT NULL,         -- canonical JSON without the hash, content replaced by its digest, defaults left out
    mode TEXT,                  -- content mode, NULL without content
    content BLOB,               -- canonical JSON with its salt, NULL when there is none or it has expired
    UNIQUE (boot, seq)
);
CREATE INDEX records_request ON records (request_id) WHERE request_id != id;
CREATE INDEX records_time ON records (time, position, found, model);
CREATE INDEX records_content ON records (mode, time) WHERE content IS NOT NULL;
CREATE TABLE anchors (          -- what retention leaves of the records it deleted: the last of them
    boot TEXT NOT NULL,
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL,
    time TEXT NOT NULL,
    PRIMARY KEY (boot, seq)
) WITHOUT ROWID;
CREATE TABLE configs (
    version TEXT PRIMARY KEY,   -- SHA-256 of the resolved config: `policy.version` of a record
    time TEXT NOT NULL,
    text TEXT NOT NULL          -- the rules to decide again by, whose SHA-256 is `config` of a record
) WITHOUT ROWID;
"""

_BEGUN = """
CREATE TABLE IF NOT EXISTS begun ( -- streams whose record is still to come; made in older files too
    id TEXT PRIMARY KEY,
    boot TEXT NOT NULL,
    body BLOB NOT NULL          -- JSON, see Begun
) WITHOUT ROWID
"""

COLUMNS = "boot, seq, hash, id, request_id, time, model, found, body, mode, content"

FOUND: Mapping[str, int] = {
    "safe": 1,
    "unsafe": 2,
    "unknown": 4,
    "pass": 8,
    "flag": 16,
    "redact": 32,
    "block": 64,
}
"""Bits of the column `found`: labels of the verdicts and actions of the decisions."""


def found_bits(body: Mapping[str, Any]) -> int:
    """Return the labels and actions that occur in a record, as bits."""
    bits = 0
    for verdict in body["verdicts"]:
        bits |= FOUND[verdict["label"]]
    for decision in body["decisions"]:
        bits |= FOUND[decision["action"]]
    return bits


def assemble(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the stored record of a row `body, hash, content`: with its hash, and its content if still kept."""
    body, digest, content = row
    record = complete(orjson.loads(body))
    record["hash"] = digest
    if content is not None:
        record["content"] = orjson.loads(content)["content"]
    return record


def open_writable(path: Path) -> sqlite3.Connection:
    """Open the journal for its writer, creating file and schema when new; only the owner may read the file.

    Raises:
        StoreError: the folder is missing, the file is not a journal, or its schema is newer than this program.
    """
    try:
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    except (OSError, sqlite3.Error) as error:
        msg = f"cannot open the journal {path}: {error}"
        raise StoreError(msg) from error
    try:
        connection.execute("PRAGMA page_size = 16384")  # of a new file: a write of 4 KB costs as much as one of 16
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _bound_log(connection)
        _create(connection, path)
    except sqlite3.Error as error:
        connection.close()
        msg = f"cannot open the journal {path}: {error}"
        raise StoreError(msg) from error
    except StoreError:
        connection.close()
        raise
    return connection


LOG_BYTES = 4 * 1024 * 1024
"""About as large the write-ahead log gets: SQLite's own bound counts pages, and comes to 17 MB with ours."""


def _bound_log(connection: sqlite3.Connection) -> None:
    """Fold the log into the file once it has `LOG_BYTES`, and cut it when something kept it from being folded."""
    page_bytes: int = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page_bytes}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")  # several workers may open a new file at once: one creates, the others see it
    try:
        version = read_version(connection)
        if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        else:
            check_version(version, path)
        connection.execute(_BEGUN)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def read_version(connection: sqlite3.Connection) -> int:
    """Return the schema version of an open file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def check_version(version: int, path: Path) -> None:
    """Refuse a file of another schema.

    Raises:
        StoreError: it is not a journal, or of another version.
    """
    if version != SCHEMA_VERSION:
        what = "is not a journal" if version == 0 else f"has schema {version}"
        msg = f"{path} {what}; this program reads and writes journals with schema {SCHEMA_VERSION}"
        raise StoreError(msg)


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open an existing journal for reading, while a writer is at work or not.

    Raises:
        StoreError: it does not exist, cannot be read, or is no journal of this schema.
    """
    if not path.is_file():
        msg = f"there is no journal at {path}"
        raise StoreError(msg)
    uri = f"{path.resolve().as_uri()}?mode=ro"
    # A closed journal on a read-only medium has no side files, and SQLite cannot make them.
    tried = (uri,) if has_log(path) else (uri, f"{uri}&immutable=1")
    problem: sqlite3.Error | None = None
    for address in tried:
        try:
            connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
            version = _version_of(connection)
        except sqlite3.Error as error:
            problem = error
            continue
        try:
            check_version(version, path)
        except StoreError:
            connection.close()
            raise
        return connection
    msg = f"cannot read the journal {path}: {problem}"
    raise StoreError(msg) from problem


def has_log(path: Path) -> bool:
    """Say whether a journal has its write-ahead log beside it: somebody has it open, or ended without closing it."""
    return _log_of(path).exists()


def remove_own_log(path: Path) -> None:
    """Take away the empty log that reading a closed journal made, which a reader cannot do itself.

    SQLite does it when the last connection that may write is closed, under its own locks: where anybody else has the
    journal open by now, nothing happens. No byte of the journal changes, as its log is empty.
    """
    try:
        if _log_of(path).stat().st_size:
            return  # somebody writes by now
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=0.0)
    except (OSError, sqlite3.Error):
        return  # there is none, or the file is not ours to write to
    with contextlib.suppress(sqlite3.Error):
        read_version(connection)
    connection.close()


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _version_of(connection: sqlite3.Connection) -> int:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return read_version(connection)
    except sqlite3.Error:
        connection.close()
        raise
