"""The OpenAI SDKs on every route but chat: what passes, what is blocked, redacted or broken (wire §4, §5, §13)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.situations import BUSY, LONG, NOTICE, REDACTED, blocks_input, is_down, redacts, use
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_responses import SSE, frames, message, response, stream, streamed, text_events
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, Serving, guarded, serving

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SDKS = {"openai2": "openai>=2,<3", "openai3": "openai>=3,<4"}
SCRIPT = Path(__file__).with_name("openai_calls.py")
SPOKEN = ("responded", "responding", "completed", "completing")
STREAMS = ("responding", "completing")
Call = Callable[..., Any]


@pytest.fixture(params=SDKS)
def call(request: pytest.FixtureRequest, client_python: Callable[[str, str], Path]) -> Call:
    """Return the function that makes calls with an SDK and gives what the application sees of each."""
    python = client_python(request.param, SDKS[request.param])

    async def make(proxy: Serving, *names: str) -> Sequence[dict[str, Any]]:
        shown = await use(python, SCRIPT, f"{proxy.url}/v1", *names)
        assert {one.pop("version").split(".")[0] for one in shown} == {request.param[-1]}
        return shown

    return make


def legacy(*texts: str) -> list[bytes]:
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    choices = [{"index": 0, "text": text, "finish_reason": None} for text in texts]
    choices.append({"index": 0, "text": "", "finish_reason": "stop"})
    return sse(*[{**head, "choices": [choice]} for choice in choices])


def answers(*texts: str) -> Sequence[Answer]:
    """Return one answer a call, in the order of `SPOKEN`."""
    whole = "".join(texts)
    one = {"index": 0, "text": whole, "logprobs": None, "finish_reason": "stop"}
    completion = {**chat_reply(), "object": "text_completion", "choices": [one]}
    return (
        Answer(json=response(message(whole))),
        streamed(*texts),
        Answer(json=completion),
        Answer(frames=legacy(*texts)),
    )


async def test_replies_that_pass(tmp_path: Path, call: Call) -> None:  # W-02, W-20, W-33
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers("All ", "is well."))
        whole, flowing, *completions, embedded, moderated = await call(proxy, *SPOKEN, "embedded", "moderated")
        assert (whole["content"], whole["status"]) == ("All is well.", "completed")
        assert flowing == {"content": "All is well.", "last": "response.completed", "final": "All is well."}
        assert completions == [{"content": "All is well.", "finish": "stop"}] * 2
        assert embedded == {"content": "[0.25, -0.5]"}
        assert moderated == {"flagged": False, "violence": False}


async def test_blocked_inputs(tmp_path: Path, call: Call) -> None:  # E-01, E-02, W-33
    async with FakeUpstream() as up, serving(blocks_input(up, tmp_path)) as proxy:
        *shown, moderated = await call(proxy, *SPOKEN, "embedded", "moderated")
        assert [one["error"] for one in shown] == ["BadRequestError"] * 5
        assert {(one["status_code"], one["code"], one["type"]) for one in shown} == {
            (400, "content_filter", "invalid_request_error")
        }
        assert [one["param"] for one in shown] == ["input", "input", "prompt", "prompt", "input"]
        assert all(one["request_id"] for one in shown)
        assert moderated["flagged"] is True
        assert up.received == []


async def test_blocked_outputs(tmp_path: Path, call: Call) -> None:  # W-23, S-08, S-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers(LONG, "a ", CANARY))
        whole, flowing, completed, completing = await call(proxy, *SPOKEN)
        assert (whole["content"], whole["status"], whole["reason"]) == (NOTICE, "incomplete", "content_filter")
        assert flowing["last"] == "response.incomplete"
        assert completed == {"content": NOTICE, "finish": "content_filter"}
        assert (completing["content"].endswith(NOTICE), completing["finish"]) == (True, "content_filter")
        assert "violet" not in json.dumps([whole, flowing, completed, completing])


async def test_redacted_outputs(tmp_path: Path, call: Call) -> None:  # S-10, G-38
    async with FakeUpstream() as up, serving(redacts(up, tmp_path)) as proxy:
        up.script(*answers("a vio", "let umbr", "ella here"))
        shown = await call(proxy, *SPOKEN)
        assert [one["content"] for one in shown] == [REDACTED] * 4
        assert shown[1]["final"] == REDACTED
        up.script(
            Answer(json=chat_reply(f"a {CANARY} here")), *[Answer(frames=sse(*chat_chunks("a ", CANARY, " here")))] * 2
        )
        chats = await call(proxy, "whole", "streamed", "helper")
        assert [one["content"] for one in chats] == [REDACTED] * 3


async def test_a_guard_that_is_down(tmp_path: Path, call: Call) -> None:  # F-06, W-34
    async with FakeUpstream() as up, serving(is_down(up, tmp_path)) as proxy:
        shown = await call(proxy, *SPOKEN, "embedded", "moderated", "helper", "parsed")
        assert {(one["error"], one["status_code"], one["code"]) for one in shown} == {
            ("InternalServerError", 503, "guardrail_unavailable")
        }


async def test_errors_of_the_model_server_before_and_after_the_first_byte(tmp_path: Path, call: Call) -> None:
    # W-05, W-06, E-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*[Answer(status=429, json=BUSY)] * 7)
        shown = await call(proxy, *SPOKEN, "embedded", "parsed", "helper")
        assert {(one["error"], one["code"]) for one in shown} == {("RateLimitError", "rate_limit_exceeded")}
        events = frames(stream(*text_events([LONG, LONG, LONG])))
        up.script(Answer(frames=events, headers=SSE, abort_at=6), Answer(frames=legacy(LONG, LONG), abort_at=2))
        flowing, completing = await call(proxy, *STREAMS)
        assert (flowing["last"], flowing["code"]) == ("error", "upstream_error")  # this SDK yields it as an event
        assert (completing["error"], completing["code"]) == ("APIError", "upstream_error")
