"""What a journal in Postgres forgets: as `proxy.store.retention` does in a file (O-15, O-25)."""

from __future__ import annotations

from typing import Final

from proxy.store.driver import Connection
from proxy.store.retention import DAY_S, PIECE, Retention, find_expired, timestamp

_TRIMMING: Final = 7_305_081_947_112_202
"""Advisory lock: of several processes one trims, the others leave it to that one."""


def trim(connection: Connection, retention: Retention, now: float) -> bool:
    """Erase and delete one piece of what has expired, inside a transaction; return true when there may be more."""
    row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (_TRIMMING,)).fetchone()
    if row is None or not row[0]:
        return False
    more = False
    for mode, days in retention.content_days.items():
        erased = connection.execute(
            "UPDATE guardrail_records SET content = NULL WHERE position IN (SELECT position FROM guardrail_records"
            " WHERE mode = %s AND time < %s AND content IS NOT NULL LIMIT %s)",
            (mode, timestamp(now - days * DAY_S), PIECE),
        )
        more |= erased.rowcount == PIECE
    if retention.record_days is not None:
        cutoff = timestamp(now - retention.record_days * DAY_S)
        for (boot,) in connection.execute("SELECT boot FROM guardrail_boots").fetchall():
            more |= _delete_records(connection, boot, cutoff, timestamp(now))
    return more


def _delete_records(connection: Connection, boot: str, cutoff: str, now: str) -> bool:
    """Delete the expired beginning of one chain."""
    rows = connection.execute(
        "SELECT seq, hash, time FROM guardrail_records WHERE boot = %s ORDER BY seq LIMIT %s", (boot, PIECE)
    ).fetchall()
    expired = find_expired(rows, cutoff)
    if not expired:
        return False
    last = expired[-1][:2]
    connection.execute("DELETE FROM guardrail_records WHERE boot = %s AND seq <= %s", (boot, last[0]))
    connection.execute(
        "INSERT INTO guardrail_anchors VALUES (%s, %s, %s, %s) ON CONFLICT (boot)"
        " DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, time = EXCLUDED.time",
        (boot, *last, now),
    )
    return len(expired) == PIECE
