"""LangChain's `ChatOpenAI`, in an environment of its own, against a running proxy (wire §13, M-18, S-20)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.situations import BUSY, LONG, NOTICE, REDACTED, WINDOW, blocks_input, is_down, redacts, use
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_responses import message, response, streamed
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, guarded, policy, serving

SCRIPT = Path(__file__).with_name("use_langchain.py")
ROUTES = ("invoke", "stream", "astream", "switched", "switched_stream")
STREAMS = ("stream", "astream", "switched_stream")

pytestmark = [pytest.mark.clients, pytest.mark.slow]


@pytest.fixture(scope="session")
def sdk_python(client_python: Callable[[str, str], Path]) -> Path:
    """Return the Python of an environment that has the library."""
    return client_python("langchain", "langchain-openai>=1.7,<2")


def answers(*texts: str, **options: Any) -> Sequence[Answer]:
    """Return one answer a route, in the order of `ROUTES`."""
    whole = "".join(texts)
    chat = Answer(frames=sse(*chat_chunks(*texts)), **options)
    return (
        Answer(json=chat_reply(whole)),
        chat,
        chat,
        Answer(json=response(message(whole))),
        streamed(*texts, **options),
    )


async def test_replies_that_pass(tmp_path: Path, sdk_python: Path) -> None:  # M-18, W-04
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers("All ", "is well."))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert [one["content"] for one in shown] == ["All is well."] * len(ROUTES)
        assert [one["finish"] for one in shown] == ["stop", "stop", "stop", "completed", "completed"]
        assert [received.path for received in up.received] == ["/v1/chat/completions"] * 3 + ["/v1/responses"] * 2
        assert {record["route"] for record in await proxy.records(5)} == {"/v1/chat/completions", "/v1/responses"}


async def test_blocked_inputs(tmp_path: Path, sdk_python: Path) -> None:  # M-18, E-02
    async with FakeUpstream() as up, serving(blocks_input(up, tmp_path)) as proxy:
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert {(one.get("status_code"), one.get("code")) for one in shown} == {(400, "content_filter")}
        assert up.received == []


async def test_blocked_outputs(tmp_path: Path, sdk_python: Path) -> None:  # S-08, W-23
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers(LONG, "a ", CANARY, " here"))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert all(NOTICE in json.dumps(one) for one in shown), shown
        assert [one["finish"] for one in shown[:3]] == ["content_filter"] * 3
        assert "violet" not in json.dumps(shown)


async def test_redacted_outputs(tmp_path: Path, sdk_python: Path) -> None:  # S-10
    async with FakeUpstream() as up, serving(redacts(up, tmp_path)) as proxy:
        up.script(*answers("a vio", "let umbr", "ella here"))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert [one["content"] for one in shown] == [REDACTED] * len(ROUTES)


async def test_a_guard_that_is_down(tmp_path: Path, sdk_python: Path) -> None:  # F-06
    async with FakeUpstream() as up, serving(is_down(up, tmp_path)) as proxy:
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert {(one.get("status_code"), one.get("code")) for one in shown} == {(503, "guardrail_unavailable")}


async def test_errors_of_the_model_server_before_and_after_the_first_byte(
    tmp_path: Path, sdk_python: Path
) -> None:  # W-05, W-06, E-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*[Answer(status=429, json=BUSY)] * len(ROUTES))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *ROUTES)
        assert {(one.get("status_code"), one.get("code")) for one in shown} == {(429, "rate_limit_exceeded")}
        up.script(*[answers(LONG, LONG, LONG, abort_at=5)[ROUTES.index(name)] for name in STREAMS])
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *STREAMS)
        assert all("error" in one for one in shown), shown


@pytest.mark.parametrize(("heartbeat_s", "survives"), [(0.2, True), (15, False)])
async def test_a_hold_longer_than_the_clients_timer(
    tmp_path: Path, sdk_python: Path, heartbeat_s: float, survives: bool
) -> None:  # S-20, W-28; the client's own setting shortens its 120 s to one
    rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "heartbeat_s": heartbeat_s}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        *texts, finish, done = sse(*chat_chunks(LONG, LONG, LONG)[1:])
        up.script(Answer(frames=[*texts, finish + done], frame_delay_s=1.5))
        (shown,) = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", "astream")
        assert (shown.get("content") == LONG * 3) is survives, shown


async def test_tool_calls_arrive_judged_and_a_bad_one_does_not(tmp_path: Path, sdk_python: Path) -> None:  # W-11, S-16
    def called(arguments: str) -> dict[str, Any]:
        return {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": arguments}}

    def reply(arguments: str) -> Answer:
        made = {"role": "assistant", "content": None, "tool_calls": [called(arguments)]}
        return Answer(json=chat_reply(message=made, finish_reason="tool_calls"))

    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        first, *rest = chat_chunks("", finish="tool_calls")
        pieces = [
            {"index": 0, **called("")},
            *[{"index": 0, "function": {"arguments": a}} for a in ('{"city":', '"Oslo"}')],
        ]
        chunks = [{**first, "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
        up.script(
            reply('{"city": "Oslo"}'), Answer(frames=sse(first, *chunks, rest[-1])), reply(f'{{"city": "{CANARY}"}}')
        )
        good, flowing, bad = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", "tools", "stream_tools", "tools")
        assert good["calls"] == flowing["calls"] == [{"name": "look_up", "args": {"city": "Oslo"}}]
        assert (bad["calls"], bad["finish"], bad["content"]) == ([], "content_filter", NOTICE)
