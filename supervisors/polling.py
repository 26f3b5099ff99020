"""Ask the members of a panel: who is started when, and when nobody needs to be waited for any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from supervisors.ask import LATE_S, is_local, patience_s
from supervisors.types import Assessment, Cause, Context, Exchange, Supervisor, Verdict, unknown

Verdicts = Mapping[str, Verdict]


@dataclass(slots=True)
class Poll:
    """One round of questions.

    Args:
        members: whom to ask, in order.
        exchange: what to judge.
        context: whose `ask` is used.
        seconds: after this time whoever has not answered is ``unknown/timeout``.
        decided: called after every answer; true ends the round and cancels the rest.
        in_flight: how many of the outstanding members, in order, should be running now.
        hedge_s: start a further one if nobody answers for this long; None waits.
    """

    members: Mapping[str, Supervisor]
    exchange: Exchange
    context: Context
    seconds: float
    decided: Callable[[Verdicts], bool]
    in_flight: Callable[[Verdicts], int]
    hedge_s: float | None = None
    _found: dict[str, Assessment] = field(default_factory=dict[str, Assessment])
    _running: dict[asyncio.Task[Assessment], str] = field(default_factory=dict[asyncio.Task[Assessment], str])

    async def run(self) -> dict[str, Assessment]:
        """Return one assessment a member, in order; those not needed are ``unknown/skipped``.

        Local members answer first: they cost microseconds and may make every call superfluous.
        """
        ended = False
        for name, member in self.members.items():
            if not ended and is_local(member):
                self._found[name] = await self.context.ask(name, member, self.exchange)
                ended = self.decided(self._verdicts())
        if not ended and len(self._found) < len(self.members):
            await self._ask_remote()
        return {name: self._found.get(name) or Assessment(name, unknown(Cause.SKIPPED)) for name in self.members}

    def _verdicts(self) -> dict[str, Verdict]:
        return {name: assessment.verdict for name, assessment in self._found.items()}

    async def _ask_remote(self) -> None:
        now = asyncio.get_running_loop().time
        end = now() + self.seconds
        async with asyncio.TaskGroup() as group:
            self._start(group, self.in_flight(self._verdicts()))
            while self._running:
                left = max(0.0, end - now())
                pause = left if self.hedge_s is None else min(left, self.hedge_s)
                done, _ = await asyncio.wait(self._running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._collect(task)
                if done and self.decided(self._verdicts()):
                    break
                if not done and now() >= end:
                    await self._give_up()
                    break
                if done:
                    self._start(group, self.in_flight(self._verdicts()))
                elif self.hedge_s is not None:
                    self._start(group, len(self._running) + 1)
            for task in self._running:
                task.cancel()

    def _start(self, group: asyncio.TaskGroup, wanted: int) -> None:
        for name, member in self.members.items():
            if len(self._running) >= wanted:
                return
            if name not in self._found and name not in self._running.values():
                task = group.create_task(self.context.ask(name, member, self.exchange))
                self._running[task] = name

    def _collect(self, task: asyncio.Task[Assessment]) -> None:
        name = self._running.pop(task)
        if task.cancelled():  # a member that cancels itself has not answered, and must not end the round
            self._found[name] = Assessment(name, unknown(Cause.ERROR, detail="cancelled"))
        else:
            self._found[name] = task.result()

    async def _give_up(self) -> None:
        """Count whoever has not answered as late, but a composite that is counting its own votes this very moment."""
        counting = [task for task, name in self._running.items() if patience_s(self.members[name])]
        if counting:
            done, _ = await asyncio.wait(counting, timeout=LATE_S)
            for task in done:
                self._collect(task)
        for name in self._running.values():
            self._found[name] = Assessment(name, unknown(Cause.TIMEOUT), self.seconds)
