"""A journal over any database: a writer with its sink on one side, a reader on the other."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from proxy.record import Begun
from proxy.store.protocol import Filters, StoredRecord
from proxy.store.writer import BatchWriter, Sink
from supervisors.errors import StoreError

T = TypeVar("T")

LONGEST_S: Final = 10.0
"""How long anybody waits for a look-up, its turn included."""
_CLOSE_S: Final = 2.0
"""The same at the end, for one that is under way."""


class ArchivingSink(Sink, Protocol):
    """A sink that also keeps what `verify` needs of config versions."""

    def archive(self, version: str, text: str) -> None:
        """Keep the text of a config version; the same version again changes nothing.

        Raises:
            StoreError: it could not be written, or the version is archived with another text.
        """
        ...


class Reader(Protocol):
    """The reading side. Called from one thread at a time."""

    def fetch(self, key: str) -> Sequence[StoredRecord]:
        """Return the record with this id, else the newest ones with this request id.

        Raises:
            StoreError: the database cannot be read.
        """
        ...

    def search(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records by time, newest first.

        Raises:
            StoreError: the database cannot be read, the limit is out of range, or `after` names no record.
        """
        ...

    def close(self) -> None:
        """Release the database."""
        ...


Leftovers = Sequence[tuple[Begun, str | None]]
"""Streams that a crash left without a record, each with the archive of its config version."""


def new_boot() -> str:
    """Return the id of a process start: sorts by time, never used before."""
    return f"{int(time.time() * 1000):012x}{secrets.token_hex(6)}"


class StoredJournal:
    """A `Journal` in a database. Open it with the `open_…` of `proxy.store.sqlite` or `proxy.store.postgres`.

    Args:
        sink: what the writer writes to.
        writer: started.
        reader: for look-ups.
        boot: id of this process start.
        leftovers: as found when the journal was opened.
    """

    def __init__(
        self, sink: ArchivingSink, writer: BatchWriter, reader: Reader, boot: str, leftovers: Leftovers = ()
    ) -> None:
        self._sink = sink
        self._writer = writer
        self._reader = reader
        self._boot = boot
        # One read at a time, for they share a connection; in a thread of its own, so that those who wait for their
        # turn, behind a slow search, hold none of the threads that requests need.
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="journal-reader")
        self._closed = False
        self.accept = writer.accept
        self.reserve = writer.reserve
        self.keep = writer.keep
        self.begin = writer.begin
        self.forget = writer.forget
        self.leftovers = leftovers

    @property
    def boot(self) -> str:
        """Id of this process start."""
        return self._boot

    @property
    def healthy(self) -> bool:
        """False while the database takes no writes or the queue is full."""
        return self._writer.healthy

    @property
    def failure(self) -> str | None:
        """What went wrong at the last attempt to write, for `/readyz`; None when it went well."""
        return self._writer.failure

    @property
    def backlog(self) -> int:
        """Records accepted and not yet on disk."""
        return self._writer.backlog

    @property
    def lost(self) -> int:
        """Records given up."""
        return self._writer.lost

    @property
    def accepted(self) -> int:
        """Records taken on: each is on disk, waits, or is lost."""
        return self._writer.accepted

    async def flush(self, timeout_s: float = 5.0) -> None:
        """Wait until everything accepted before is on disk.

        Raises:
            StoreError: the writer has failed, or the time is over.
        """
        await self._writer.run(None, timeout_s)

    async def archive_config(self, version: str, text: str) -> None:
        """Keep what `verify` needs of a config version: `Archive.to_text` of proxy/store/rules.py.

        Raises:
            StoreError: it could not be written, or the version is archived with another text.
        """
        await self._writer.run(lambda: self._sink.archive(version, text), 5.0)

    async def get(self, key: str) -> Sequence[StoredRecord]:
        """Return the record of this id, or those of this request id, newest first; empty if there is none.

        Raises:
            StoreError: the journal cannot be read, or not in time.
        """
        return await self._read(lambda: self._reader.fetch(key), LONGEST_S)

    async def find(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return matching records, newest first.

        Raises:
            StoreError: the journal cannot be read, or not in time, the limit is out of range, or `after` names no
                record.
        """
        return await self._read(lambda: self._reader.search(filters), LONGEST_S)

    async def _read(self, read: Callable[[], T], seconds: float) -> T:
        if self._closed:
            msg = "the journal is closed"
            raise StoreError(msg)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._reading, read)
        except TimeoutError as error:
            msg = f"the journal did not answer within {seconds:g} s"
            raise StoreError(msg) from error

    async def aclose(self) -> None:
        """Write what is queued, end the writer, release the database."""
        with suppress(StoreError):  # first: SQLite folds its log into the file when the last connection can write
            await self._read(self._reader.close, _CLOSE_S)
        self._closed = True
        self._reading.shutdown(wait=False, cancel_futures=True)
        await self._writer.aclose()
