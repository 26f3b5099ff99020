"""Make the trials of a plan: bounded, stoppable, each written before it counts, none able to disturb another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from evals.journal import Entry, JsonObject, check_fits
from evals.limit import Limiter
from evals.plan import PlannedTrial
from evals.spending import spent_by
from evals.trials import Finished, outline, verdict_of
from evals.usage import total_of
from evals.writer import Writer
from supervisors.errors import GuardrailError, StoreError
from supervisors.types import Label

Ending = Literal["done", "interrupted", "budget", "too_many_errors", "unauthorised"]
GRACE_S = 30.0
STALL_S = 300.0
_DEFECTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, OSError)
"""What a defect in the handling of one reply raises: that trial is an error, the run goes on (H-126)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run stops or a trial is given up.

    Args:
        deadline_s: of one trial, retries included (H-125).
        rate_rpm: trials started a minute, None without limit.
        max_cost: US dollars; no trial starts once they are spent (H-133).
        max_errors: number of errors that stops the run, None for the share below.
        max_error_share: share of errors that stops it, after at least 50 trials (H-127).
        max_run_tokens: input and output tokens as the servers report them; no trial starts once they are used.
        max_run_s: seconds of this part of the run; no trial starts after them.
    """

    deadline_s: float = 600.0
    rate_rpm: float | None = None
    max_cost: float | None = None
    max_errors: int | None = None
    max_error_share: float = 0.2
    max_run_tokens: int | None = None
    max_run_s: float | None = None


@dataclass(slots=True)
class Used:
    """What the trials of earlier parts of a run have used."""

    cost: float = 0.0
    tokens: int = 0

    def take(self, _number: int, line: JsonObject, _data: bytes = b"") -> None:
        """Take the next line of the journal."""
        if line.get("type") == "trial":
            self.cost += spent_by(line)
            self.tokens += tokens_of(line) or 0


@dataclass(slots=True)
class Counts:
    """What a run has done since it was started or resumed.

    Args:
        todo: trials to do.
        cost: US dollars spent, by this and the earlier parts.
    """

    todo: int
    done: int = 0
    errors: int = 0
    skipped: int = 0
    unknown: int = 0
    flagged: int = 0
    blocked: int = 0
    refused: int = 0
    cost: float = 0.0
    unpriced: int = 0
    tokens: int = 0
    untold: int = 0
    last_done: float = field(default_factory=monotonic)
    started: float = field(default_factory=monotonic)

    def take(self, trial: PlannedTrial, finished: Finished) -> None:
        """Count a finished trial; unknown is what the tables call unknown."""
        fields = finished.fields
        behaviour = fields.get("behaviour")
        self.done += 1
        self.errors += finished.status == "error"
        self.skipped += finished.status == "skipped"
        self.flagged += fields.get("flagged") is True
        self.blocked += fields.get("blocked") is True
        judged = finished.status == "ok" and verdict_of(fields)[0] is not Label.UNKNOWN
        self.unknown += trial.arm != "direct" and not judged
        self.refused += isinstance(behaviour, dict) and behaviour.get("kind") == "refused"
        self.cost += spent_by(fields)
        self.unpriced += fields.get("cost_usd") is None and finished.status == "ok"
        used = tokens_of(finished.fields)
        self.tokens += used or 0
        self.untold += used is None
        self.last_done = monotonic()


def tokens_of(line: JsonObject) -> int | None:
    """Return the tokens a trial line reports, None where a model was asked and its server did not tell them."""
    usage = line.get("usage")
    if line.get("cached") is True:
        return 0
    if not isinstance(usage, dict):
        return 0 if line.get("answer") is None else None
    return total_of(usage)


class Runner:
    """Runs trials.

    Args:
        send: makes one trial.
        writer: writes it.
        limiter: how many at once.
        limits: when to stop.
        counts: shared with whoever shows progress.
    """

    def __init__(
        self,
        send: Callable[[PlannedTrial], Awaitable[Finished]],
        writer: Writer,
        limiter: Limiter,
        limits: Limits,
        counts: Counts,
    ) -> None:
        self._send = send
        self._writer = writer
        self._limiter = limiter
        self._limits = limits
        self.counts = counts
        self.ending: Ending | None = None
        self._active: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._notes: list[Entry] = []
        self._settling = 0
        # What a trial has used is known when it is done: a budget starts no other one in its place before.
        self._overlaps = limits.max_cost is None and limits.max_run_tokens is None

    @property
    def in_flight(self) -> int:
        """Return how many trials are in flight."""
        return len(self._active)

    @property
    def concurrency(self) -> int:
        """Return the present limit."""
        return self._limiter.current

    def overloaded(self) -> None:
        """Take note of a server that says it has too much to do."""
        if self._limiter.overloaded(monotonic()):
            self._note_limit("overloaded")

    def settling(self, change: int) -> None:
        """Take note of trials (1, or -1 when it is over) that have their answer and only wait for their record."""
        self._settling += change
        self._changed.set()

    def interrupt(self) -> None:
        """Stop starting trials and give those in flight 30 s; the second call cancels them (H-118)."""
        if self.ending is None:
            self.ending = "interrupted"
            asyncio.get_running_loop().call_later(GRACE_S, self._cancel)
        else:
            self._cancel()
        self._changed.set()

    def _cancel(self) -> None:
        for task in self._active:
            task.cancel()

    def _note_limit(self, reason: str) -> None:
        self._notes.append(Entry("limit_change", {"limit": self._limiter.current, "reason": reason}))

    async def run(self, todo: Sequence[PlannedTrial]) -> Ending:
        """Make the trials and return how it ended.

        Raises:
            StoreError: a result cannot be stored; nothing more is asked then.
        """
        async with asyncio.TaskGroup() as group:
            for started, trial in enumerate(todo):
                if started:
                    await self._pace()
                await self._wait_for_room()
                if self._stops():
                    break
                task = group.create_task(self._make(trial))
                self._active.add(task)
                task.add_done_callback(self._settle)
            while self._active:
                await self._wait_for_change()
        if self._notes:
            await self._writer.put(*self._notes)
        if self._writer.failure is not None:
            raise self._writer.failure
        return self.ending or "done"

    def _settle(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        self._changed.set()

    async def _wait_for_room(self) -> None:
        while self._lanes_taken() >= self._limiter.current and not self._stops():
            await self._wait_for_change()

    def _lanes_taken(self) -> int:
        """Return how many trials a server is busy with, and those beyond a further limit that only settle."""
        settled = min(self._settling, self._limiter.current) if self._overlaps else 0
        return len(self._active) - settled

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        if self._active:
            await self._changed.wait()

    async def _pace(self) -> None:
        """Wait until the next trial is due, or no further one is to be started."""
        if self._limits.rate_rpm is None:
            return
        due = monotonic() + 60.0 / self._limits.rate_rpm
        while not self._stops() and (left_s := due - monotonic()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _seconds_left(self._limits, self.counts))):
                    await self._changed.wait()

    def _stops(self) -> bool:
        if self.ending is None:
            self.ending = self._reason_to_stop()
        return self.ending is not None or self._writer.failure is not None

    def _reason_to_stop(self) -> Ending | None:
        limits, counts = self._limits, self.counts
        if limits.max_cost is not None and counts.cost >= limits.max_cost:
            return "budget"
        if _is_used_up(limits, counts):
            return "budget"
        if limits.max_errors is not None:
            return "too_many_errors" if counts.errors > limits.max_errors else None
        if counts.done >= 50 and counts.errors > limits.max_error_share * counts.done:
            return "too_many_errors"
        return None

    async def _make(self, trial: PlannedTrial) -> None:
        finished = await self._send_bounded(trial)
        notes, self._notes = self._notes, []
        try:
            await self._writer.put(*notes, *finished.attempts, Entry("trial", finished.fields), texts=finished.texts)
        except StoreError:
            return  # the run stops on the writer's own failure
        self.counts.take(trial, finished)
        if finished.auth_failed and self.counts.done == self.counts.errors:
            self.ending = "unauthorised"
        if finished.status == "ok" and self._limiter.succeeded(monotonic()):
            self._note_limit("clean round")

    async def _send_bounded(self, trial: PlannedTrial) -> Finished:
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                finished = await self._send(trial)
            check_fits(Entry("trial", finished.fields))
        except TimeoutError:
            return Finished(outline(trial, "error", "timeout", f"deadline of {self._limits.deadline_s:g} s"))
        except StoreError:
            raise
        except (GuardrailError, *_DEFECTS) as error:
            return Finished(outline(trial, "error", "defect", type(error).__name__))
        return finished


def _is_used_up(limits: Limits, counts: Counts) -> bool:
    """Say whether tokens or time are used up; answers whose tokens nobody reports cannot keep a budget of tokens."""
    if limits.max_run_tokens is not None and (counts.tokens >= limits.max_run_tokens or counts.untold > 0):
        return True
    return limits.max_run_s is not None and monotonic() - counts.started >= limits.max_run_s


def _seconds_left(limits: Limits, counts: Counts) -> float:
    return float("inf") if limits.max_run_s is None else max(0.0, counts.started + limits.max_run_s - monotonic())


async def tick(runner: Runner, show: Callable[[JsonObject], None], seconds: float) -> None:
    """Show progress every so many seconds until cancelled, and say when nothing finishes any more (H-125)."""
    warned = 0.0
    while True:
        await asyncio.sleep(seconds)
        quiet = monotonic() - runner.counts.last_done
        stalls = quiet > STALL_S and monotonic() - warned > STALL_S and runner.in_flight > 0
        warned = monotonic() if stalls else warned
        show(snapshot(runner) | ({"stalled_s": round(quiet)} if stalls else {}))


def snapshot(runner: Runner) -> JsonObject:
    """Return what is shown of a running run."""
    counts = runner.counts
    per_s = counts.done / max(monotonic() - counts.started, 1e-9)
    return {
        "planned": counts.todo,
        "done": counts.done,
        "errors": counts.errors,
        "skipped": counts.skipped,
        "unknown": counts.unknown,
        "flagged": counts.flagged,
        "refused": counts.refused,
        "in_flight": runner.in_flight,
        "concurrency": runner.concurrency,
        "per_s": round(per_s, 3),
        "left_s": round((counts.todo - counts.done) / per_s, 1) if counts.done else None,
        "cost_usd": None if counts.unpriced else round(counts.cost, 6),
    }
