"""Reading a journal in either database: by id, by request id, and by filters (W-37). SQL through parameters (X-11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from proxy.store.protocol import Filters, StoredRecord
from proxy.store.retention import timestamp
from proxy.store.schema import FOUND, assemble
from supervisors.errors import QueryError

SAME_REQUEST = 100
"""Most records shown of one request id."""
MOST = 1000
"""Largest page."""


@dataclass(frozen=True, slots=True)
class Database:
    """How one database is asked.

    Args:
        table: name of the table of records.
        run: runs a statement with ``?`` for each value, and returns its rows.
        plain: makes of a text what a column can hold.
        judged: the condition that a supervisor judged, and its values: name, and label or an empty text.
    """

    table: str
    run: Callable[[str, Sequence[object]], Sequence[tuple[Any, ...]]]
    plain: Callable[[str], str]
    judged: Callable[[str, str], tuple[str, Sequence[object]]]

    def fetch(self, key: str) -> Sequence[StoredRecord]:
        """Return the record with this id, else the newest ones with this request id."""
        rows = self._read("id = ?", (self.plain(key),))
        if not rows:
            where = "request_id = ? AND request_id <> id ORDER BY position DESC LIMIT ?"
            rows = self._read(where, (self.plain(key), SAME_REQUEST))
        return rows

    def search(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records by time, newest first.

        Raises:
            QueryError: the limit is out of range, or `after` names no record.
        """
        if not 1 <= filters.limit <= MOST:
            msg = f"limit is {filters.limit}, it must be 1 to {MOST}"
            raise QueryError(msg)
        where, values = self._conditions(filters)
        if filters.after is not None:
            found = self._select("time, position", "id = ?", (self.plain(filters.after),))
            if not found:
                msg = f"after names no record: {filters.after!r}"
                raise QueryError(msg)
            where.append("(time, position) < (?, ?)")
            values += found[0]
        # Every condition is one of the constant texts here; values travel as parameters.
        clause = " AND ".join(where) or "1 = 1"
        return self._read(f"{clause} ORDER BY time DESC, position DESC LIMIT ?", (*values, filters.limit))

    def _read(self, where: str, values: Sequence[object]) -> list[StoredRecord]:
        return [assemble(row) for row in self._select("body, hash, content", where, values)]

    def _select(self, what: str, where: str, values: Sequence[object]) -> Sequence[tuple[Any, ...]]:
        return self.run(f"SELECT {what} FROM {self.table} WHERE {where}", values)  # noqa: S608 - constants of this class

    def _conditions(self, filters: Filters) -> tuple[list[str], list[object]]:
        where: list[str] = []
        values: list[object] = []
        if filters.since is not None:
            where.append("time >= ?")
            values.append(bound(filters.since))
        if filters.until is not None:
            where.append("time < ?")
            values.append(bound(filters.until))
        if filters.model is not None:
            where.append("model = ?")
            values.append(self.plain(filters.model))
        label = filters.label.value if filters.label else ""
        bits = FOUND.get(label, 0) | (FOUND[filters.decision] if filters.decision else 0)
        if bits:
            where.append("found & ? = ?")
            values += [bits, bits]
        if filters.supervisor is not None:
            condition, named = self.judged(self.plain(filters.supervisor), label)
            where.append(condition)
            values += named
        return where, values


_EARLIEST = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def bound(seconds: float) -> str:
    """Return a time as records hold it, brought into the range that has such a form."""
    return timestamp(min(max(seconds, _EARLIEST), _LATEST))
