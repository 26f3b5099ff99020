"""Reading the journal: by id, by request id, and by filters (W-37). SQL only through parameters (X-11)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from proxy.store.chain import storable
from proxy.store.protocol import Filters, StoredRecord
from proxy.store.retention import timestamp
from proxy.store.schema import FOUND, assemble
from supervisors.errors import QueryError

SAME_REQUEST = 100
"""Most records shown of one request id."""
MOST = 1000
"""Largest page."""
_ROW = "SELECT body, hash, content FROM records"


def fetch(connection: sqlite3.Connection, key: str) -> Sequence[StoredRecord]:
    """Return the record with this id, else the newest ones with this request id."""
    rows = connection.execute(f"{_ROW} WHERE id = ?", (storable(key),)).fetchall()
    if not rows:
        rows = connection.execute(
            f"{_ROW} WHERE request_id = ? AND request_id != id ORDER BY position DESC LIMIT ?",
            (storable(key), SAME_REQUEST),
        ).fetchall()
    return [assemble(row) for row in rows]


def search(connection: sqlite3.Connection, filters: Filters) -> Sequence[StoredRecord]:
    """Return matching records by time, newest first.

    Raises:
        QueryError: the limit is out of range, or `after` names no record.
    """
    if not 1 <= filters.limit <= MOST:
        msg = f"limit is {filters.limit}, it must be 1 to {MOST}"
        raise QueryError(msg)
    where, values = _conditions(filters)
    if filters.after is not None:
        cursor = connection.execute(
            "SELECT time, position FROM records WHERE id = ?", (storable(filters.after),)
        ).fetchone()
        if cursor is None:
            msg = f"after names no record: {filters.after!r}"
            raise QueryError(msg)
        where.append("(time, position) < (?, ?)")
        values += cursor
    clause = " AND ".join(where) or "1"
    # Every condition is one of the constant texts below; values travel as parameters.
    sql = f"{_ROW} WHERE {clause} ORDER BY time DESC, position DESC LIMIT ?"
    return [assemble(row) for row in connection.execute(sql, (*values, filters.limit))]


def _conditions(filters: Filters) -> tuple[list[str], list[str | int | float]]:
    where: list[str] = []
    values: list[str | int | float] = []
    if filters.since is not None:
        where.append("time >= ?")
        values.append(bound(filters.since))
    if filters.until is not None:
        where.append("time < ?")
        values.append(bound(filters.until))
    if filters.model is not None:
        where.append("model = ?")
        values.append(storable(filters.model))
    bits = (FOUND[filters.label.value] if filters.label else 0) | (FOUND[filters.decision] if filters.decision else 0)
    if bits:
        where.append("found & ? = ?")
        values += [bits, bits]
    if filters.supervisor is not None:
        where.append(
            "EXISTS (SELECT 1 FROM json_each(CAST(body AS TEXT), '$.verdicts') AS verdict"
            " WHERE verdict.value ->> 'supervisor' = ? AND (? = '' OR verdict.value ->> 'label' = ?))"
        )
        label = filters.label.value if filters.label else ""
        values += [storable(filters.supervisor), label, label]
    return where, values


_EARLIEST = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def bound(seconds: float) -> str:
    """Return a time as records hold it, brought into the range that has such a form."""
    return timestamp(min(max(seconds, _EARLIEST), _LATEST))
