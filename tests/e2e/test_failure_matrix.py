"""Every failure of a supervisor × where it is asked × open and closed, through the whole proxy (F-01): never safe.

What a fault of a real server does to each supervisor is in tests/e2e/test_remote_failures.py; here is what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.testing import Always, Fails
from supervisors.types import Capability, Exchange, Supervisor, Verdict, safe
from supervisors.vote import Vote
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, sse
from tests.e2e.serving import frames_of, guarded, policy, serving

FAULTS: Mapping[str, tuple[Exception, str]] = {
    "no connection": (ChatUnavailable("no connection", code="connect"), "error"),
    "time-out": (ChatTimeout("late"), "timeout"),
    "credentials refused": (ChatRefused("no", status=401, code="invalid_api_key"), "error"),
    "failed after retries": (ChatUnavailable("down", status=503), "error"),
    "unreadable reply": (ReplyError("no JSON", detail="bad_json"), "unparsable"),
    "redirect": (ChatUnavailable("elsewhere", status=302, code="redirect"), "error"),
    "exception": (RuntimeError("bug"), "error"),
    "circuit open": (ChatUnavailable("down", code="circuit_open"), "error"),
}
DETAILS: Mapping[str, str] = {"circuit open": "circuit_open", "unreadable reply": "bad_json"}
WINDOW: Mapping[str, Any] = {"mode": "window", "window_chars": 16, "overlap_chars": 0}


@dataclass(frozen=True, slots=True)
class FailsLater:
    """Judge the first text as safe, and break at the next look."""

    error: Exception
    capability: Capability = "windowed"
    looks: list[str] = field(default_factory=list[str])

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Judge once."""
        self.looks.append("".join([segment.text for segment in exchange.judged]))
        if len(self.looks) > 1:
            raise self.error
        return safe()


def in_panel(error: Exception) -> Supervisor:
    """Return a panel that cannot decide without the one that fails."""
    return Vote(strategy="any", members={"a": Always(), "b": Fails(error)})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a supervisor is asked.

    Args:
        stage: it judges.
        options: of the stage.
        stream: the caller asked for one.
        started: the caller has text before the failure.
    """

    stage: str
    options: Mapping[str, Any]
    stream: bool = False
    started: bool = False


PLACES: Mapping[str, Place] = {
    "input, blocking": Place("input", {}),
    "input, blocking, stream": Place("input", {}, stream=True),
    "input, parallel": Place("input", {"mode": "parallel"}),
    "input, parallel, stream": Place("input", {"mode": "parallel"}, stream=True),
    "input, panel": Place("input", {}),
    "output, whole": Place("output", {}),
    "output, panel": Place("output", {}),
    "output, stream, before the first byte": Place("output", {"stream": {"mode": "hold"}}, stream=True),
    "output, stream, after the first byte": Place("output", {"stream": WINDOW}, stream=True, started=True),
}


def supervisor_of(name: str, error: Exception) -> Supervisor:
    if PLACES[name].started:
        return FailsLater(error)
    return in_panel(error) if "panel" in name else Fails(error)


@pytest.mark.parametrize("on_unknown", ["block", "log"])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_blocks_or_is_told_and_is_never_safe(
    tmp_path: Path, fault: str, name: str, on_unknown: str
) -> None:  # F-01, F-06
    place, (error, cause) = PLACES[name], FAULTS[fault]
    stage = {"forced": ["guard"], "on_unknown": on_unknown, **place.options}
    rules = policy(**{"stage" if place.stage == "input" else "output": stage})
    guard: Mapping[str, Supervisor] = {"guard": supervisor_of(name, error)}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=guard, policies=rules)) as proxy:
        if place.stream:
            pieces = ("a first piece that is long enough, ", "and a second one of that length")
            up.script(Answer(frames=sse(*chat_chunks(*pieces))))
        reply = await proxy.chat(stream=place.stream)
        record = (await proxy.records())[0]
    closed = on_unknown == "block"
    if place.started:
        assert reply.status_code == 200
        errors = [frame["error"]["code"] for frame in frames_of(reply) if frame != "[DONE]" and "error" in frame]
        assert errors == (["guardrail_unavailable"] if closed else [])
    elif closed:
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "guardrail_unavailable"
    else:
        assert reply.status_code == 200
        assert reply.headers["x-guardrail-verdict"].startswith("unknown; cause=")
    assert record["outcome"] == ("unavailable" if closed else "answered")
    rows = [row for row in record["verdicts"] if row["stage"] == place.stage]
    broken = next(row for row in rows if row["supervisor"] == ("guard/b" if "panel" in name else "guard"))
    assert (broken["label"], broken["cause"]) == ("unknown", cause)
    assert broken["detail"] == DETAILS.get(fault, broken["detail"])
    assert [row["label"] for row in rows if row["supervisor"] == "guard"] == ["unknown"]
