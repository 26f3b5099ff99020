"""Serve `/v1/moderations`: the input stage of one policy judges each text; no model is called (wire §11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from proxy.blocks import Blocked, block_error, blocking_policies, is_failure
from proxy.call import Call, Progress, measure_overhead
from proxy.failures import deadline_exceeded, record_unavailable
from proxy.headers import JSON, Header, guardrail_headers
from proxy.passes import join_passes
from proxy.plan import Plan, StagePlan
from proxy.ports import Answer, ClientGone, Responder
from proxy.prepare import Arrival, read_task
from proxy.runtime import Runtime
from proxy.stages import StageResult, conclude, never, run_stage
from proxy.wire.errors import RequestError
from proxy.wire.moderations import DEFAULT_ALIAS, MODERATIONS, input_types, read_inputs, to_result
from supervisors.ask import is_local
from supervisors.errors import StoreError
from supervisors.types import Assessment, Cause, Context, Exchange, Label, Segment


def find_alias(model: object, aliases: Mapping[str, str]) -> str | None:
    """Return the alias a caller means, the default one when it names none; None for one that is not configured."""
    alias = DEFAULT_ALIAS if model is None else model
    return alias if isinstance(alias, str) and alias in aliases else None


def _unknown_alias(aliases: Mapping[str, str]) -> str:
    if aliases:
        return f"Unknown moderation model; known are: {', '.join(sorted(aliases))}."
    return (
        "This proxy serves no moderation model: its config has no policy named 'default', and no moderations.aliases "
        "that name another policy."
    )


def merge_texts(plan: Plan, results: Sequence[StageResult]) -> StageResult:
    """Fold the results of several texts into that of the request: a record has one verdict a supervisor (O-11)."""
    if len(results) == 1:
        return results[0]
    found: dict[str, Assessment] = {}
    for assessment in [one for result in results for one in result.assessments]:
        known = found.get(assessment.supervisor)
        found[assessment.supervisor] = assessment if known is None else _join(known, assessment)
    return conclude(plan.input, None, list(found.values()), sum([result.seconds for result in results]))


def _join(one: Assessment, other: Assessment) -> Assessment:
    return Assessment(
        one.supervisor,
        join_passes(one.verdict, other.verdict),
        one.seconds + other.seconds,
        one.passes + other.passes,
        one.chars_judged + other.chars_judged,
    )


@dataclass(slots=True)
class Moderating:
    """One call of the façade.

    Args:
        runtime: what it is served with.
        call: the exchange.
        inputs: the segments of everything that gets a result of its own.
        progress: what has happened so far.
        open_context: makes the context of one text; all share one budget of model calls.
    """

    runtime: Runtime
    call: Call
    inputs: Sequence[tuple[Segment, ...]]
    progress: Progress
    open_context: Callable[[StagePlan], Context]

    @classmethod
    def read(cls, runtime: Runtime, arrival: Arrival, body: dict[str, Any], size_bytes: int) -> Moderating:
        """Read a request.

        Raises:
            RequestError: 400 with the path of the field, 404 for an alias that is not configured.
        """
        inputs = read_inputs(body)
        if arrival.headers.get("x-guardrail-add", "").strip(", "):  # a silent ignore would look like success
            message = "A moderation is judged by the policy of its model alone; leave x-guardrail-add out."
            raise RequestError(400, "invalid_guardrails", message, param="guardrails")
        aliases = runtime.config.moderation_aliases()
        alias = find_alias(body.get("model"), aliases)
        if alias is None:
            raise RequestError(404, "model_not_found", _unknown_alias(aliases), param="model")
        call = Call(
            id=arrival.id,
            request_id=arrival.request_id,
            adapter=MODERATIONS,
            body=body,
            stream=False,
            model=alias,
            upstream="",
            plan=runtime.catalogue.planner.plan_only(aliases[alias]),
            version=runtime.version,
            key_id=arrival.caller.key_id,
            task=read_task(arrival.headers, runtime.catalogue.tasks),
            started=arrival.started,
            clock=arrival.clock,
            kind="moderation",
            size_bytes=size_bytes,
            stages=("input",),
        )
        progress = Progress(request=tuple([segment for one in inputs for segment in one]))
        return cls(runtime, call, inputs, progress, runtime.open_contexts())

    async def run(self, out: Responder) -> None:
        """Judge, record, answer; only a bug and cancellation come out."""
        answer: Answer | None = None
        settled = False
        try:
            answer = await self._answer(out)
            settled = True
        finally:
            if not settled:  # by a bug, or the end of the process
                self.progress.note_error(500)
                self._record()
        if answer is not None:
            self.progress.status, self.progress.bytes_sent = answer.status, len(answer.body)
        refused = self._record()
        final = answer if answer is None or refused is None else self._refuse(refused)
        if final is not None:
            await out.reply(final.status, final.headers, final.body)

    async def _answer(self, out: Responder) -> Answer | None:
        try:
            with self.runtime.pipeline.attend(out):
                self.progress.reserved = self.runtime.sinks.reserve()
                return await self._moderate()
        except ClientGone:
            self._note_gone()
            return None
        except TimeoutError:
            return self._refuse(deadline_exceeded())
        except RequestError as refused:
            return self._refuse(refused)

    def _note_gone(self) -> None:
        self.progress.cancelled = True
        self.progress.outcome = "cancelled"

    async def _moderate(self) -> Answer:
        results = await self._judge_all()
        self.progress.input = merge_texts(self.call.plan, results)
        for result in results:
            if result.label is Label.UNKNOWN:
                raise self._unjudged(result)
        rows = [
            to_result(result.assessments, input_types(segments))
            for result, segments in zip(results, self.inputs, strict=True)
        ]
        body = {"id": f"modr-{self.call.id}", "model": self.call.model, "results": rows}
        return Answer(200, [*JSON, *self._headers()], orjson.dumps(body))

    async def _judge_all(self) -> list[StageResult]:
        named = (*self.call.plan.input.blocking, *self.call.plan.input.parallel)
        if all(is_local(supervisor) for _, supervisor in named):
            results: list[StageResult] = []
            for segments in self.inputs:
                results.append(await self._judge(segments))
                await asyncio.sleep(0)  # many texts must not keep the loop from its other exchanges
            return results
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._judge(segments)) for segments in self.inputs]
        return [task.result() for task in tasks]

    async def _judge(self, segments: tuple[Segment, ...]) -> StageResult:
        """Ask every enforcing supervisor, early or not: the caller wants all categories."""
        plan = self.call.plan.input
        exchange = Exchange(self.call.id, self.call.model, "input", segments)
        return await run_stage(plan, (*plan.blocking, *plan.parallel), exchange, self.open_context(plan), never)

    def _unjudged(self, result: StageResult) -> RequestError:
        """Return the error for an unknown verdict: the route has no word for it but "not flagged" (W-34)."""
        cause = result.cause or Cause.SKIPPED
        block = Blocked("input", "unknown", cause, (), blocking_policies(self.call, result.decisions))
        error = block_error(self.call, block, self.runtime.config.expose)
        if is_failure("unknown", cause):
            return error
        message = f"The content could not be judged ({cause.value}), so it is neither flagged nor cleared."
        return RequestError(400, "content_not_judged", message, param="input", guardrail=error.guardrail)

    def _refuse(self, error: RequestError) -> Answer:
        self.progress.note_error(error.status)
        reply = self.call.adapter.error_reply(error, self.call.request_id)
        extra = [(name.encode(), value.encode("ascii", "replace")) for name, value in reply.headers.items()]
        return Answer(reply.status, [*JSON, *self._headers(), *extra], reply.body)

    def _headers(self) -> list[Header]:
        call, progress = self.call, self.progress
        overhead = progress.overhead_s = measure_overhead(call, progress)
        request_id = (b"x-request-id", call.request_id.encode())
        return [request_id, *guardrail_headers(call, progress, self.runtime.config.expose, overhead)]

    def _record(self) -> RequestError | None:
        self.progress.settle(self.call)
        try:
            self.runtime.sinks.record(self.call, self.progress)
        except StoreError:
            return record_unavailable()
        return None
