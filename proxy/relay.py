"""Relay a streamed reply: read frames, ask when a gate says so, write what it releases (guarding §7, wire §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from proxy.beside import Later, next_or_late
from proxy.blocks import Blocked, block_error, blocking_policies, is_failure, notice_text
from proxy.call import Call, Progress
from proxy.cutting import Cutter, drain
from proxy.headers import Expose
from proxy.passes import Pass
from proxy.plan import StagePlan
from proxy.settling import Finishes
from proxy.stages import StageResult, conclude, never, settled_by, without_spans
from proxy.stream import Gate
from proxy.wire.adapter import Chunk, Frames
from proxy.wire.body import bad_reply
from proxy.wire.errors import RequestError
from proxy.wire.segments import next_turn
from proxy.wire.sse import COMMENT
from supervisors.ask import ask_all, is_local
from supervisors.signals import read_signals
from supervisors.types import Assessment, Context, Exchange, Segment


class Out(Protocol):
    """Where the bytes of a stream go."""

    @property
    def started(self) -> bool:
        """Say whether the status line has left."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; the first call waits for the input decision and sends status and headers."""
        ...


@dataclass(frozen=True, slots=True)
class Judging:
    """What a relay needs to ask supervisors.

    Args:
        plan: the output stage, with `enforce` off in observe mode.
        open_context: makes the context of one pass.
        expose: how much of a block the caller may see.
        closing: makes the frames that stand between the last choice and the usage, from the results so far.
    """

    plan: StagePlan
    open_context: Callable[[StagePlan], Context]
    expose: Expose
    closing: Callable[[Sequence[StageResult]], bytes] | None = None


_TURN_S = 0.01
"""How long one stream may keep the loop: it is looked at after every frame."""
_WAITED_S = 0.0005
"""A wait for the model server that is longer has let others have it."""


class Relay:
    """One streamed reply on its way to the caller.

    Args:
        call: the exchange.
        progress: where the facts go.
        judging: the output stage and how to ask.
        frames: of this reply.
        out: where the bytes go.
    """

    def __init__(self, call: Call, progress: Progress, judging: Judging, frames: Frames, out: Out) -> None:
        self._call = call
        self._progress = progress
        self._judging = judging
        self._plan = judging.plan
        self._out = out
        self._frames = frames
        self._cutter = Cutter(frames, stops=bool(judging.plan.blocking or judging.closing))
        self._notice = call.adapter.notice(call.body, "")
        self._choices = call.adapter.choice_count(call.body)
        self._turn = next_turn(progress.request)
        self._gates: dict[int, Gate] = {}
        self._noticed: set[int] = set()
        self._tail: list[bytes] = []
        self._terminator = call.adapter.terminator
        self._ready: list[bytes] = []
        self._local = all(is_local(supervisor) for _, supervisor in self._plan.blocking)
        self._signalled = self._plan.wants_signals
        self._decided = never if self._plan.exhaustive else settled_by(self._plan)
        self._broken = False
        self._finished = Finishes()
        self._held_since: float | None = None
        self._since = 0.0
        self._last_write = perf_counter()
        self.ended = False

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Relay until the upstream ends, an error ends it, or every choice is blocked.

        Raises:
            RequestError: blocked or failed before the first byte; the caller gets a real status.
            UpstreamError: the upstream broke off; call `abort`.
            BadStream: the upstream sent something that is no event; call `abort`.
        """
        if not self._plan.blocking:
            await self._read(chunks)
            return
        async with Later(self._plan.stream.heartbeat_s, self._beat):
            await self._read(chunks)

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        progress, cutter = self._progress, self._cutter
        self._since = waiting = perf_counter()
        while (data := await self._next(chunks)) is not None:
            now = perf_counter()
            progress.upstream_wait_s += now - waiting
            if now - waiting > _WAITED_S:
                self._since = now
            if progress.first_token_s is None:
                progress.first_token_s = now - self._call.clock
            await self._feed(cutter.cut(data))
            if self.ended:
                return
            if cutter.over:
                break
            waiting = perf_counter()
        await self._close(chunks)

    async def _close(self, chunks: AsyncIterator[bytes]) -> None:
        """Send what is left when the stream has ended, then look at what is behind its end."""
        progress, cutter = self._progress, self._cutter
        if not (self.ended or cutter.over):
            await self._feed(cutter.cut(None))
        if not self.ended:
            await self._finish()
        if cutter.over:
            progress.upstream_error = await drain(cutter, chunks) or progress.upstream_error

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        """Return what comes next; meanwhile, no choice that has finished waits long for what may come behind that."""
        wait_s = self._finished.wait_s(perf_counter())
        if wait_s is None:
            return await anext(chunks, None)
        if wait_s > 0:
            return await next_or_late(chunks, wait_s, self._settle)
        return None if await self._settle() else await anext(chunks, None)

    async def _settle(self) -> bool:
        """Judge to their end the choices that finished a while ago, and say whether that ended the stream."""
        for choice in self._finished.due(perf_counter()):
            if not self.ended and choice not in self._noticed:
                await self._pump_gate(choice, self._gates[choice], ended=True)
        await self._flush()
        return self.ended

    async def _feed(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self._note(chunk)
            if self._broken:
                break
            if not self._plan.blocking and (chunk.choice is not None or self._judging.closing is None):
                self._ready.append(self._frames.forward(chunk))
                if self._plan.shadow and chunk.choice is not None:
                    self._gate(chunk.choice).watch(chunk)
            else:
                await self._judge_chunk(chunk)
            if self.ended:
                return
            if perf_counter() - self._since > _TURN_S:
                await self._yield_loop()
        await self._flush()
        if self._broken:
            await self.abort(RequestError(502, "upstream_error", "The model server reported an error in its stream."))

    async def _yield_loop(self) -> None:
        """Send what may leave and let others have the loop: a caller that left is to be noticed too."""
        await self._flush()
        await asyncio.sleep(0)
        self._since = perf_counter()

    def _note(self, chunk: Chunk) -> None:
        progress = self._progress
        if chunk.usage is not None:
            progress.usage = {**(progress.usage or {}), **chunk.usage}
        if chunk.finish is not None and chunk.choice is not None and chunk.choice not in self._noticed:
            progress.finish_reasons[chunk.choice] = chunk.finish
            progress.filtered = progress.filtered or chunk.finish == "content_filter"
        if self._signalled and chunk.body is not None:
            progress.signals |= dict.fromkeys(read_signals(chunk.body))
        if chunk.error:
            self._broken = True
            progress.upstream_error = "status"
            progress.outcome = "upstream_error"
        if chunk.last:
            progress.terminator = "done"

    async def _judge_chunk(self, chunk: Chunk) -> None:
        if chunk.choice is None:
            if chunk.last:
                self._terminator = chunk.raw
                await self._pump_all()
            elif chunk.body is not None:  # comments are ours to send
                self._tail.append(chunk.raw)
            return
        gate = self._gate(chunk.choice)
        finished = gate.finish is not None
        gate.push(chunk)
        if chunk.choice in self._noticed:  # the caller has its end already; what is drained is only read
            return
        if self._held_since is None:
            self._held_since = perf_counter()
        await self._pump_gate(chunk.choice, gate, ended=False)
        if gate.finish is not None:
            self._finished.note(chunk, gate, before=finished, now=perf_counter())

    def _gate(self, choice: int) -> Gate:
        gate = self._gates.get(choice)
        if gate is None:
            as_json, goes_on = self._notice.only_refusal, bool(self._call.adapter.terminator)
            gate = Gate(self._plan, self._frames, choice, self._turn, as_json=as_json, goes_on=goes_on)
            self._gates[choice] = gate
        return gate

    async def _pump_gate(self, choice: int, gate: Gate, *, ended: bool) -> None:
        passes = gate.due(ended=ended)
        for asked in passes:
            gate.take(asked, await self._ask(choice, asked))
        if gate.block is not None:
            await self._block(choice, gate)
        elif passes or gate.judged or self._plan.stream.mode == "observe":
            released = gate.release()
            if released:
                self._note_release()
                self._ready += released

    async def _ask(self, choice: int, asked: Pass) -> Sequence[Assessment]:
        if not asked.segments and not asked.complete:
            return ()
        exchange = Exchange(
            self._call.id,
            self._call.model,
            "output",
            self._progress.sent,
            asked.segments,
            choice,
            complete=asked.complete,
            signals=tuple(self._progress.signals),
            ended=asked.ended,
        )
        if not self._local:
            await self._flush()  # what is covered does not wait for the next verdict
        context = self._judging.open_context(self._plan)
        return await ask_all(asked.named, exchange, context, self._decided)

    async def _block(self, choice: int, gate: Gate) -> None:
        block = gate.block
        if block is None or choice in self._noticed:
            return
        self._noticed.add(choice)
        await self._flush()
        self._progress.outcome = "unavailable" if is_failure(block.reason, block.cause) else "blocked_output"
        result = self._conclude(choice, gate, 0.0)
        policies = blocking_policies(self._call, result.decisions)
        self._notice = self._call.adapter.notice(self._call.body, notice_text(self._call, policies))
        blocked = Blocked("output", block.reason, block.cause, result.categories, policies)
        error = block_error(self._call, blocked, self._judging.expose)
        by_frame = self._plan.stream.block_frame == "error" or is_failure(block.reason, block.cause)
        if by_frame or (self._call.plan.on_block.output == "error" and not self._out.started):
            await self._fail(error)
            return
        self._progress.finish_reasons[choice] = "content_filter"
        await self._write(self._frames.notice(choice, self._notice, released=gate.released_any))
        if self._plan.block_scope == "response":
            await self._block_siblings()
        if len(self._noticed) >= self._choices and self._plan.stream.on_block == "cancel":
            self._progress.cancelled_upstream = True
            await self._end_with_terminator()

    async def _block_siblings(self) -> None:
        for other in range(self._choices):
            if other not in self._noticed:
                self._noticed.add(other)
                gate = self._gates.get(other)
                self._progress.finish_reasons[other] = "content_filter"
                released = gate is not None and gate.released_any
                await self._write(self._frames.notice(other, self._notice, released=released))

    async def _finish(self) -> None:
        """Give every open choice its final pass, then send what stands behind the choices and the terminator."""
        await self._pump_all()
        if self.ended:
            return
        if self._is_cut():
            self._progress.outcome, self._progress.upstream_error = "upstream_error", "protocol"
            await self._fail(RequestError(502, "upstream_error", "The model server ended its stream half-way."))
        elif self._plan.blocking and not self._gates:  # no choice at all: nothing was judged, so nothing was answered
            self._progress.outcome, self._progress.upstream_error = "upstream_error", "protocol"
            await self._fail(bad_reply())
        elif self._plan.blocking or self._judging.closing is not None:
            await self._end_with_terminator()

    def _is_cut(self) -> bool:
        """Say whether the stream has ended without its end: its last event, or at least that of every choice."""
        if self._progress.terminator == "done":
            return False
        open_choices = [choice for choice, gate in self._gates.items() if gate.finish is None]
        return not self._terminator or not self._noticed.issuperset(open_choices)

    async def _pump_all(self) -> None:
        self._finished.clear()
        for choice, gate in list(self._gates.items()):
            if not gate.closed and not self.ended and choice not in self._noticed:
                await self._pump_gate(choice, gate, ended=True)

    async def _end_with_terminator(self) -> None:
        usage = b"" if self._progress.cancelled_upstream else b"".join(self._tail)
        self.ended = True
        self._progress.terminator = "done"
        closing = b"" if self._judging.closing is None else self._judging.closing(self.results())
        await self._write(closing + usage + self._terminator)
        self._progress.complete = True

    async def abort(self, error: RequestError) -> None:
        """Judge what is held, release what is covered, and end with an error frame (S-23).

        Raises:
            RequestError: `error` itself, when no byte has left yet.
        """
        if not self.ended:
            await self._pump_all()
        if not self.ended:
            await self._fail(error)

    async def _fail(self, error: RequestError) -> None:
        self.ended = True
        await self._flush()
        if not self._out.started:
            raise error
        self._progress.terminator = "error"
        await self._write(self._frames.error(error))

    def _note_release(self) -> None:
        if self._held_since is not None:
            self._progress.holdback_s = max(self._progress.holdback_s, perf_counter() - self._held_since)
            self._held_since = None

    async def _flush(self) -> None:
        """Send what was released since the last write: frames that came together leave together."""
        if self._ready:
            await self._write(b"")
            if not self._plan.blocking and self._progress.terminator == "done":
                self._progress.complete = True

    async def _write(self, data: bytes) -> None:
        if self._ready:
            data = b"".join([*self._ready, data])
            self._ready.clear()
        if data:
            await self._out.write(data)
            self._last_write = perf_counter()

    async def _beat(self) -> None:
        """Send a comment and an empty frame while text is held, so that no client's timer fires (W-28)."""
        every = self._plan.stream.heartbeat_s
        while True:  # begun when the first pause is over
            holding = not self.ended and any(gate.holding for gate in self._gates.values())
            if holding and perf_counter() - self._last_write >= every:
                await self._write(COMMENT + self._frames.empty())
            await asyncio.sleep(every)

    def results(self) -> list[StageResult]:
        """Return what the stage found for each choice, for record and metrics."""
        if not self._plan.blocking:
            return []
        return [
            self._conclude(choice, gate, sum([found.seconds for found in gate.assessments()]))
            for choice, gate in sorted(self._gates.items())
        ]

    def _conclude(self, choice: int, gate: Gate, seconds: float) -> StageResult:
        """Decide over all passes; a block that no joined verdict tells of took the spans' redaction away."""
        result = conclude(self._plan, choice, gate.assessments(), seconds)
        if gate.block is None or result.blocked:
            return result
        blocked = without_spans(self._plan, result)
        late = [replace(made, late_spans=gate.late_spans if made.blocked else 0) for made in blocked.decisions]
        return replace(blocked, decisions=tuple(late))

    def replies(self) -> dict[int, tuple[Segment, ...]]:
        """Return what was received, by choice."""
        return {choice: gate.received() for choice, gate in self._gates.items()}
