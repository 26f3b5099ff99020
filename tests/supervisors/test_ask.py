"""What a supervisor raises, in a task group or by being cancelled, is recorded as what it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from supervisors.ask import ask, ask_all, to_unknown
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.testing import Sleeps, context, exchange
from supervisors.types import Assessment, Cause, Context, Exchange, Supervisor, Verdict, safe, unsafe
from tests.timing import HANGS_S, PATIENCE_S


class Raises:
    """A supervisor that fails two tasks deep."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def assess(self, judged: Exchange, to: Context, /) -> Verdict:
        del judged, to
        inner = ExceptionGroup("inner", [self._error])
        msg = "outer"
        raise ExceptionGroup(msg, [inner])


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (KeyError("x"), Cause.ERROR, "KeyError"),
        (ChatTimeout("late"), Cause.TIMEOUT, None),
        (ReplyError("odd", detail="missing_field"), Cause.UNPARSABLE, None),
        (ChatUnavailable("too many wait", code="overloaded"), Cause.OVERLOADED, "ChatUnavailable"),
        (ChatRefused("none left", code="call_budget"), Cause.OVER_LIMIT, "ChatRefused"),
    ],
)
def test_a_group_is_recorded_by_its_leaf(
    error: Exception, cause: Cause, reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        verdict = asyncio.run(ask("s", Raises(error), exchange("hi"), context())).verdict
    assert (verdict.cause, verdict.reason) == (cause, reason)
    assert [getattr(record, "error", None) for record in caplog.records] == ([reason] if reason else [])


async def wait_for_nothing() -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    await cancelled


class AwaitsACancelledFuture:
    """A plugin whose own call was cancelled under it."""

    def __init__(self, *, local: bool) -> None:
        self.local = local

    async def assess(self, judged: Exchange, to: Context, /) -> Verdict:
        del judged, to
        await wait_for_nothing()
        return safe()


class CancelsItsTask:
    """A plugin that cancels the task it runs in."""

    async def assess(self, judged: Exchange, to: Context, /) -> Verdict:
        del judged, to
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return safe()


def never(_: str, __: Verdict) -> bool:
    return False


def causes(found: Sequence[Assessment]) -> list[tuple[Cause | None, str | None]]:
    return [(each.verdict.cause, each.verdict.detail) for each in found]


CANCELLED = (Cause.ERROR, "cancelled")


@pytest.mark.parametrize(
    "supervisor", [AwaitsACancelledFuture(local=True), AwaitsACancelledFuture(local=False), CancelsItsTask()]
)
async def test_a_supervisor_that_cancels_itself_has_failed_and_is_not_skipped(supervisor: Supervisor) -> None:  # G-17
    found = await ask_all([("s", supervisor), ("t", Sleeps(0.0))], exchange("hi"), context(), never)
    assert causes(found) == [CANCELLED, (None, None)]


async def test_who_is_not_needed_any_more_is_skipped() -> None:  # G-22
    named = [("s", Sleeps(0.0, unsafe("canary"))), ("t", Sleeps(HANGS_S))]
    found = await ask_all(named, exchange("hi"), context(seconds=PATIENCE_S), lambda name, _: name == "s")
    assert causes(found) == [(None, None), (Cause.SKIPPED, None)]


@pytest.mark.parametrize("local", [False, True])
async def test_cancelling_the_exchange_is_a_cancellation_and_no_verdict(local: bool) -> None:
    class Waits:
        def __init__(self) -> None:
            self.local = local

        async def assess(self, judged: Exchange, to: Context, /) -> Verdict:
            del judged, to
            asked.set()
            await asyncio.sleep(HANGS_S)
            return safe()

    asked = asyncio.Event()
    round_of_questions = asyncio.ensure_future(ask_all([("s", Waits())], exchange("hi"), context(), never))
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
        round_of_questions.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_of_questions


async def test_a_supervisor_that_runs_out_of_time_is_a_time_out_and_not_cancelled() -> None:
    found = await ask("s", Sleeps(HANGS_S), exchange("hi"), context(seconds=0.01))
    assert found.verdict.cause is Cause.TIMEOUT


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ChatUnavailable("too many wait", code="overloaded"), Cause.OVERLOADED),  # G-46
        (ChatTimeout("no slot in time", code="overloaded"), Cause.TIMEOUT),
        (ChatUnavailable("down"), Cause.ERROR),
        (ChatRefused("filtered", status=400, code="content_filter"), Cause.REFUSED),
        (ChatRefused("too long", status=422), Cause.OVER_LIMIT),  # GU-10
        (ChatRefused("too long", status=400, code="string_above_max_length"), Cause.OVER_LIMIT),
        (ChatRefused("none left", code="cost_budget"), Cause.OVER_LIMIT),
    ],
)
def test_the_failure_of_one_call_keeps_its_cause(error: ChatError, cause: Cause) -> None:
    assert to_unknown(error).cause is cause
