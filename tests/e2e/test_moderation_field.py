"""The `moderation` field on chat and Responses requests over real sockets (wire §10; W-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.cli import main
from supervisors.testing import Always, Finds, Sleeps
from supervisors.types import Cause, Supervisor, unknown
from tests.e2e.fake_responses import message, response, streamed
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.e2e.serving import CANARY, Serving, content_of, frames_of, guarded, policy, serving

ASK = {"model": "omni-moderation-latest"}
LOGS = policy({"forced": ["words"], "on_unsafe": "log"}, {"forced": ["words"], "on_unsafe": "log"})


def ask(**modes: str) -> dict[str, Any]:
    return {**ASK, "policy": {stage: {"mode": mode} for stage, mode in modes.items()}}


async def test_the_field_is_answered_and_never_sent_on(tmp_path: Path) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=LOGS)) as proxy:
        two = chat_reply("fine")
        bad = {"index": 1, "message": {"role": "assistant", "content": CANARY}, "finish_reason": "stop"}
        two["choices"].append(bad)
        up.script(Answer(json=two))
        reply = await proxy.chat("hi", n=2, moderation=ASK)
        member = reply.json()["moderation"]
        assert [row["flagged"] for row in member["input"]["results"]] == [False]
        assert [row["flagged"] for row in member["output"]["results"]] == [False, True]
        assert member["output"]["results"][1]["category_scores"]["canary"] == 1.0
        assert "moderation" not in up.received[0].json
        assert reply.json()["choices"][1]["message"]["content"] == CANARY
        assert "moderation" not in (await proxy.chat("hi")).json()


@pytest.mark.parametrize("policies", [LOGS, {"default": {"input": {"forced": ["words"], "on_unsafe": "log"}}}])
async def test_a_stream_gets_one_chunk_before_the_usage(tmp_path: Path, policies: dict[str, Any]) -> None:  # wire §10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=policies)) as proxy:
        frames = sse(*chat_chunks("one", " two", usage=True))
        up.script(Answer(frames=frames, split=9))
        reply = await proxy.chat(CANARY, stream=True, moderation=ASK)
        *_, finish, moderation, usage, done = frames_of(reply)
        assert finish["choices"][0]["finish_reason"] == "stop"
        assert (moderation["choices"], moderation["id"]) == ([], "chatcmpl-fake")
        assert moderation["moderation"]["input"]["results"][0]["flagged"] is True
        output = moderation["moderation"]["output"]
        judged = "output" in policies["default"]
        assert (output["results"][0]["flagged"] is False) if judged else (output["code"] == "skipped")
        assert (usage["usage"]["prompt_tokens"], done) == (7, "[DONE]")
        assert content_of(reply) == "one two"


@pytest.mark.parametrize("stream", [False, True])
async def test_block_mode_tightens_a_policy_that_only_logs(tmp_path: Path, stream: bool) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=LOGS)) as proxy:
        assert (await proxy.chat(CANARY, stream=stream, moderation=ask(output="block"))).status_code == 200
        blocked = await proxy.chat(CANARY, stream=stream, moderation=ask(input="block"))
        assert (blocked.status_code, blocked.json()["error"]["code"]) == (400, "content_filter")
        up.script(Answer(frames=sse(*chat_chunks(CANARY))) if stream else Answer(json=chat_reply(CANARY)))
        reply = await proxy.chat("hi", stream=stream, moderation=ask(output="block"))
        assert CANARY not in reply.text
        assert "content_filter" in reply.text
        assert '"flagged":true' in reply.text
        assert [record["tightened"] for record in await proxy.records(3)] == [["output"], ["input"], ["output"]]


async def test_block_mode_also_wakes_shadow_and_observe(tmp_path: Path) -> None:  # W-15
    rules = policy(
        {"forced": ["words"], "mode": "shadow"},
        {"forced": ["words"], "stream": {"mode": "observe"}, "on_unsafe": "log"},
    )
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        assert (await proxy.chat(CANARY, moderation=ask(input="block"))).status_code == 400
        up.script(Answer(frames=sse(*chat_chunks(CANARY))))
        assert CANARY not in (await proxy.chat("hi", stream=True, moderation=ask(output="block"))).text
        up.script(Answer(frames=sse(*chat_chunks(CANARY))))
        assert CANARY in (await proxy.chat("hi", stream=True, moderation=ask(output="score"))).text
        await proxy.wait_records(3)
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0


async def test_score_mode_never_loosens_and_a_refusal_says_skipped(tmp_path: Path) -> None:  # W-15
    rules = policy({"forced": ["words"]}, {"forced": ["words"]}, on_block={"input": "refusal"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        body = (await proxy.chat(CANARY, moderation=ask(input="score"))).json()
        assert body["choices"][0]["finish_reason"] == "content_filter"
        assert body["moderation"]["input"]["results"][0]["flagged"] is True
        assert body["moderation"]["output"]["code"] == "skipped"
        frames = frames_of(await proxy.chat(CANARY, stream=True, moderation=ask(input="score")))
        assert frames[-2]["moderation"]["output"]["code"] == "skipped"
        assert up.received == []


async def test_an_unknown_verdict_is_an_error_member(tmp_path: Path) -> None:  # W-15
    vague: Mapping[str, Supervisor] = {"words": Always(unknown(Cause.TIMEOUT)), "good": Finds(CANARY)}
    rules = policy({"forced": ["words", "good"], "on_unknown": "log"}, {"forced": ["good"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=vague, policies=rules)) as proxy:
        member = (await proxy.chat("hi", moderation=ASK)).json()["moderation"]
        assert (member["input"]["type"], member["input"]["code"]) == ("error", "timeout")
        assert member["output"]["type"] == "moderation_results"


async def test_only_the_supervisors_of_the_alias_are_reported(tmp_path: Path) -> None:  # W-15
    parts: dict[str, Any] = {
        "supervisors": {"words": Finds(CANARY), "names": Finds("Ada", "name")},
        "policies": {
            "a": {"input": {"forced": ["words"], "on_unsafe": "log"}},
            "b": {"input": {"forced": ["names"], "on_unsafe": "log"}},
            "c": {"attach": {"models": ["other"]}, "input": {"forced": ["names"]}},
        },
        "models": {"gpt": {"upstream": "main"}, "other": {"upstream": "main"}},
        "moderations": {"aliases": {"x": "a", "y": "b", "z": "c"}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        members = [(await proxy.chat("Ada", moderation={"model": one})).json()["moderation"]["input"] for one in "xyz"]
        assert [member.get("code") for member in members] == [None, None, "skipped"]
        assert [member["results"][0]["flagged"] for member in members[:2]] == [False, True]
        refused = await proxy.chat("Ada", moderation=ASK)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "moderation.model")


async def test_forward_leaves_the_field_to_the_model_server(tmp_path: Path) -> None:  # W-15
    parts: dict[str, Any] = {"moderation_field": "forward"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        theirs = {"input": {"type": "error", "code": "x", "message": "y"}, "output": None}
        extra = chat_chunks("one", usage=True)
        extra.insert(-1, extra[-1] | {"usage": None, "moderation": theirs})
        frames = sse(*extra)
        up.script(Answer(json=chat_reply("fine") | {"moderation": theirs}), Answer(frames=frames))
        assert (await proxy.chat("hi", moderation={"model": "theirs"})).json()["moderation"] == theirs
        assert up.received[0].json["moderation"] == {"model": "theirs"}
        assert (await proxy.chat("hi", stream=True, moderation=ASK)).content == b"".join(frames)


async def test_refuse_is_a_400(tmp_path: Path) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, moderation_field="refuse")) as proxy:
        refused = await proxy.chat("hi", moderation=ASK)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported_parameter")
        assert up.received == []


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/messages"])
async def test_a_route_that_cannot_answer_the_field_refuses_it(tmp_path: Path, route: str) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = {"model": "gpt", "max_tokens": 1, "moderation": {"model": "omni-moderation-latest"}}
        reply = await proxy.client.post(
            route, json=body | {"prompt": "hi", "messages": [{"role": "user", "content": "hi"}]}
        )
        assert reply.status_code == 400
        assert "moderation" in reply.text
        assert up.received == []


async def test_parallel_input_is_told_even_if_the_model_is_faster(tmp_path: Path) -> None:  # W-15
    slow: Mapping[str, Supervisor] = {"words": Sleeps(0.3)}
    rules = policy({"forced": ["words"], "mode": "parallel", "on_unsafe": "log"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        frames = frames_of(await proxy.chat("hi", stream=True, moderation=ASK))
        assert frames[-2]["moderation"]["input"]["type"] == "moderation_results"
        whole = (await proxy.chat("hi", moderation=ASK)).json()["moderation"]
        assert whole["input"]["type"] == "moderation_results"


async def ask_response(proxy: Serving, text: str = "hi", **fields: Any) -> httpx.Response:
    body = {"model": "gpt", "input": text, "moderation": ASK, **fields}
    return await proxy.client.post("/v1/responses", json=body)


def ends(reply: httpx.Response) -> tuple[str, dict[str, Any]]:
    """Return name and member `moderation` of the last event, after checking that no other event has one."""
    events = [frame for frame in frames_of(reply) if frame != "[DONE]"]
    assert not any("moderation" in event.get("response", {}) for event in events[:-1])
    return events[-1]["type"], events[-1]["response"]["moderation"]


async def test_a_response_carries_one_result_a_stage(tmp_path: Path) -> None:  # W-15, wire §10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=LOGS)) as proxy:
        up.script(Answer(json=response(message(f"a {CANARY}"))), streamed("a ", CANARY))
        whole = (await ask_response(proxy)).json()
        kind, shown = ends(await ask_response(proxy, stream=True))
        assert kind == "response.completed"
        for member in (whole["moderation"], shown):
            assert (member["input"]["type"], member["input"]["flagged"]) == ("moderation_result", False)
            assert (member["output"]["type"], member["output"]["flagged"]) == ("moderation_result", True)
            assert member["output"]["category_scores"]["canary"] == 1.0
        assert whole["output"][0]["content"][0]["text"] == f"a {CANARY}"
        assert all("moderation" not in received.json for received in up.received)
        up.script(Answer(json=response(message("fine"))))
        plain = await proxy.client.post("/v1/responses", json={"model": "gpt", "input": "hi"})
        assert "moderation" not in plain.json()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_response_says_why(tmp_path: Path, stream: bool) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=LOGS)) as proxy:
        up.script(streamed("a ", CANARY) if stream else Answer(json=response(message(CANARY))))
        asked = {**ASK, "policy": {"output": {"mode": "block"}}}
        reply = await ask_response(proxy, stream=stream, moderation=asked)
        body = {"response": reply.json()} if not stream else {"response": frames_of(reply)[-1]["response"]}
        assert body["response"]["status"] == "incomplete"
        assert body["response"]["moderation"]["output"]["flagged"] is True
        assert CANARY not in reply.text
        blocked = await ask_response(proxy, CANARY, stream=stream, moderation=ask(input="block"))
        assert (blocked.status_code, blocked.json()["error"]["code"]) == (400, "content_filter")
        assert [record["tightened"] for record in await proxy.records(2)] == [["input"], ["output"]]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refused_response_says_that_its_output_was_skipped(tmp_path: Path, stream: bool) -> None:  # W-15
    rules = policy({"forced": ["words"]}, {"forced": ["words"]}, on_block={"input": "refusal"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        reply = await ask_response(proxy, CANARY, stream=stream)
        member = ends(reply)[1] if stream else reply.json()["moderation"]
        assert member["input"]["flagged"] is True
        assert (member["output"]["type"], member["output"]["code"]) == ("error", "skipped")
        assert up.received == []


async def test_forward_and_refuse_hold_on_responses(tmp_path: Path) -> None:  # W-15
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, moderation_field="forward")) as proxy:
        theirs = response(message("fine"), moderation={"input": None, "output": None})
        up.script(Answer(json=theirs))
        assert (await ask_response(proxy, moderation={"model": "theirs"})).json() == theirs
        assert up.received[0].json["moderation"] == {"model": "theirs"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, moderation_field="refuse")) as proxy:
        assert (await ask_response(proxy)).json()["error"]["param"] == "moderation"
