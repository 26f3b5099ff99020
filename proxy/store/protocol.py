"""What the pipeline and the admin routes may ask of a journal, whichever database is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proxy.policy import Action
from proxy.record import Begun, Record
from supervisors.types import Label

OnRecordFailure = Literal["block", "continue"]
StoredRecord = Mapping[str, Any]
"""A record as JSON, with `boot`, `replica`, `seq`, `prev`, `hash`."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which records `find` returns (W-37); None does not restrict.

    Args:
        since: seconds since the epoch, inclusive.
        until: seconds since the epoch, exclusive.
        label: some verdict has this label; together with `supervisor`, one of that supervisor.
        decision: some decision has this action.
        supervisor: full name, members as ``panel/a``.
        model: model as requested.
        limit: 1 to 1,000 records.
        after: id of the last record of the page before.
    """

    since: float | None = None
    until: float | None = None
    label: Label | None = None
    decision: Action | None = None
    supervisor: str | None = None
    model: str | None = None
    limit: int = 100
    after: str | None = None


class Backlog(Protocol):
    """What a journal says of itself, as the metrics read it."""

    @property
    def boot(self) -> str:
        """Id of this process start; each has a chain of its own."""
        ...

    @property
    def backlog(self) -> int:
        """Records accepted and not yet on disk."""
        ...

    @property
    def lost(self) -> int:
        """Records given up: the queue was full, or a failed journal was closed."""
        ...

    @property
    def accepted(self) -> int:
        """Records taken on: each is on disk, waits, or is lost."""
        ...

    @property
    def failure(self) -> str | None:
        """What went wrong at the last attempt to write, None when it went well."""
        ...


class Journal(Backlog, Protocol):
    """The append-only record of every exchange."""

    @property
    def healthy(self) -> bool:
        """False while the database takes no writes or the queue is full: the proxy is then not ready."""
        ...

    def begin(self, begun: Begun) -> None:
        """Note that text of a stream is about to leave; the note goes when its record comes."""
        ...

    def forget(self, record_id: str) -> None:
        """Drop a note: nothing of its stream has left."""
        ...

    def accept(self, record: Record, *, reserved: bool = False) -> None:
        """Queue a record for the writer; cheap enough for the event loop.

        Args:
            record: of an answer that has not left.
            reserved: it has a place, and gives it back.

        Raises:
            StoreError: under ``block``, when the writer has failed or the queue is full; always after `aclose`.
        """
        ...

    def reserve(self) -> bool:
        """Take the place of a record that is still to come, for `accept` or `keep`; false where it may be lost.

        Raises:
            StoreError: as for `accept`.
        """
        ...

    def keep(self, record: Record, *, reserved: bool = False) -> None:
        """Queue the record of an answer that has left: it is written when that is possible, or counted as lost.

        Args:
            record: of the answer.
            reserved: it has a place, and gives it back.
        """
        ...

    async def flush(self, timeout_s: float = 5.0) -> None:
        """Wait until everything accepted before is on disk.

        Raises:
            StoreError: the writer has failed, or the time is over.
        """
        ...

    async def archive_config(self, version: str, text: str) -> None:
        """Keep what `verify` needs of a config version; do this before the first record that names it.

        Raises:
            StoreError: it could not be written.
        """
        ...

    async def get(self, key: str) -> Sequence[StoredRecord]:
        """Return the record of this id, or those of this request id, newest first; empty if there is none.

        Raises:
            StoreError: the journal cannot be read.
        """
        ...

    async def find(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records, newest first.

        Raises:
            StoreError: the journal cannot be read, or `after` names no record.
        """
        ...

    async def aclose(self) -> None:
        """Write what is queued and end the writer."""
        ...
