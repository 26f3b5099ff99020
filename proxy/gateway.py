"""What a process serves with: the journal, the metrics, the runtime of the current config, and who is inside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from secrets import token_bytes

from proxy.checks import refuse_errors
from proxy.config import Config
from proxy.ending import take_fresh_threads
from proxy.failures import shutting_down
from proxy.journals import open_configured
from proxy.locating import name_file
from proxy.metrics import Metrics
from proxy.outside import refuse_missing
from proxy.reload import Source, Watched, is_passing, refuse_fixed
from proxy.runtime import Runtime, declared_labels, open_runtime
from proxy.store.journal import StoredJournal
from proxy.store.rules import Archive
from proxy.tracing import Tracer, open_tracer
from proxy.wire.errors import RequestError
from proxy.workers.peers import Peers
from supervisors.errors import GuardrailError, StoreError

log = logging.getLogger(__name__)

_SHADOW_S = 30.0
"""Time for the shadow supervisors of a retired config to finish."""


class Gateway:
    """The state of a serving process.

    Args:
        config: validated.
        source: where it is read again from; None for a config that never changes.

    Attributes:
        failure: what kept it from serving, or ended that; the process is to end, too.
        lost: records that could not be written at the end.
        hmac_key: of the digests where the config has none.
        peers: the other workers, None without any.
    """

    def __init__(self, config: Config, source: Source | None = None) -> None:
        self.config = config
        self.hosts = _hosts(config)
        self.metrics = Metrics("", declared_labels(config))
        self.failure: Exception | None = None
        self.lost = 0
        self.stopping = False
        self.draining = False
        self.in_flight = 0
        self._source = source
        self._wanted = asyncio.Event()
        self._again = False
        self._running: list[Runtime] = []
        self._runtime: Runtime | None = None
        self._journal: StoredJournal | None = None
        self._tracer: Tracer | None = None
        self.hmac_key = token_bytes(32)
        self.peers: Peers | None = None

    @property
    def runtime(self) -> Runtime:
        """Return what serves now; raises the 503 before start-up is complete."""
        if self._runtime is None:
            raise RequestError(503, "shutting_down", "The proxy is not serving.")
        return self._runtime

    @property
    def journal(self) -> StoredJournal:
        """Return the open journal; raises the 503 before start-up is complete."""
        if self._journal is None:
            raise RequestError(503, "shutting_down", "The proxy is not serving.")
        return self._journal

    @property
    def ready(self) -> bool:
        """Say whether requests are served."""
        return self._runtime is not None and not self.stopping and not self.draining

    def enter(self) -> Runtime:
        """Take a place among the requests in flight, and what it is served with from beginning to end (O-05).

        Give both back with `leave`.

        Raises:
            RequestError: 503 ``overloaded`` when all places are taken, ``shutting_down`` while draining.
        """
        if self.draining:
            raise shutting_down()
        if self.in_flight >= self.config.limits.max_in_flight:
            raise RequestError(503, "overloaded", "Too many requests are being served.", headers={"retry-after": "30"})
        runtime = self.runtime
        runtime.users.number += 1
        self.in_flight += 1
        return runtime

    def leave(self, runtime: Runtime) -> None:
        """Give the place back."""
        self.in_flight -= 1
        runtime.users.leave()

    def end_all(self) -> None:
        """End every exchange that still runs."""
        for runtime in self._running:
            runtime.pipeline.end_all()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Open everything, serve while the body runs, then flush and close.

        Raises:
            GuardrailError: something could not be opened.
        """
        await asyncio.to_thread(refuse_errors, self.config)
        await asyncio.to_thread(refuse_missing, self.config)
        journal = await open_configured(self.config.journal, self.metrics.count)
        self._journal = journal
        self.metrics.watch(journal)
        failure: GuardrailError | OSError | None = None
        try:
            record_interrupted(journal, self.metrics)
            self._tracer = open_tracer(self.config.tracing, journal.boot)
            async with asyncio.TaskGroup() as group:
                try:
                    self._runtime = await self._open(group, self.config)
                except (GuardrailError, OSError) as error:
                    failure = error  # raised below, by itself: a group would wrap it
                else:
                    reloading = group.create_task(self._reload_on_demand(group))
                    watching = group.create_task(self._watch())
                    meeting = group.create_task(self._meet(journal.boot))
                    yield
                    self.draining = True
                    for task in (reloading, watching, meeting):
                        task.cancel()
                    for runtime in self._running:
                        runtime.users.close()
        finally:
            self._runtime = None
            take_fresh_threads()
            before = journal.lost
            await journal.aclose()
            self.lost = journal.lost - before
            if self._tracer is not None:
                await self._tracer.aclose()
            if self.peers is not None:
                await self.peers.save()
        if failure is not None:
            raise failure

    # One task for each runtime: it opens it, waits for its last request, and closes it

    async def _open(self, group: asyncio.TaskGroup, config: Config) -> Runtime:
        opened: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()
        group.create_task(self._host(config, opened))
        return await opened

    async def _host(self, config: Config, opened: asyncio.Future[Runtime]) -> None:
        try:
            async with open_runtime(config, self.journal, self.metrics, self.hmac_key, self._tracer) as runtime:
                await self._keep(runtime, opened)
        except Exception as error:  # whatever a file makes go wrong, what serves goes on
            if opened.cancelled():  # the process ended while a changed config was being opened
                return
            if opened.done():
                raise
            opened.set_exception(error)

    async def _keep(self, runtime: Runtime, opened: asyncio.Future[Runtime]) -> None:
        if opened.cancelled():
            return
        self._running.append(runtime)
        try:
            async with asyncio.TaskGroup() as group:
                shadow = group.create_task(runtime.sinks.run_shadow())
                opened.set_result(runtime)
                await runtime.users.gone.wait()
                if not self.draining:
                    await runtime.sinks.drain(_SHADOW_S)
                shadow.cancel()
        finally:
            self._running.remove(runtime)

    # Reloading

    def request_reload(self) -> None:
        """Have the config read again; a file that cannot be served changes nothing (O-05)."""
        self._wanted.set()

    async def _reload_on_demand(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._source is not None:
                await self._reload(group, self._source)

    async def _reload(self, group: asyncio.TaskGroup, source: Source) -> None:
        runtime: Runtime | None = None
        again, self._again = self._again, False
        try:
            config = await asyncio.to_thread(source.read)
            refuse_fixed(self.config, config)
            runtime = await self._open(group, config)
            await asyncio.to_thread(source.applied)
        except Exception as error:  # whatever a file makes go wrong, what serves goes on
            if runtime is not None:
                runtime.users.retire()
            self.metrics.count_reload(applied=False)
            self._again = is_passing(error)
            expected = isinstance(error, GuardrailError | OSError)
            problem = str(error) if expected else f"{type(error).__name__}: {error}"
            said = await asyncio.to_thread(name_file, source.path, problem.splitlines())
            extra = {"file": str(source.path), "problems": said.splitlines()}
            if not (again and self._again):  # said already
                words = "changed config rejected, the last good one stays in force"
                log.error(words, extra=extra, exc_info=None if expected else error)  # noqa: TRY400 - mostly no bug
            return
        old, self._runtime = self.runtime, runtime
        self.config, self.hosts = config, _hosts(config)
        old.users.retire()
        self.metrics.count_reload(applied=True)
        log.info("changed config applied", extra={"version": runtime.version, "before": old.version})

    async def _watch(self) -> None:
        """Look at the file now and then; under ``reload: auto`` a change is as good as a signal."""
        if self._source is None:
            return
        watched = Watched(self._source.parsed)
        while True:
            await asyncio.sleep(self._source.poll_s)
            changed = watched.look(await asyncio.to_thread(self._source.fingerprint))
            wanted = self.config.reload == "auto" and (changed or self._again)
            if wanted or await asyncio.to_thread(self._source.behind):
                self.request_reload()

    async def _meet(self, boot: str) -> None:
        """Be one of several workers."""
        if self.peers is not None:
            await self.peers.run(boot)


def record_interrupted(journal: StoredJournal, metrics: Metrics) -> None:
    """Record the streams that a crash of an earlier start cut off: text of theirs may have left."""
    for begun, archive in journal.leftovers:
        if archive is not None:
            try:
                metrics.know(begun.version, Archive.from_text(archive).labels)
            except StoreError as error:  # of another version of the proxy: its names count as `other`
                log.warning("an archived config is not used", extra={"version": begun.version, "reason": str(error)})
        journal.accept(begun.to_record())
    if journal.leftovers:
        log.warning("streams were interrupted by a crash", extra={"count": len(journal.leftovers)})


def _hosts(config: Config) -> frozenset[str]:
    return frozenset(host.lower() for host in config.server.allowed_hosts)
