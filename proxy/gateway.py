"""What a process serves with: the journal, the metrics, the runtime of the current config, and who is inside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from proxy.config import Config
from proxy.metrics import Metrics
from proxy.runtime import Runtime, declared_labels, open_runtime
from proxy.store.retention import Retention
from proxy.store.sqlite import SqliteJournal, open_journal
from proxy.store.writer import WriterSettings
from proxy.wire.errors import RequestError

log = logging.getLogger(__name__)


class Gateway:
    """The state of a serving process.

    Args:
        config: validated.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics("", declared_labels(config))
        self.failure: Exception | None = None
        self.stopping = False
        self.draining = False
        self.in_flight = 0
        self._runtime: Runtime | None = None
        self._journal: SqliteJournal | None = None

    @property
    def runtime(self) -> Runtime:
        """Return what serves now; raises the 503 before start-up is complete."""
        if self._runtime is None:
            raise RequestError(503, "shutting_down", "The proxy is not serving.")
        return self._runtime

    @property
    def journal(self) -> SqliteJournal:
        """Return the open journal; raises the 503 before start-up is complete."""
        if self._journal is None:
            raise RequestError(503, "shutting_down", "The proxy is not serving.")
        return self._journal

    @property
    def ready(self) -> bool:
        """Say whether requests are served."""
        return self._runtime is not None and not self.stopping and not self.draining

    def enter(self) -> None:
        """Take a place among the requests in flight; give it back with `leave`.

        Raises:
            RequestError: 503 ``overloaded`` when all places are taken, ``shutting_down`` while draining.
        """
        if self.draining:
            raise RequestError(503, "shutting_down", "The proxy is shutting down.")
        if self.in_flight >= self.config.limits.max_in_flight:
            raise RequestError(503, "overloaded", "Too many requests are being served.", headers={"retry-after": "30"})
        self.in_flight += 1

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1

    def end_all(self) -> None:
        """End every exchange that still runs."""
        if self._runtime is not None:
            self._runtime.pipeline.end_all()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Open everything, serve while the body runs, then flush and close.

        Raises:
            GuardrailError: something could not be opened.
        """
        settings = self.config.journal
        journal = await open_journal(
            settings.path,
            settings=WriterSettings(on_failure=settings.on_record_failure, queue_limit=settings.max_backlog),
            retention=Retention(settings.retention_days),
            counted=self.metrics.count,
        )
        self._journal = journal
        self.metrics.watch(journal)
        try:
            async with open_runtime(self.config, journal, self.metrics) as runtime, asyncio.TaskGroup() as group:
                shadow = group.create_task(runtime.sinks.run_shadow())
                self._runtime = runtime
                yield
                self.draining = True
                shadow.cancel()
        finally:
            self._runtime = None
            await journal.aclose()
