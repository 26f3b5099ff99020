"""One thread that takes records from a bounded queue and writes them in batches.

The event loop only appends to a deque. Serialising, hashing and SQL happen here, a few records at a time: each SQL
statement gives the interpreter back to the event loop, so that a large batch never holds it for long.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.record import Begun, Record
from proxy.store.protocol import OnRecordFailure
from supervisors.errors import StoreError

log = logging.getLogger(__name__)

_AWAKE_S = 1.0
"""How long the thread looks at the queue by itself after the last record; after that a record has to wake it."""


class Sink(Protocol):
    """A database as the writer sees it. Called from the writer's thread only."""

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        """Write all records durably or none, and return those that were new.

        Raises:
            StoreError: nothing is known to be written; the same batch will come again.
        """
        ...

    def begin(self, begun: Begun) -> None:
        """Keep a note for the next write, which leaves it out if the record comes with it."""
        ...

    def forget(self, record_id: str) -> None:
        """Drop a note: nothing of its stream has left."""
        ...

    def tidy(self) -> bool:
        """Do a small piece of retention; return true when there is more to do.

        Raises:
            StoreError: the database takes no writes.
        """
        ...

    def close(self) -> None:
        """Release the database."""
        ...


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How the writer batches.

    Args:
        on_failure: what `accept` does when the writer has failed or the queue is full.
        queue_limit: most records waiting.
        batch_limit: most records in one transaction.
        delay_s: how long a batch collects before it is written.
        retry_s: pause between attempts after a failure.
        stuck_s: a write that takes longer is as good as one that has failed, until it ends.
        tidy_s: pause between two rounds of retention.
        close_s: how long `close` waits for the queue to be written.
    """

    on_failure: OnRecordFailure = "block"
    queue_limit: int = 20_000
    batch_limit: int = 512
    delay_s: float = 0.05
    retry_s: float = 0.5
    stuck_s: float = 2.0
    tidy_s: float = 600.0
    close_s: float = 30.0


@dataclass(frozen=True, slots=True)
class _Job:
    """Something to run in the writer's thread, in its turn between records; the future gets the outcome."""

    run: Callable[[], None] | None
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def settle(self, error: StoreError | None) -> None:
        """Tell the waiting task; a loop that has ended meanwhile waits for nothing."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._set, error)

    def _set(self, error: StoreError | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _uncounted(record: Record) -> None:
    pass


class BatchWriter:
    """Queue, thread and failed state of a journal.

    Args:
        sink: where batches go.
        settings: sizes and times.
        counted: called once for every record that has reached the disk, in the writer's thread: the counters
            that must equal the journal are increased here and nowhere else.
    """

    def __init__(self, sink: Sink, settings: WriterSettings, counted: Callable[[Record], None] = _uncounted) -> None:
        self._sink = sink
        self._settings = settings
        self._counted = counted
        self._queue: deque[Record | Begun | str | _Job] = deque()
        self._noted = False
        self._batch: list[Record] = []
        self._writing_since: float | None = None
        self._asleep = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failure: str | None = None
        self._lost = 0
        self._reserved = 0
        self._accepted = 0
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    @property
    def healthy(self) -> bool:
        """Say whether `accept` would take a record that must be kept, and the database does not hang."""
        full = len(self._queue) + self._reserved >= self._settings.queue_limit
        if full or self._failure is not None or self._stop.is_set():
            return False
        since = self._writing_since
        return since is None or time.monotonic() - since < self._settings.stuck_s

    @property
    def failure(self) -> str | None:
        """What went wrong at the last attempt to write, None when it went well."""
        return self._failure

    @property
    def backlog(self) -> int:
        """Count what waits, the batch under way included."""
        return len(self._queue) + len(self._batch)

    @property
    def _taken(self) -> int:
        return len(self._queue) + self._reserved

    @property
    def lost(self) -> int:
        """Count the records given up."""
        return self._lost

    @property
    def accepted(self) -> int:
        """Count the records taken on: each is on disk, waits, or is lost."""
        return self._accepted

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def accept(self, record: Record, *, reserved: bool = False) -> None:
        """Queue a record; one that has a place finds it free.

        Raises:
            StoreError: it was not queued, and `on_failure` is block or the writer is closed.
        """
        self._reserved -= reserved
        if self._admits():
            self._append(record)
        else:
            self._accepted += 1
            self._lost += 1

    def reserve(self) -> bool:
        """Take the place of a record to come, which `accept` or `keep` fills. False where it may be lost after all.

        Raises:
            StoreError: there is none, and `on_failure` is block or the writer is closed.
        """
        reserved = self._admits()
        self._reserved += reserved
        return reserved

    def keep(self, record: Record, *, reserved: bool = False) -> None:
        """Queue the record of an answer that has left: no refusal can take it back, so it is written or lost."""
        self._reserved -= reserved
        full = not reserved and len(self._queue) + self._reserved >= self._settings.queue_limit
        if full or self._stop.is_set() or self._ended.is_set():
            self._accepted += 1
            self._lost += 1
            log.error("record of an answer that has left is lost", extra={"id": record.id, "reason": self._failure})
            return
        if len(self._queue) >= self._settings.batch_limit:
            self._hurry.set()
        self._append(record)

    def _append(self, record: Record) -> None:
        self._accepted += 1
        self._queue.append(record)
        if self._asleep:
            self._wake.set()

    def begin(self, begun: Begun) -> None:
        """Queue a note; the record it announces has a place of its own, so there are never more than of those."""
        if not self._stop.is_set():
            self._queue.append(begun)
            if self._asleep:
                self._wake.set()

    def forget(self, record_id: str) -> None:
        """Queue that a note is to be dropped."""
        self._queue.append(record_id)

    def _admits(self) -> bool:
        """Say whether there is a place for one more; raise `StoreError` where that may not be none."""
        self._refuse_closed()
        limit = self._settings.queue_limit
        full = self._taken >= limit
        if self._failure is None and not full and len(self._queue) < self._settings.batch_limit:
            return True
        self._hurry.set()
        if self._settings.on_failure == "block" and (full or self._failure is not None):
            waiting = f"{self._taken} records wait to be written, the limit is {limit}"
            raise StoreError(waiting if self._failure is None else f"the journal takes no writes: {self._failure}")
        return not full and not self._ended.is_set()

    def _refuse_closed(self) -> None:
        if self._stop.is_set():
            msg = "the journal is closed"
            raise StoreError(msg)

    async def run(self, job: Callable[[], None] | None, timeout_s: float) -> None:
        """Run `job` in the writer's thread after everything queued so far; None only waits.

        Raises:
            StoreError: a write before it failed, or it raised that, or the time is over.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._refuse_closed()
        self._queue.append(_Job(job, done, loop))
        self._wake.set()
        self._hurry.set()
        # After the append: either the end of the thread has seen the job, or this sees the end.
        if self._ended.is_set():
            msg = f"the journal takes no writes: {self._failure}"
            raise StoreError(msg)
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError as error:
            msg = f"the journal did not catch up within {timeout_s:g} s ({self.backlog} records wait)"
            raise StoreError(msg) from error

    async def aclose(self) -> None:
        """Write what is queued, end the thread, release the sink; records that cannot be written count as lost."""
        self._stop.set()
        self._hurry.set()
        self._wake.set()
        if self._thread.ident is None:
            self._sink.close()
        else:
            await asyncio.to_thread(self._thread.join, self._settings.close_s)
            if self._thread.is_alive():
                unwritten = self._unwritten()
                self._lost += unwritten
                log.error("journal writer did not end in time", extra={"lost": unwritten, "reason": self._failure})

    def _run(self) -> None:
        next_tidy = busy = time.monotonic()
        try:
            while not self._stop.is_set():
                self._hurry.wait(self._settings.delay_s)
                self._hurry.clear()
                now = time.monotonic()
                if self._queue:
                    self._drain()
                    busy = now
                if now >= next_tidy and not self._tidy():
                    next_tidy = time.monotonic() + self._settings.tidy_s
                if now - busy > _AWAKE_S:
                    self._sleep(next_tidy - now)
            self._drain()
        finally:
            self._end()

    def _sleep(self, seconds: float) -> None:
        """Wait to be woken: only a writer with nothing to do for a while is, for that costs whoever does it."""
        self._wake.clear()
        self._asleep = True
        if not self._queue and not self._stop.is_set():  # looked at after the flag: what comes now wakes
            self._wake.wait(max(0.0, seconds))
        self._asleep = False

    def _end(self) -> None:
        # Also reached by a bug in a sink: whoever waits must hear of it, and nobody may think all is well.
        self._failure = self._failure or ("the journal is closed" if self._stop.is_set() else "the writer has died")
        self._ended.set()
        self._refuse_jobs(StoreError(self._failure))
        unwritten = self._unwritten()
        if unwritten:
            self._lost += unwritten
            log.error("journal closed with unwritten records", extra={"lost": unwritten, "reason": self._failure})
        self._queue.clear()
        self._batch.clear()
        self._sink.close()

    def _unwritten(self) -> int:
        return len([entry for entry in self._queue.copy() if isinstance(entry, Record)]) + len(self._batch)

    def _drain(self) -> None:
        """Write until the queue is empty; with a failure, keep the batch and pause."""
        while self._queue or self._batch or self._noted:
            job = self._collect()
            error = self._write()
            if error is not None:
                self._refuse_jobs(error)
                if self._stop.wait(self._settings.retry_s):
                    return
            elif job is not None:
                self._queue.popleft()
                job.settle(self._do(job))

    def _collect(self) -> _Job | None:
        """Fill the batch up to the next job, which stays in the queue until what comes before it is written."""
        while self._queue and len(self._batch) < self._settings.batch_limit:
            entry = self._queue[0]
            if isinstance(entry, _Job):
                return entry
            if isinstance(entry, Begun):
                self._sink.begin(entry)
                self._noted = True
            elif isinstance(entry, str):
                self._sink.forget(entry)
                self._noted = True
            else:
                self._batch.append(entry)
            self._queue.popleft()
        return None

    def _write(self) -> StoreError | None:
        if self._batch or self._noted:
            self._writing_since = time.monotonic()
            try:
                written = self._sink.write(self._batch)
            except StoreError as error:
                self._note_failure(error)
                return error
            finally:
                self._writing_since = None
            self._batch.clear()
            self._noted = False
            for record in written:
                self._counted(record)
        if self._failure is not None:
            log.warning("journal writes again", extra={"waiting": len(self._queue)})
            self._failure = None
        return None

    def _do(self, job: _Job) -> StoreError | None:
        try:
            if job.run is not None:
                job.run()
        except StoreError as error:
            return error
        return None

    def _tidy(self) -> bool:
        try:
            return self._sink.tidy()
        except StoreError as error:
            log.warning("journal retention failed", extra={"reason": str(error)})
            return False

    def _note_failure(self, error: StoreError) -> None:
        if self._failure is None:
            log.error("journal cannot be written", extra={"reason": str(error), "waiting": self.backlog})
        self._failure = str(error)

    def _refuse_jobs(self, error: StoreError) -> None:
        # A copy, because the event loop appends meanwhile. The jobs stay queued: an archived config is still wanted.
        for entry in self._queue.copy():
            if isinstance(entry, _Job):
                entry.settle(error)
