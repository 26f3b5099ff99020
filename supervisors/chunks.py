"""Judge one view in several calls and combine them: one unsafe piece makes the whole unsafe (G-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from supervisors.ask import to_unknown
from supervisors.errors import ChatError, ReplyError
from supervisors.narrowing import Narrowing, select
from supervisors.scopes import SCOPES, rank
from supervisors.transcript import Cutting, Window, count_windows, cut_windows, is_media
from supervisors.types import Cause, Exchange, Label, Scope, Segment, Tokens, Verdict, join_causes, unknown


@dataclass(frozen=True, slots=True)
class Plan:
    """Say what is judged and in how many calls.

    Args:
        scopes: each in calls of its own.
        narrowing: what of them.
        cutting: how long text is cut.
        max_chunks: more windows than this are ``unknown/over_limit``.
        parallel: most calls at the same time.
    """

    scopes: tuple[Scope, ...]
    narrowing: Narrowing
    cutting: Cutting
    max_chunks: int
    parallel: int


async def judge_view(
    exchange: Exchange, plan: Plan, judge: Callable[[Window], Awaitable[Verdict]], *, exhaustive: bool
) -> Verdict:
    """Judge every window of the view and combine: nothing is left out, or the verdict is not safe (G-13).

    Args:
        exchange: what to judge.
        plan: which parts in how many calls.
        judge: one call; its failures become verdicts here.
        exhaustive: judge every window although one is unsafe.
    """
    chosen: dict[Scope, list[Segment]] = {scope: select(exchange, scope, plan.narrowing) for scope in plan.scopes}
    needed = sum([count_windows(segments, plan.cutting) for segments in chosen.values()])
    if needed > plan.max_chunks:
        return unknown(Cause.OVER_LIMIT, detail="max_chunks", reason=f"{needed} windows, at most {plan.max_chunks}")
    windows = [window for scope, segments in chosen.items() for window in cut_windows(scope, segments, plan.cutting)]
    verdicts = await _judge_windows(windows, judge, parallel=plan.parallel, exhaustive=exhaustive)
    if any(is_media(segment) for segments in chosen.values() for segment in segments):
        verdicts.append(unknown(Cause.UNSUPPORTED, detail="media"))
    return combine(verdicts) if verdicts else unknown(Cause.SKIPPED, detail="no_text")


async def _judge_windows(
    windows: Sequence[Window], judge: Callable[[Window], Awaitable[Verdict]], *, parallel: int, exhaustive: bool
) -> list[Verdict]:
    verdicts: list[Verdict | None] = [None] * len(windows)
    settled = len(SCOPES)  # windows of this rank and milder ones are not needed any more
    slots = asyncio.Semaphore(parallel)  # keeps the calls for one view from flooding the backend
    tasks: list[asyncio.Task[None]] = []

    async def judge_one(index: int, window: Window) -> None:
        nonlocal settled
        async with slots:
            verdict = await attempt(judge(window))
        verdicts[index] = replace(verdict, scope=window.scope if verdict.label is Label.UNSAFE else None)
        if verdict.label is Label.UNSAFE and not exhaustive:
            settled = min(settled, rank(window.scope))  # a finding in a milder scope may be let through
            for other, task in zip(windows, tasks, strict=True):
                if task is not asyncio.current_task() and rank(other.scope) >= settled:
                    task.cancel()

    async with asyncio.TaskGroup() as group:
        tasks.extend([group.create_task(judge_one(index, window)) for index, window in enumerate(windows)])
    # A call that was cancelled by nobody here has failed: only a window that was not needed may be skipped.
    skipped, failed = unknown(Cause.SKIPPED), unknown(Cause.ERROR, detail="cancelled")
    return [
        verdict or (skipped if rank(window.scope) >= settled else failed)
        for window, verdict in zip(windows, verdicts, strict=True)
    ]


async def attempt(call: Awaitable[Verdict]) -> Verdict:
    """Turn the failures of a model call into unknown verdicts with their causes."""
    try:
        return await call
    except (ChatError, ReplyError, TimeoutError) as error:
        return to_unknown(error)


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts on the pieces by ``any``: unsafe if one is, else unknown if one is, else safe (GP-14).

    The deciding piece gives detail, reason, scope and extras; `extras` then names it: ``chunk`` of ``chunks``.

    Args:
        verdicts: at least one.
    """
    index = _deciding(verdicts)
    deciding = verdicts[index]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    causes = [verdict.cause for verdict in verdicts if verdict.cause is not None]
    categories = [name for verdict in verdicts if verdict.label is deciding.label for name in verdict.categories]
    return replace(
        deciding,
        cause=join_causes(causes) if deciding.label is Label.UNKNOWN else None,
        rest=join_causes(causes) if deciding.label is Label.UNSAFE and causes else None,
        score=None if deciding.label is Label.UNKNOWN and len(verdicts) > 1 else max(scores, default=None),
        categories=tuple(dict.fromkeys(categories)),
        tokens=_add_tokens(verdicts),
        cost=_add_cost(verdicts),
        extras=deciding.extras if len(verdicts) == 1 else {**deciding.extras, "chunk": index, "chunks": len(verdicts)},
    )


def _deciding(verdicts: Sequence[Verdict]) -> int:
    """Return the index of the first unsafe verdict in the gravest scope, else of the gravest cause, else 0."""
    bad = [index for index, verdict in enumerate(verdicts) if verdict.label is Label.UNSAFE]
    if bad:
        return min(bad, key=lambda index: rank(verdicts[index].scope))
    causes = [verdict.cause for verdict in verdicts]
    known = [cause for cause in causes if cause is not None]
    return causes.index(join_causes(known)) if known else 0


def _add_tokens(verdicts: Sequence[Verdict]) -> Tokens | None:
    counts = [verdict.tokens for verdict in verdicts if verdict.tokens is not None]
    return Tokens(sum([c.input for c in counts]), sum([c.output for c in counts])) if counts else None


def _add_cost(verdicts: Sequence[Verdict]) -> float | None:
    if any(verdict.tokens is not None and verdict.cost is None for verdict in verdicts):
        return None
    costs = [verdict.cost for verdict in verdicts if verdict.cost is not None]
    return sum(costs) if costs else None
