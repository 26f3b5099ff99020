"""The one task that writes a run: texts first, then the lines in batches, each waited for (H-108, H-110)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from evals.folder import RunFolder
from evals.journal import Entry, JournalFile
from supervisors.errors import StoreError

_BATCH = 64


@dataclass(frozen=True, slots=True)
class _Job:
    entries: Sequence[Entry]
    texts: Sequence[str]
    done: asyncio.Future[None] = field(compare=False)


class Writer:
    """Takes lines from many tasks and writes them in order.

    Args:
        journal: open journal.
        folder: where texts go.
        keep_texts: false writes no text anywhere (H-111).
    """

    def __init__(self, journal: JournalFile, folder: RunFolder, *, keep_texts: bool) -> None:
        self._journal = journal
        self._folder = folder
        self._keep_texts = keep_texts
        self._queue: asyncio.Queue[_Job | None] = asyncio.Queue(10_000)
        self.failure: StoreError | None = None

    async def put(self, *entries: Entry, texts: Sequence[str] = ()) -> None:
        """Write lines and return once they are on disk.

        Raises:
            StoreError: the disk did not take them, now or earlier.
        """
        if self.failure is not None:
            raise self.failure
        job = _Job(entries, texts if self._keep_texts else (), asyncio.get_running_loop().create_future())
        await self._queue.put(job)
        await job.done

    async def run(self) -> None:
        """Write until closed."""
        closing = False
        while not closing:
            batch: list[_Job] = []
            job = await self._queue.get()
            while job is not None:
                batch.append(job)
                if len(batch) >= _BATCH or self._queue.empty():
                    break
                job = self._queue.get_nowait()
            closing = job is None
            await self._write(batch)

    async def _write(self, batch: Sequence[_Job]) -> None:
        if not batch:
            return
        if self.failure is None:
            try:
                await asyncio.to_thread(self._write_now, batch)
            except StoreError as error:
                self.failure = error
        for job in batch:
            if job.done.done():
                continue
            if self.failure is None:
                job.done.set_result(None)
            else:
                job.done.set_exception(self.failure)

    def _write_now(self, batch: Sequence[_Job]) -> None:
        for job in batch:
            for text in job.texts:
                self._folder.keep_text(text)
        self._journal.append([entry for job in batch for entry in job.entries])

    async def close(self) -> None:
        """Let the writing task end after what is queued."""
        await self._queue.put(None)
