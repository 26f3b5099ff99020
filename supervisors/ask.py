"""Ask one supervisor or a whole stage within a deadline. A failure becomes `unknown`, never `safe`.

This file holds the only broad `except`s of the code base: whatever a supervisor raises, asked, opened or closed, ends
here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any, Final, cast

from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ConfigError, GuardrailError, ReplyError, first_leaf
from supervisors.types import (
    Assessment,
    Capability,
    Cause,
    Context,
    Exchange,
    Label,
    Stage,
    Supervisor,
    Verdict,
    unknown,
)

log = logging.getLogger(__name__)

_LOCAL_CHARS = 50_000
"""Above this many characters a local supervisor may leave the loop for a thread and gets the deadline too."""

_BUDGETS = frozenset({"call_budget", "cost_budget"})
"""Codes of a call that the request's budget did not allow (G-50)."""

_TOO_LONG_STATUS = frozenset({413, 422})
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
"""What servers say when the text is longer than their model takes (GU-10, LU-25)."""

_FILTERED = "content_filter"
_OVERLOADED = "overloaded"
"""Code of a call that was not made because too many wait already (G-46)."""

_SAFE = Label.SAFE
_BOTH_STAGES: frozenset[Stage] = frozenset({"input", "output"})


def is_local(supervisor: Supervisor) -> bool:
    """Say whether `assess` waits on nothing outside the process."""
    return bool(getattr(supervisor, "local", False))


def stream_capability(supervisor: Supervisor) -> Capability:
    """Return how the supervisor judges a growing text; without a declaration it is ``growth``."""
    capability: Capability = getattr(supervisor, "capability", "growth")
    return capability


def judged_stages(supervisor: Supervisor) -> frozenset[Stage]:
    """Return the stages the supervisor can serve."""
    stages: frozenset[Stage] = getattr(supervisor, "stages", _BOTH_STAGES)
    return stages


async def ask(name: str, supervisor: Supervisor, exchange: Exchange, context: Context) -> Assessment:
    """Ask one supervisor; raise nothing but cancellation.

    Args:
        name: configured name, stamped on the result.
        supervisor: whom to ask.
        exchange: what to judge.
        context: carries the deadline; a supervisor with its own `timeout_s` gets the smaller of the two.
    """
    chars = exchange.chars
    started = perf_counter()
    assess = _assess if chars <= _LOCAL_CHARS and is_local(supervisor) else _assess_in_time
    verdict = await assess(name, supervisor, exchange, context)
    return Assessment(name, verdict, perf_counter() - started, 1, chars)


LATE_S: Final = 0.25
"""How long a composite is waited for past its limit. It stops by itself before that; only an event loop that
stalls, so that both limits pass in one turn, makes it late, and then its votes are there and would be thrown away."""


def patience_s(supervisor: Supervisor) -> float:
    """Return how long past its limit a supervisor is waited for."""
    return LATE_S if getattr(supervisor, "nested", None) else 0.0


async def _assess_in_time(name: str, supervisor: Supervisor, exchange: Exchange, context: Context) -> Verdict:
    own: float | None = getattr(supervisor, "timeout_s", None)
    remaining = context.remaining_s
    try:
        async with asyncio.timeout((remaining if own is None else min(own, remaining)) + patience_s(supervisor)):
            return await _assess(name, supervisor, exchange, context)
    except TimeoutError:
        return unknown(Cause.TIMEOUT)


async def _assess(name: str, supervisor: Supervisor, exchange: Exchange, context: Context) -> Verdict:
    try:
        verdict: object = await supervisor.assess(exchange, context)  # a plugin may break its promise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled the question: the supervisor awaited something that was, which is its failure.
        log.warning("supervisor failed", extra={"supervisor": name, "error": "CancelledError"})
        return _cancelled()
    except Exception as error:  # noqa: BLE001 - the one broad except: any failure is `unknown`, with its type in the log
        return _failed(name, error)
    if not isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] # as said
        log.warning("supervisor returned no verdict", extra={"supervisor": name})
        return unknown(Cause.ERROR, detail="no_verdict")
    return verdict


def _failed(name: str, raised: Exception) -> Verdict:
    """Log a failure and return its verdict; of several at once, that of the first."""
    error: BaseException = raised
    if isinstance(raised, ExceptionGroup):
        error = first_leaf(cast("ExceptionGroup[Exception]", raised))  # isinstance forgets what is inside
    if not isinstance(error, ChatTimeout | TimeoutError | ReplyError):
        log.warning("supervisor failed", extra={"supervisor": name, "error": type(error).__name__})
    return to_unknown(error)


def to_unknown(error: BaseException) -> Verdict:
    """Turn a failure into a verdict: the one place that says which cause it is, of a call or of a supervisor."""
    if isinstance(error, ChatTimeout | TimeoutError):
        return unknown(Cause.TIMEOUT)
    if isinstance(error, ReplyError):
        return unknown(Cause.UNPARSABLE, detail=error.detail or None)
    cause = _cause_of(error) if isinstance(error, ChatError) else Cause.ERROR
    return unknown(cause, detail=getattr(error, "code", None), reason=type(error).__name__)


def _cause_of(error: ChatError) -> Cause:
    if isinstance(error, ChatRefused) and error.code == _FILTERED:
        return Cause.REFUSED
    if error.code in _BUDGETS or is_too_long(error):
        return Cause.OVER_LIMIT
    return Cause.OVERLOADED if error.code == _OVERLOADED else Cause.ERROR


def is_too_long(error: ChatError) -> bool:
    """Say whether the server found the text too long."""
    return error.status in _TOO_LONG_STATUS or error.code in _TOO_LONG_CODES


async def open_part(name: str, part: AbstractAsyncContextManager[Any]) -> None:
    """Open a supervisor that holds something.

    Raises:
        GuardrailError: as the supervisor says it; `ConfigError` for anything else it raises.
    """
    try:
        await part.__aenter__()
    except GuardrailError:
        raise
    except Exception as error:
        log.exception("supervisor cannot be opened", extra={"supervisor": name})
        msg = f"it cannot be opened: {type(error).__name__}, see the log"
        raise ConfigError(msg, f"supervisors.{name}") from error


async def close_part(name: str, part: AbstractAsyncContextManager[Any]) -> None:
    """Close a supervisor that holds something; a failure is logged, nobody waits for it."""
    try:
        await part.__aexit__(None, None, None)
    except Exception:
        log.exception("supervisor did not close cleanly", extra={"supervisor": name})


async def ask_all(
    named: Sequence[tuple[str, Supervisor]],
    exchange: Exchange,
    context: Context,
    decided: Callable[[str, Verdict], bool],
) -> tuple[Assessment, ...]:
    """Ask a whole stage: local supervisors in sequence, then the others concurrently.

    As soon as `decided` says that a verdict settles the decision, the rest is cancelled and recorded as
    ``unknown/skipped`` (G-22).

    Args:
        named: supervisors by configured name, each name once.
        exchange: what to judge.
        context: shared deadline.
        decided: called with every finished verdict that is not safe; constant false means "ask everybody".

    Returns:
        One assessment a supervisor, in the order of `named`.
    """
    found: dict[str, Assessment] = {}
    remote: list[tuple[str, Supervisor]] = []
    settled = False
    chars = exchange.chars
    assess = _assess if chars <= _LOCAL_CHARS else _assess_in_time
    for name, supervisor in named:
        if not getattr(supervisor, "local", False):
            remote.append((name, supervisor))
        elif not settled:
            started = perf_counter()
            verdict = await assess(name, supervisor, exchange, context)
            found[name] = Assessment(name, verdict, perf_counter() - started, 1, chars)
            if verdict.label is not _SAFE:
                settled = decided(name, verdict)
    if len(found) == len(named):
        return tuple(found.values())
    if not settled:
        settled = await _ask_remote(remote, exchange, context, decided, found)
    missing = unknown(Cause.SKIPPED) if settled else _cancelled()  # only who was not needed may pass as not asked
    return tuple([found.get(name) or Assessment(name, missing) for name, _ in named])


async def _ask_remote(
    remote: Sequence[tuple[str, Supervisor]],
    exchange: Exchange,
    context: Context,
    decided: Callable[[str, Verdict], bool],
    found: dict[str, Assessment],
) -> bool:
    """Fill `found` and return whether a verdict settled the decision."""
    tasks: list[asyncio.Task[None]] = []
    settled = False

    async def ask_one(name: str, supervisor: Supervisor) -> None:
        nonlocal settled
        assessment = await ask(name, supervisor, exchange, context)
        found[name] = assessment
        if assessment.verdict.label is not _SAFE and decided(name, assessment.verdict):
            settled = True
            for task in tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async with asyncio.TaskGroup() as group:
        tasks.extend([group.create_task(ask_one(name, supervisor)) for name, supervisor in remote])
    return settled


def _cancelled() -> Verdict:
    return unknown(Cause.ERROR, detail="cancelled")
