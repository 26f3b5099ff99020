"""Where the facts of an exchange go: through the shadow supervisors, if any, into the journal.

Metrics are counted by the journal's writer from the very record it has stored, so the two cannot disagree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from proxy.call import Call, Progress, to_record
from proxy.failures import record_unavailable
from proxy.keeping import Keeper
from proxy.metacognition import probe_coherence
from proxy.plan import StagePlan
from proxy.record import SHADOW_DROPPED, Begun, Record
from proxy.stages import StageResult, merge_results, never, run_stage
from proxy.store.protocol import Journal
from proxy.tracing import Traces
from supervisors.errors import StoreError
from supervisors.types import Assessment, Cause, Context, Exchange, unknown

log = logging.getLogger(__name__)

StreamNotes = Literal["off", "batched", "durable"]


@dataclass(frozen=True, slots=True)
class _Job:
    call: Call
    progress: Progress


class JournalSinks:
    """Record exchanges; those with shadow supervisors after their shadow verdicts.

    Args:
        journal: takes the records.
        keeper: decides what of the text is kept.
        open_contexts: makes, for one exchange, the function that opens the context of a stage.
        required: an exchange that cannot be recorded must not take place.
        notes: whether and how the beginning of a stream is noted.
        max_shadow: exchanges waiting for shadow verdicts; beyond that they are dropped and counted.
    """

    def __init__(
        self,
        journal: Journal,
        keeper: Keeper,
        open_contexts: Callable[[], Callable[[StagePlan], Context]],
        *,
        required: bool = True,
        notes: StreamNotes = "off",
        max_shadow: int = 1000,
    ) -> None:
        self._notes = notes
        self._required = required
        self._journal = journal
        self._keeper = keeper
        self._open_contexts = open_contexts
        self._queue: asyncio.Queue[_Job] = asyncio.Queue(max_shadow)
        self.traces: Traces | None = None
        """Takes every record once the journal has; None without tracing."""

    def ready(self) -> bool:
        """Say whether a record would be accepted now."""
        return not self._required or self._journal.healthy

    def begin(self, call: Call, progress: Progress) -> Awaitable[None] | None:
        """Note that text of a stream is about to leave, against a crash (O-16).

        Raises:
            RequestError: there is no place; nothing has left.
        """
        if not progress.reserved:
            progress.reserved = self.reserve()
        if self._notes == "off" or not progress.reserved:
            return None
        begun = Begun(
            id=call.id,
            request_id=call.request_id,
            started=call.started,
            route=call.adapter.route,
            key_id=call.key_id,
            model=call.shown_model,
            upstream=call.upstream,
            policies=call.plan.policies,
            version=call.version,
        )
        self._journal.begin(begun)
        return self._flush(call.id) if self._notes == "durable" else None

    async def _flush(self, record_id: str) -> None:
        try:
            await self._journal.flush()
        except StoreError as error:
            if self._required:
                self._journal.forget(record_id)
                raise record_unavailable() from error

    def reserve(self) -> bool:
        """Take a place for a record that is still to come; false where it may be lost.

        Raises:
            RequestError: there is none, and an exchange that cannot be recorded must not take place.
        """
        if not self.ready():
            raise record_unavailable()
        try:
            return self._journal.reserve()
        except StoreError as error:
            raise record_unavailable() from error

    def finish(self, call: Call, progress: Progress) -> None:
        """Record the exchange, or queue it for its shadow supervisors first.

        Raises:
            StoreError: the journal does not take the record.
        """
        plan = call.plan
        if not plan.input.shadow and not plan.output.shadow:
            self._accept(call, progress)
            return
        if progress.cancelled or not progress.called:
            self._accept(call, progress)
            return
        try:
            if not progress.reserved:
                progress.reserved = self._journal.reserve()
            self._queue.put_nowait(_Job(call, progress))
        except (asyncio.QueueFull, StoreError):
            _drop(plan.input, progress)
            _drop(plan.output, progress)
            progress.settle(call)
            self._accept(call, progress)

    def record(self, call: Call, progress: Progress) -> None:
        """Record an exchange whose shadow supervisors, if any, have run already."""
        self._accept(call, progress)

    def refuse(self, record: Record) -> None:
        """Record an exchange that failed before judging (O-13).

        Raises:
            StoreError: the journal does not take it; nobody was answered.
        """
        self._journal.accept(record)
        if self.traces is not None:
            self.traces.add(record)

    def keep(self, record: Record, *, reserved: bool) -> None:
        """Record what has been answered unjudged; `reserved` says that there is a place for it."""
        self._journal.keep(record, reserved=reserved)
        if self.traces is not None:
            self.traces.add(record)

    def _accept(self, call: Call, progress: Progress) -> None:
        progress.coherence = probe_coherence(call, progress)
        record = to_record(call, progress, self._keeper.keep(progress))
        # What has left cannot be refused, and a caller that is gone can be refused nothing: such a record must be kept.
        if progress.answered or progress.phase == "streaming" or progress.cancelled:
            self._journal.keep(record, reserved=progress.reserved)
        else:
            self._journal.accept(record, reserved=progress.reserved)
        if self.traces is not None:
            self.traces.add(record, call)
        _log_block(record)

    async def run_shadow(self) -> None:
        """Judge queued exchanges, one after another, until cancelled; what is left then is recorded as skipped."""
        job: _Job | None = None
        try:
            while True:
                job = None
                job = await self._queue.get()
                await self._judge(job)
                job = None
                self._queue.task_done()
        finally:
            if job is not None:
                self._settle(job)
            while not self._queue.empty():
                self._settle(self._queue.get_nowait())

    async def drain(self, timeout_s: float) -> None:
        """Wait until the queue is judged, but no longer than so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._queue.join()

    async def _judge(self, job: _Job) -> None:
        call, progress = job.call, job.progress
        open_context = self._open_contexts()  # one budget of model calls an exchange, as for those that wait for it
        inputs = Exchange(call.id, call.model, "input", progress.request)
        progress.input = merge_results(progress.input, await _run(call.plan.input, inputs, open_context))
        if call.plan.output.shadow:
            outputs = {result.choice: result for result in progress.outputs}
            signals = tuple(progress.signals)
            for choice, reply in progress.replies.items():
                exchange = Exchange(call.id, call.model, "output", progress.sent, reply, choice, signals=signals)
                before = outputs.get(choice, StageResult(choice))
                outputs[choice] = merge_results(before, await _run(call.plan.output, exchange, open_context))
            progress.outputs = list(outputs.values())
        self._settle(job)

    def _settle(self, job: _Job) -> None:
        call, progress = job.call, job.progress
        progress.settle(call)
        progress.coherence = probe_coherence(call, progress)
        record = to_record(call, progress, self._keeper.keep(progress))
        self._journal.keep(record, reserved=progress.reserved)  # the reply has long left
        if self.traces is not None:
            self.traces.add(record, call)
        _log_block(record)


def _log_block(record: Record) -> None:
    """Log an exchange that was blocked, with ids and configured names only (O-23)."""
    if record.outcome == "answered":  # nothing was blocked: all that an exchange that passes pays for this
        return
    blocked = [made for made in record.decisions if made.blocked and made.enforce]
    if not blocked or record.kind != "exchange":  # a check or a moderation is asked what would be, and blocks nothing
        return
    at = {(made.stage, made.choice) for made in blocked}
    found = [one for one in record.verdicts if one.enforce and (one.stage, one.choice) in at]
    verdicts = {one.assessment.supervisor: one.assessment.verdict for one in found}
    verdicts = {name: one for name, one in verdicts.items() if one.label != "safe" and one.cause is not Cause.SKIPPED}
    extra = {
        "id": record.id,
        "request_id": record.request_id,
        "key_id": record.key_id,
        "route": record.route,
        "model": record.model,
        "status": record.client.status,
        "stages": sorted({made.stage for made in blocked}),
        "policies": sorted({made.policy for made in blocked}),
        "supervisors": sorted(verdicts),
        "reasons": sorted({made.reason for made in blocked if made.reason is not None}),
        "causes": sorted({one.cause.value for one in verdicts.values() if one.cause is not None}),
    }
    log.info("exchange blocked", extra=extra)


async def _run(plan: StagePlan, exchange: Exchange, open_context: Callable[[StagePlan], Context]) -> StageResult:
    return await run_stage(plan, plan.shadow, exchange, open_context(plan), never)


def _drop(plan: StagePlan, progress: Progress) -> None:
    dropped = [Assessment(name, unknown(Cause.SKIPPED, detail=SHADOW_DROPPED)) for name, _ in plan.shadow]
    if not dropped:
        return
    if plan.stage == "input":
        progress.input = merge_results(progress.input, StageResult(None, tuple(dropped)))
    else:
        known = progress.outputs or [StageResult(choice) for choice in progress.replies]
        progress.outputs = [merge_results(one, StageResult(one.choice, tuple(dropped))) for one in known]
