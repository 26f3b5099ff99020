"""Streamed replies over real sockets (wire §5.2, §6; guarding §7, §12)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from supervisors.testing import Sleeps
from supervisors.types import Supervisor, unsafe
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.e2e.serving import (
    CANARY,
    BreaksLater,
    chat_body,
    content_of,
    frames_of,
    guarded,
    hang_up,
    policy,
    serving,
    tree,
)
from tests.timing import PATIENCE_S


async def test_an_allowed_reply_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-07, W-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = orjson.dumps(chat_reply("fine", vendor_field={"a": None}))
        up.script(Answer(body=body, headers={"content-type": "application/json"}))
        reply = await proxy.chat(seed=7, logit_bias={"1": 2}, future_field={"x": [1, 1.0]})
        assert reply.content == body
        sent = up.received[0].json
        assert sent["future_field"] == {"x": [1, 1.0]}
        assert sent["seed"] == 7
        assert reply.headers["x-guardrail-decision"] == "pass"
        assert reply.headers["x-guardrail-verdict"] == "safe"
        assert reply.headers["x-guardrail-applied"] == "words"


async def test_a_safe_stream_is_the_upstreams_bytes(tmp_path: Path) -> None:  # S-11, W-03
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        frames = sse(*chat_chunks("Hello", " there", ", all", " is", " well.", usage=True))
        up.script(Answer(frames=frames, split=7, headers={"content-type": "text/event-stream"}))
        reply = await proxy.chat(stream=True)
        assert reply.content == b"".join(frames)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "content-length" not in reply.headers


async def test_a_blocked_stream_ends_with_notice_finish_and_done(tmp_path: Path) -> None:  # wire §5.2, S-08, S-19
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        texts = ["All is well. ", "Really it is. ", "Take a violet", " umbrella now"]
        up.script(Answer(frames=sse(*chat_chunks(*texts))))
        reply = await proxy.chat(stream=True)
        frames = frames_of(reply)
        assert reply.status_code == 200
        assert frames[-1] == "[DONE]"
        assert frames[-2]["choices"][0]["finish_reason"] == "content_filter"
        assert frames[-3]["choices"][0]["delta"]["refusal"]
        assert content_of(reply).startswith("All is well. ")
        assert "violet" not in reply.text
        record = (await proxy.records())[0]
        assert record["outcome"] == "blocked_output"
        assert record["client"]["terminator"] == "done"


async def test_sentences_arrive_while_the_rest_is_made_behind_the_preset_tokens(tmp_path: Path) -> None:
    output = {"forced": ["keys"], "on_unsafe": "redact", "stream": {"mode": "sentence"}}
    keys = {"keys": {"use": "rules", "presets": ["tokens"]}}
    sentences = [f"The sea is {number} metres deep here and nobody minds. " for number in range(12)]
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors=keys, policies=policy(output=output))) as proxy,
    ):
        up.script(Answer(frames=sse(*chat_chunks(*sentences)), hold_at=10))
        asked = chat_body(stream=True)
        async with (
            asyncio.timeout(PATIENCE_S),
            proxy.client.stream("POST", "/v1/chat/completions", json=asked) as reply,
        ):
            lines = reply.aiter_lines()
            while "metres deep" not in await anext(lines):
                pass
            up.release()
            rest = [line async for line in lines]
    assert "data: [DONE]" in rest


async def test_a_supervisor_that_breaks_mid_stream_ends_it_with_an_error_frame(tmp_path: Path) -> None:  # W-27, W-06
    output = {"forced": ["words"], "stream": {"window_chars": 5}}
    config: dict[str, Any] = {
        "supervisors": {"words": BreaksLater(CANARY, capability="windowed")},
        "policies": policy(output=output),
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **config)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("first part ", "more words ", "second part ", "third"))))
        reply = await proxy.chat(stream=True)
        assert reply.status_code == 200
        assert frames_of(reply)[-1]["error"]["code"] == "guardrail_unavailable"
        assert "[DONE]" not in reply.text
        assert "second" not in reply.text


async def test_parallel_input_holds_every_byte_and_cancels_the_model_on_a_block(tmp_path: Path) -> None:  # §5, O-10
    judge: Mapping[str, Supervisor] = {"words": Sleeps(1.0, unsafe("canary"))}
    rules = policy({"forced": ["words"], "mode": "parallel"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judge, policies=rules)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=1))
        reply = await proxy.chat(stream=True)
        assert reply.status_code == 400
        received = await up.wait_finished(0)
        assert received.closed_at is not None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failing_model_does_not_answer_before_the_input_decision(tmp_path: Path, stream: bool) -> None:  # §5
    judge: Mapping[str, Supervisor] = {"words": Sleeps(0.2, unsafe("canary"))}
    rules = policy({"forced": ["words"], "mode": "parallel"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judge, policies=rules)) as proxy:
        up.script(Answer(status=422, json={"error": {"message": "no", "type": "invalid_request_error"}}))
        reply = await proxy.chat(stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_filter")


@pytest.mark.parametrize("stream", [False, True])
async def test_parallel_input_that_passes_changes_nothing(tmp_path: Path, stream: bool) -> None:
    judge: Mapping[str, Supervisor] = {"words": Sleeps(0.05)}
    rules = policy({"forced": ["words"], "mode": "parallel"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judge, policies=rules)) as proxy:
        reply = await proxy.chat(stream=stream)
        assert reply.status_code == 200
        assert reply.headers["x-guardrail-applied"] == "words"


async def test_observe_forwards_at_once_and_records_the_verdict(tmp_path: Path) -> None:  # S-15
    rules = policy(output={"forced": ["words"], "stream": {"mode": "observe"}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        frames = sse(*chat_chunks("a ", CANARY))
        up.script(Answer(frames=frames))
        reply = await proxy.chat(stream=True)
        assert reply.content == b"".join(frames)
        verdicts = (await proxy.records())[0]["verdicts"]
        assert [(row["label"], row["mode"]) for row in verdicts] == [("unsafe", "shadow")]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_error_keeps_its_status_and_says_no_address(tmp_path: Path, stream: bool) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        message = f"no such model at {up.url} for org-secret"
        up.script(Answer(status=404, json={"error": {"message": message, "type": "not_found_error", "code": 404}}))
        reply = await proxy.chat(stream=stream)
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "not_found_error"
        assert up.url not in reply.text


async def test_an_upstream_that_is_down_is_a_502(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        address = up.url
    async with serving(tree(address, tmp_path)) as proxy:
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        assert (await proxy.records())[0]["outcome"] == "upstream_error"


async def test_an_upstream_that_dies_mid_stream_ends_it_with_an_error_frame(tmp_path: Path) -> None:  # S-23
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("All is well here, ", "really", " it is")), abort_at=2))
        reply = await proxy.chat(stream=True)
        assert frames_of(reply)[-1]["error"]["code"] == "upstream_error"
        assert "[DONE]" not in reply.text


async def test_a_disconnect_closes_the_upstream_and_is_recorded(tmp_path: Path) -> None:  # O-10, R-03
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for number, stream in enumerate((False, True)):
            up.script(Answer(frames=sse(*chat_chunks("one")), hold_at=-1))
            await hang_up(proxy.chat(stream=stream), up.wait_received(number + 1))
            received = await up.wait_finished(number)
            assert received.closed_at is not None
        for record in await proxy.wait_records(2):
            assert record["outcome"] == "cancelled"
            assert record["client"]["cancelled_phase"] == "before_first_token"


async def test_fifty_streams_do_not_mix(tmp_path: Path) -> None:  # S-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:

        async def one(number: int) -> None:
            reply = await proxy.chat(f"mark-{number:04d}", stream=True)
            record = reply.headers["x-guardrail-id"]
            seen.setdefault(record, number)

        seen: dict[str, int] = {}
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(one(number))
        assert len(seen) == 50


@pytest.mark.parametrize("policies", [{}, None])
async def test_a_stream_without_a_single_event_is_a_502(tmp_path: Path, policies: dict[str, Any] | None) -> None:
    parts = {} if policies is None else {"policies": policies}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        up.script(Answer(frames=[], headers={"content-type": "text/event-stream"}))
        reply = await proxy.chat(stream=True)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        (record,) = await proxy.records()
        assert (record["outcome"], record["upstream_call"]["error_kind"]) == ("upstream_error", "protocol")


async def test_a_shadow_supervisor_judges_a_stream_that_passes_byte_for_byte(tmp_path: Path) -> None:  # S-15, M-01
    rules = policy(output={"forced": ["words"], "mode": "shadow"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        frames = sse(*chat_chunks("a violet", " umbrella", usage=True))
        up.script(Answer(frames=frames))
        assert (await proxy.chat(stream=True)).content == b"".join(frames)
        record = (await proxy.wait_records())[0]
        assert [(row["label"], row["mode"]) for row in record["verdicts"]] == [("unsafe", "shadow")]
        assert record["client"]["terminator"] == "done"
