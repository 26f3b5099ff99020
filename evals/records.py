"""Read a proxy's decision journal as an auditor does: row by row, from one snapshot, never writing to it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evals.journal import JsonObject, parse_object
from proxy.journals import open_named
from proxy.rows import complete
from proxy.store.schema import has_log, remove_own_log
from proxy.verify import Verification
from supervisors.errors import StoreError


@dataclass(frozen=True, slots=True)
class Stored:
    """One record of a journal.

    Args:
        id: of the record.
        body: as stored, without its content; what the journal leaves out because it is usual is filled in.
        mode: content mode it was kept in, None when nothing of its text was kept or it has expired.
        content: what was kept of its text, None without.
    """

    id: str
    body: JsonObject
    mode: str | None
    content: JsonObject | None


def read_records(path: Path) -> Iterator[Stored]:
    """Yield the records of a journal in the order they were written.

    Raises:
        StoreError: it is missing, no journal, or a record is damaged.
    """
    with open_named(path) as audit:
        for row in audit.rows():
            body = _body(row.body)
            if body is None:
                msg = f"{path}: record {row.id} is damaged; `guardrail-proxy verify` shows more"
                raise StoreError(msg)
            yield Stored(
                id=str(row.id),
                body=body,
                mode=row.mode if isinstance(row.mode, str) else None,
                content=_content(row.content),
            )


def _body(raw: object) -> JsonObject | None:
    """Return a record with what is usual filled in, None when it is damaged."""
    stored = parse_object(raw) if isinstance(raw, bytes) else None
    try:
        return None if stored is None else complete(stored)
    except (KeyError, TypeError):
        return None


def _content(raw: object) -> JsonObject | None:
    if not isinstance(raw, bytes | str):
        return None
    try:
        kept: object = json.loads(raw)
    except ValueError:
        return None
    inner: object = kept.get("content") if isinstance(kept, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # JSON
    return inner if isinstance(inner, dict) else None  # pyright: ignore[reportUnknownVariableType] # JSON


def prove(path: Path) -> list[str]:
    """Return what does not hold in a journal: its chain, its verdicts, and every decision taken again.

    Raises:
        StoreError: it is missing or unreadable.
    """
    with open_named(path) as audit:
        return [difference.line() for difference in Verification(audit).differences()]


def read_record_ids(journal: Path) -> Iterator[tuple[str, int]]:
    """Yield each record id of a proxy journal and how often it stands there; nothing is left beside the file.

    Raises:
        StoreError: the file is missing or no journal.
    """
    had_log = has_log(journal)
    try:
        connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
        try:
            for name, count in connection.execute("SELECT id, COUNT(*) FROM records GROUP BY id"):
                yield str(name), int(count)
        finally:
            connection.close()
            if not had_log:
                remove_own_log(journal)
    except sqlite3.Error as error:
        msg = f"{journal}: cannot be read as a proxy journal: {error}"
        raise StoreError(msg) from error
