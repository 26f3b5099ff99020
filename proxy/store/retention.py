"""What a journal forgets, and when: contents by their mode, whole records from the old end (O-15, O-25)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

import orjson

DAY_S: Final = 86_400.0
PIECE: Final = 500
"""Rows a piece: short enough that a batch of records never waits long behind it."""


Row = tuple[int, str, str]
"""Number, hash and time of a record."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept, in days; what is not named is kept for ever.

    Args:
        record_days: age at which whole records are deleted.
        content_days: age at which contents are erased, by content mode (``hashed``, ``full``). The record stays
            and its chain stays provable: it holds a salted digest of the content only.
    """

    record_days: float | None = None
    content_days: Mapping[str, float] = field(default_factory=dict[str, float])


def timestamp(seconds: float) -> str:
    """Return RFC 3339 UTC with microseconds, as records hold it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def find_expired(rows: Iterable[Row], cutoff: str) -> list[Row]:
    """Return the beginning of a chain that has expired; a record that ended early behind a long one waits for it."""
    return list(takewhile(lambda row: row[2] < cutoff, rows))


def forget(connection: sqlite3.Connection, retention: Retention, now: float) -> bool:
    """Erase and delete one piece of what has expired, in one transaction; return true when there may be more."""
    more = False
    connection.execute("BEGIN IMMEDIATE")
    try:
        for mode, days in retention.content_days.items():
            more |= _erase_contents(connection, mode, timestamp(now - days * DAY_S))
        if retention.record_days is not None:
            cutoff = timestamp(now - retention.record_days * DAY_S)
            for (boot,) in connection.execute("SELECT boot FROM boots").fetchall():
                more |= _delete_records(connection, boot, cutoff, timestamp(now))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return more


def find_forged(time: str, genesis: bytes | None, days: float | None, now: str | None) -> Iterator[str]:
    """Yield why an anchor cannot come from retention.

    Args:
        time: of the deletion, as the anchor says.
        genesis: line of the start whose records it deleted, None when there is no such start.
        days: age at which records are deleted, None when they are kept.
        now: RFC 3339 UTC, None when it is not known.
    """
    if genesis is None:
        yield "is of no process start of this journal"
        return
    if days is None:
        yield "deletes records, and no config of this journal has retention_days"
        return
    try:
        begun, deleted = datetime.fromisoformat(str(orjson.loads(genesis)["time"])), datetime.fromisoformat(time)
        young = (deleted - begun).total_seconds() < days * DAY_S
    except (ValueError, KeyError, TypeError):
        yield f"has the time {time!r}, which cannot be compared with the genesis line"
        return
    if young:
        yield f"deleted at {time} what was recorded after {begun.isoformat()}, younger than {days:g} days"
    if now is not None and deleted > datetime.fromisoformat(now):
        yield f"has the time {time}, which is still to come"


def _erase_contents(connection: sqlite3.Connection, mode: str, cutoff: str) -> bool:
    erased = connection.execute(
        "UPDATE records SET content = NULL WHERE position IN (SELECT position FROM records"
        " WHERE mode = ? AND time < ? AND content IS NOT NULL LIMIT ?)",
        (mode, cutoff, PIECE),
    ).rowcount
    return erased == PIECE


def _delete_records(connection: sqlite3.Connection, boot: str, cutoff: str, now: str) -> bool:
    """Delete the expired beginning of one chain."""
    rows = connection.execute(
        "SELECT seq, hash, time FROM records WHERE boot = ? ORDER BY seq LIMIT ?", (boot, PIECE)
    ).fetchall()
    expired = find_expired(rows, cutoff)
    if not expired:
        return False
    last = expired[-1][:2]
    connection.execute("DELETE FROM records WHERE boot = ? AND seq <= ?", (boot, last[0]))
    # One anchor a boot: the newest deletion says everything the older ones said.
    connection.execute("DELETE FROM anchors WHERE boot = ?", (boot,))
    connection.execute("INSERT INTO anchors (boot, seq, hash, time) VALUES (?, ?, ?, ?)", (boot, *last, now))
    return len(expired) == PIECE
