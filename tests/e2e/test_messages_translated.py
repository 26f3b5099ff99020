"""`/v1/messages` in front of a model that speaks chat completions: judged in the form that is sent (S-11c)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fake_messages import accumulate, ask, events_of, message_body, text_block, tool_block
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.e2e.serving import CANARY, guarded, policy, serving

WINDOW = {"window_chars": 12, "overlap_chars": 20}
REDACT = policy(
    {"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW}
)


def calls(arguments: str) -> list[dict[str, Any]]:
    return [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": arguments}}]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_is_asked_for_and_answered_in_translation(tmp_path: Path, stream: bool) -> None:  # W-31
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await ask(proxy, system="be kind", stream=stream)
        message = accumulate(reply) if stream else reply.json()
        assert message["content"] == [text_block("Hello there.")]
        assert (message["type"], message["stop_reason"], message["model"]) == ("message", "end_turn", "fake-model")
        assert message["usage"]["input_tokens"] == 7
        sent = up.received[0]
        assert sent.path == "/v1/chat/completions"
        assert sent.json["messages"] == [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hello"},
        ]
        record = (await proxy.records())[0]
        assert (record["route"], record["model_served"]) == ("/v1/messages", "fake-model")
        assert record["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_output_is_a_refusal(tmp_path: Path, stream: bool) -> None:  # wire §5.1, §5.2
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(
            Answer(frames=sse(*chat_chunks("a violet", " umbrella"))) if stream else Answer(json=chat_reply(CANARY))
        )
        reply = await ask(proxy, stream=stream)
        message = accumulate(reply) if stream else reply.json()
        assert (reply.status_code, message["stop_reason"]) == (200, "refusal")
        assert "violet" not in reply.text


@pytest.mark.parametrize("stream", [False, True])
async def test_redaction_works_on_the_translated_form(tmp_path: Path, stream: bool) -> None:  # G-38, M-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        delta = {"content": f"my {CANARY}", "tool_calls": [{"index": 0, **calls(f'{{"a": "{CANARY}"}}')[0]}]}
        chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
        whole = chat_reply(message={"role": "assistant", **delta}, finish_reason="tool_calls")
        up.script(Answer(frames=sse(chunk)) if stream else Answer(json=whole))
        reply = await ask(proxy, f"a {CANARY}", stream=stream)
        message = accumulate(reply) if stream else reply.json()
        assert message["content"][0]["text"] == "my [REDACTED:canary]"
        assert message["content"][1]["input"] == {"a": "[REDACTED:canary]"}
        assert message["stop_reason"] == "tool_use"
        assert up.received[0].json["messages"] == [{"role": "user", "content": "a [REDACTED:canary]"}]


async def test_a_tool_conversation_reaches_the_model_whole(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        messages = [
            *message_body("weather?")["messages"],
            {"role": "assistant", "content": [tool_block({"city": "Oslo"})]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}]},
        ]
        await ask(proxy, messages=messages, tools=[{"name": "look_up", "input_schema": {"type": "object"}}])
        sent = up.received[0].json
        assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
        assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'
        assert sent["messages"][2] == {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"}


async def test_what_the_model_cannot_take_is_a_400_of_their_form(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await ask(proxy, tools=[{"type": "web_search_20250305", "name": "web_search"}])
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
        assert up.received == []


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_error_has_their_form(tmp_path: Path, stream: bool) -> None:  # E-01
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(status=429, json={"error": {"message": "slow down", "type": "requests", "code": "limit"}}))
        reply = await ask(proxy, stream=stream)
        assert (reply.status_code, reply.json()["error"]["type"]) == (429, "rate_limit_error")


@pytest.mark.parametrize("answer", [Answer(json={"a": 1}), Answer(json=chat_reply(message={"tool_calls": calls("{")}))])
async def test_a_reply_that_cannot_be_translated_is_a_502(tmp_path: Path, answer: Answer) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies={})) as proxy:
        up.script(answer)
        reply = await ask(proxy)
        assert (reply.status_code, reply.json()["error"]["type"]) == (502, "api_error")


async def test_an_upstream_that_dies_mid_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:  # S-23
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("All is well here, and more. ", "really it is")), abort_at=2))
        reply = await ask(proxy, stream=True)
        assert events_of(reply)[-1][0] == "error"
        assert "message_stop" not in reply.text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_in_the_old_form_is_judged_and_handed_on(tmp_path: Path, stream: bool) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for said, stop in (("Oslo", "tool_use"), (CANARY, "refusal")):
            called = {"function_call": {"name": "look_up", "arguments": f'{{"city": "{said}"}}'}}
            chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": called, "finish_reason": None}]}
            end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "function_call"}
            last = {"id": "c", "choices": [end]}
            whole = chat_reply(message={"role": "assistant", "content": None, **called}, finish_reason="function_call")
            up.script(Answer(frames=sse(chunk, last)) if stream else Answer(json=whole))
            reply = await ask(proxy, stream=stream)
            message = accumulate(reply) if stream else reply.json()
            assert message["stop_reason"] == stop
            assert ("violet" in reply.text, [one.get("input") for one in message["content"]]) == (
                False,
                [{"city": said}] if stop == "tool_use" else [None],
            )


async def test_a_stream_that_the_model_server_cuts_ends_with_an_error(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("Hello", " there, "))[:2]))
        reply = await ask(proxy, stream=True)
        assert events_of(reply)[-1][0] == "error"
        (record,) = await proxy.records()
        assert (record["outcome"], record["client"]["terminator"]) == ("upstream_error", "error")


@pytest.mark.parametrize("secret", [CANARY, "hello"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_number_beyond_64_bits_reaches_the_caller(  # S-11c, G-37
    tmp_path: Path, stream: bool, secret: str
) -> None:
    number = "123456789012345678901234567890"
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        delta = {"tool_calls": [{"index": 0, **calls(f'{{"a": "{secret}", "n": {number}, "f": 1.10}}')[0]}]}
        chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
        whole = chat_reply(message={"role": "assistant", "content": None, **delta}, finish_reason="tool_calls")
        up.script(Answer(frames=sse(chunk)) if stream else Answer(json=whole))
        reply = await ask(proxy, stream=stream)
        said = reply.text.replace("\\", "")
        assert f'"n":{number},"f":1.10' in said
        assert CANARY not in said


async def test_a_number_beyond_64_bits_in_a_request_is_refused(tmp_path: Path) -> None:  # W-21
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        messages = [{"role": "assistant", "content": [tool_block({"n": 10**30})]}]
        body = json.dumps({**message_body("hi"), "messages": messages})
        reply = await proxy.client.post("/v1/messages", content=body, headers={"content-type": "application/json"})
        assert (reply.status_code, up.received) == (400, [])
        assert "64 bits" in reply.text


@pytest.mark.parametrize("stream", [False, True])
async def test_arguments_that_are_too_deep_are_an_answer_that_cannot_be_read(tmp_path: Path, stream: bool) -> None:
    deep = f'{{"a": {"[" * 260}1{"]" * 260}}}'
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        delta = {"tool_calls": [{"index": 0, **calls(deep)[0]}]}
        chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
        whole = chat_reply(message={"role": "assistant", "content": None, "tool_calls": calls(deep)})
        up.script(Answer(frames=sse(chunk)) if stream else Answer(json=whole))
        reply = await ask(proxy, stream=stream)
        assert reply.status_code == 502
        assert "cannot be put into the form" in reply.text or "cannot read" in reply.text
