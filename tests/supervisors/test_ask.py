"""What a supervisor raises inside a task group is recorded as what it is, not as a group."""

from __future__ import annotations

import asyncio
import logging

import pytest

from supervisors.ask import ask
from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.testing import context, exchange
from supervisors.types import Cause, Context, Exchange, Verdict


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
