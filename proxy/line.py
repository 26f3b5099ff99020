"""One exchange on the line: judge the input, call the model, judge the output, answer.

Four steps, one method each: `run`, `_generate`, `_judge_output` (or `_relay` for a stream), `close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import orjson

from proxy.beside import beside
from proxy.blocks import Blocked, InputBlocked, block_error, blocking_policies, is_failure, notice_text
from proxy.call import Call, Progress, measure_overhead
from proxy.cutting import BadStream
from proxy.failures import record_unavailable, to_caller_error
from proxy.headers import EVENT_STREAM, JSON, Header, guardrail_headers
from proxy.inline import add_answer, answer_at_end, frame_answer
from proxy.limits import SLOW_BYTES, NoPlace
from proxy.ports import Answer, ClientGone, Model, Responder, Settings, Sinks
from proxy.redact import RedactionImpossible, redact_body
from proxy.relay import Judging, Relay
from proxy.stages import StageResult, merge_results, run_stage, without_spans
from proxy.wire.adapter import Frames
from proxy.wire.body import bad_reply, keep_numbers, parse_reply
from proxy.wire.errors import RequestError
from proxy.wire.logprobs import is_of_tokens
from proxy.wire.segments import next_turn
from proxy.wire.usage import HiddenUsage
from supervisors.ask import is_local
from supervisors.errors import StoreError, UpstreamError
from supervisors.signals import read_signals
from supervisors.types import Exchange, Segment, Stage, Supervisor


class Line:
    """One exchange on its way through; also the way out that a relay writes to.

    Args:
        settings: from the config.
        sinks: journal, metrics, shadow queue.
        call: the exchange.
        progress: where its facts go.
        out: the way back to the caller.
    """

    def __init__(self, settings: Settings, sinks: Sinks, call: Call, progress: Progress, out: Responder) -> None:
        self._settings = settings
        self._sinks = sinks
        self._call = call
        self._progress = progress
        self._out = out
        self._open = settings.open_contexts()
        self._input_known = asyncio.Event() if call.plan.input.parallel else None
        self._upstream_headers: Sequence[tuple[str, str]] = ()
        self._frames: Frames | None = None
        self.started = False

    async def run(self, model: Model) -> Answer | None:
        """Judge, call, judge. Returns the whole answer, or None when a stream has been written.

        Raises:
            RequestError: the caller gets this error.
            UpstreamError: the model server failed before anything left.
        """
        call, progress = self._call, self._progress
        progress.reserved = self._sinks.reserve()
        if call.size_bytes > SLOW_BYTES:  # hashing and decoding of large parts would hold up the loop
            progress.request = await asyncio.to_thread(call.adapter.request_segments, call.body)
        else:
            progress.request = call.adapter.request_segments(call.body)
        progress.sent = progress.request
        progress.input = await self._judge_input(call.plan.input.blocking)
        if progress.input.action == "redact":
            self._redact_input()
        if progress.input.blocked:
            return self._block_input()
        if not call.plan.input.parallel:
            return await self._generate(model)
        try:
            async with beside(self._judge_beside()):
                answer = await self._generate_beside(model)
        except InputBlocked:
            progress.cancelled_upstream = True
            return self._block_input()
        return answer

    async def _judge_input(self, named: Sequence[tuple[str, Supervisor]]) -> StageResult:
        call = self._call
        exchange = Exchange(call.id, call.model, "input", self._progress.request)
        return await run_stage(call.plan.input, named, exchange, self._open(call.plan.input))

    async def _judge_beside(self) -> None:
        beside_result = await self._judge_input(self._call.plan.input.parallel)
        if beside_result.action == "redact":  # impossible: the model has the text already
            beside_result = without_spans(self._call.plan.input, beside_result)
        self._progress.input = merge_results(self._progress.input, beside_result)
        if self._progress.input.blocked:
            raise InputBlocked
        if self._input_known is not None:
            self._input_known.set()

    async def _await_input(self) -> None:
        """Wait for the decision on the input, where it is judged beside the model."""
        if self._input_known is not None:
            await self._input_known.wait()

    async def _generate_beside(self, model: Model) -> Answer | None:
        """Generate while the input is judged; not even a failure's status leaves before the decision."""
        try:
            answer = await self._generate(model)
        except (RequestError, UpstreamError):
            await self._await_input()
            raise
        await self._await_input()
        return answer

    def _redact_input(self) -> None:
        """Redact the body; the output stage sees the redacted request as its context, as the model does."""
        call, progress = self._call, self._progress
        try:
            redact_body(call.body, progress.input.redactions)
        except RedactionImpossible:
            progress.input = without_spans(call.plan.input, progress.input)
            return
        progress.sent = call.adapter.request_segments(call.body)

    def _block_input(self) -> Answer:
        call, result = self._call, self._progress.input
        failed = is_failure(result.reason, result.cause)
        self._progress.outcome = "unavailable" if failed else "blocked_input"
        if call.plan.on_block.input == "error" or failed or "output" not in call.stages:
            raise self._block_error(result)
        notice = call.adapter.notice(call.body, notice_text(call, blocking_policies(call, result.decisions)))
        head = call.adapter.new_head(call.id, int(call.started), call.model)
        count = call.adapter.choice_count(call.body)
        self._progress.finish_reasons = dict.fromkeys(range(count), "content_filter")
        if not call.stream:
            reply = call.adapter.refusal_reply(head, count, notice)
            add_answer(call, reply, result, ())
            return self._answer(200, orjson.dumps(reply))
        frames = answer_at_end(call, self._progress, call.adapter.open_frames(head, call.body), tuple)
        notices = [frames.notice(index, notice, released=False) for index in range(count)]
        self._progress.terminator = "done"
        closing = frame_answer(call, self._progress, frames, ()) if call.moderation is not None else b""
        return self._answer(200, b"".join(notices) + closing + call.adapter.terminator, EVENT_STREAM)

    def _block_error(self, result: StageResult) -> RequestError:
        stage: Stage = "input" if result.choice is None else "output"
        policies = blocking_policies(self._call, result.decisions)
        block = Blocked(stage, result.reason, result.cause, result.categories, policies)
        return block_error(self._call, block, self._settings.expose)

    async def _generate(self, model: Model) -> Answer | None:
        raw = orjson.dumps(self._call.body)
        progress = self._progress
        progress.called, progress.attempts = True, 1
        progress.phase = "before_first_token"
        try:
            if not self._call.stream:
                return await self._complete(model, raw)
            await self._relay(model, raw)
        except NoPlace:
            self._note_uncalled()
            raise
        except UpstreamError as error:
            progress.attempts = error.attempts
            progress.upstream_status = error.answered or progress.upstream_status
            if not error.attempts:
                self._note_uncalled()
            raise
        return None

    def _note_uncalled(self) -> None:
        """Note that the model server never heard of the request, though it was to be called."""
        self._progress.called, self._progress.attempts = False, 0
        self._progress.phase = "before_upstream"

    async def _complete(self, model: Model, raw: bytes) -> Answer:
        call, progress = self._call, self._progress
        waiting = perf_counter()
        try:
            reply = await model.complete(call.adapter.upstream_path, raw, call.headers)
        finally:
            progress.upstream_wait_s += perf_counter() - waiting
        progress.upstream_status, progress.attempts = reply.status, reply.attempts
        self._upstream_headers = reply.headers
        try:
            body = parse_reply(reply.body)
        except RequestError:
            raise self._refuse_reply() from None
        progress.note_reply(body, call.adapter.finish_reasons(body))
        if call.plan.output.wants_signals:
            progress.signals |= dict.fromkeys(read_signals(body))
        if call.adapter.judges_numbers or call.moderation is not None:
            keep_numbers(reply.body, body)
        if self._input_known is not None:
            await self._input_known.wait()
        changed = await self._judge_output(body, reply.body)
        changed = add_answer(call, body, progress.input, progress.outputs) or changed
        return self._answer(200, orjson.dumps(body) if changed else reply.body)

    async def _judge_output(self, body: dict[str, Any], raw: bytes) -> bool:
        """Judge every choice of a whole reply, edit the body, and say whether it changed."""
        call, progress, plan = self._call, self._progress, self._call.plan.output
        try:
            progress.replies = call.adapter.reply_segments(body, next_turn(progress.request), call.body)
        except ValueError as error:
            if not plan.blocking and "output" in call.stages and not body.get("error"):
                return False
            progress.finish_reasons = {}  # the caller sees none of them
            raise self._refuse_reply() from error
        if not plan.blocking:
            return False
        results = await self._judge_choices(progress.replies)
        redacting = [result for result in results if result.action == "redact"]
        if redacting or any(result.blocked for result in results):
            keep_numbers(raw, body)
        kept = [result for result in results if result.action != "redact"]
        results = kept + [self._redact_choice(body, result) for result in redacting]
        progress.outputs = results
        blocked = [result for result in results if result.blocked]
        if blocked:
            self._block_choices(body, blocked)
        return bool(blocked or redacting)

    def _refuse_reply(self) -> RequestError:
        self._progress.outcome, self._progress.upstream_error = "upstream_error", "protocol"
        return bad_reply()

    async def _judge_choices(self, replies: Mapping[int, tuple[Segment, ...]]) -> list[StageResult]:
        if len(replies) == 1 or all(is_local(supervisor) for _, supervisor in self._call.plan.output.blocking):
            return [await self._judge_choice(choice, reply) for choice, reply in replies.items()]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._judge_choice(choice, reply)) for choice, reply in replies.items()]
        return [task.result() for task in tasks]

    async def _judge_choice(self, choice: int, reply: tuple[Segment, ...]) -> StageResult:
        call, plan = self._call, self._call.plan.output
        exchange = Exchange(
            call.id, call.model, "output", self._progress.sent, reply, choice, signals=tuple(self._progress.signals)
        )
        return await run_stage(plan, plan.blocking, exchange, self._open(plan))

    def _redact_choice(self, body: dict[str, Any], result: StageResult) -> StageResult:
        spans, plan = result.redactions, self._call.plan.output
        json_content = self._call.adapter.notice(self._call.body, "").only_refusal
        try:
            inside = [span for span in spans if not is_of_tokens(span.path)]
            redact_body(body, inside, json_content=json_content, strip_signed=plan.on_signed == "strip")
        except RedactionImpossible:
            return without_spans(plan, result)
        if result.choice is not None:
            self._call.adapter.mask_logprobs(body, result.choice, spans)
        return result

    def _block_choices(self, body: dict[str, Any], blocked: Sequence[StageResult]) -> None:
        call, progress = self._call, self._progress
        failed = [result for result in blocked if is_failure(result.reason, result.cause)]
        progress.outcome = "unavailable" if failed else "blocked_output"
        if failed or call.plan.on_block.output == "error":
            raise self._block_error((failed or blocked)[0])
        whole = call.plan.output.block_scope == "response"
        choices = [result.choice for result in (progress.outputs if whole else blocked) if result.choice is not None]
        policies = blocking_policies(call, [made for result in blocked for made in result.decisions])
        call.adapter.block_choices(body, choices, call.adapter.notice(call.body, notice_text(call, policies)))
        progress.finish_reasons.update(dict.fromkeys(choices, "content_filter"))

    async def _relay(self, model: Model, raw: bytes) -> None:
        call, progress = self._call, self._progress
        head = call.adapter.new_head(call.id, int(call.started), call.model)
        frames = call.adapter.open_frames(head, call.body)
        self._frames = frames = HiddenUsage(frames) if call.hide_usage else frames
        closing = None if call.moderation is None else partial(frame_answer, call, progress, frames)
        judging = Judging(call.output, self._open, self._settings.expose, closing)
        relay = Relay(call, progress, judging, frames, self)
        answer_at_end(call, progress, frames, relay.results)
        waiting = perf_counter()
        try:
            async with model.stream(call.adapter.upstream_path, raw, call.headers) as reply:
                progress.upstream_wait_s += perf_counter() - waiting
                progress.upstream_status, progress.attempts = 200, reply.attempts
                self._upstream_headers = reply.headers
                if call.moderation is not None:  # the answer tells of the input as well
                    await self._await_input()
                await self._run_relay(relay, reply.chunks)
        finally:
            progress.model_served = frames.model
            progress.outputs = relay.results()
            progress.replies = relay.replies()

    async def _run_relay(self, relay: Relay, chunks: AsyncIterator[bytes]) -> None:
        try:
            await relay.run(chunks)
        except (UpstreamError, BadStream) as error:
            self._progress.upstream_error = error.kind
            if not self._progress.complete:  # behind the end nothing is wrong with the reply
                self._progress.outcome = "upstream_error"
                await relay.abort(self.tell(error) if isinstance(error, UpstreamError) else bad_reply())
        if not self.started:
            raise self._refuse_reply()  # the model server ended its stream without a single event

    def tell(self, error: UpstreamError) -> RequestError:
        """Return an error of the model server as the caller may see it: nothing in its words goes by a judge."""
        return to_caller_error(error, self._call.body if self._call.output.blocking else None)

    async def write(self, data: bytes) -> None:
        """Send bytes of the stream; the first call waits for the input decision and sends the head (W-05)."""
        progress = self._progress
        if self._out.gone:
            raise ClientGone
        if not self.started:
            await self._await_input()
            noting = self._sinks.begin(self._call, progress)
            if noting is not None:
                await noting
        if not self.started:  # a heartbeat may have been faster while this write waited
            self.started = True
            progress.phase = "streaming"
            progress.overhead_s = measure_overhead(self._call, progress)
            progress.status = 200
            await self._out.start(200, [*EVENT_STREAM, *self._headers()])
        progress.bytes_sent += len(data)
        await self._out.write(data)

    def _headers(self) -> list[Header]:
        overhead = self._progress.overhead_s
        if overhead is None:
            overhead = self._progress.overhead_s = measure_overhead(self._call, self._progress)
        own = guardrail_headers(self._call, self._progress, self._settings.expose, overhead)
        upstream = [(n.encode(), v.encode("latin-1")) for n, v in self._upstream_headers if n != "content-type"]
        return [*upstream, (b"x-request-id", self._call.request_id.encode()), *own]

    def _answer(self, status: int, body: bytes, kind: Sequence[Header] = ()) -> Answer:
        return Answer(status, [*(kind or JSON), *self._headers()], body)

    async def close(self, answer: Answer | RequestError | None) -> None:
        """Send what is still to be sent, and record the exchange, before that where the record could be refused.

        Args:
            answer: a whole answer, an error, or None when a stream was written or the caller left.
        """
        progress = self._progress
        if answer is not None and self._out.gone:
            answer, progress.cancelled, progress.outcome = None, True, "cancelled"
        error = answer if isinstance(answer, RequestError) else None
        whole = self._error_answer(error) if error is not None and not self.started else answer
        if isinstance(whole, Answer):
            progress.status, progress.bytes_sent = whole.status, len(whole.body)
        if error is not None and self.started:
            progress.terminator = "error"
            progress.note_error(error.status)
        if isinstance(whole, Answer) and not self.started and self._out.prompt and self._sinks.ready():
            await self._answer_first(whole)
            return
        refused = self._finish_record()
        if progress.cancelled:
            return
        if self.started:
            await self._end_stream(error or (refused if progress.terminator == "none" else None))
            return
        final = self._error_answer(refused) if refused is not None else whole
        if isinstance(final, Answer):
            await self._out.reply(final.status, final.headers, final.body)

    async def _answer_first(self, answer: Answer) -> None:
        """Send an answer and record it in the same turn of the loop: the caller need not wait while it is written."""
        self._progress.answered = True
        try:
            await self._out.reply(answer.status, answer.headers, answer.body)
        finally:
            self._finish_record()

    async def _end_stream(self, error: RequestError | None) -> None:
        if error is not None and self._frames is not None:
            await self._out.write(self._frames.error(error))
        await self._out.end()

    def record_interrupted(self) -> None:
        """Record an exchange that a shutdown or a bug cut off: its caller did not leave, but gets 500, or no end."""
        self._progress.note_error(self._progress.status or 500)
        self._finish_record()

    def _finish_record(self) -> RequestError | None:
        self._progress.settle(self._call)
        try:
            self._sinks.finish(self._call, self._progress)
        except StoreError:
            return record_unavailable()
        return None

    def _error_answer(self, error: RequestError) -> Answer:
        self._progress.note_error(error.status)
        reply = self._call.adapter.error_reply(error, self._call.request_id)
        extra = [(name.encode(), value.encode("ascii", "replace")) for name, value in reply.headers.items()]
        return Answer(reply.status, [*JSON, *self._headers(), *extra], reply.body)
