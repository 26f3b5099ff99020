"""`/v1/messages` whole, over real sockets, against a server that speaks it natively (wire §5.1, §9; guarding M-01)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from supervisors.rules import Rules
from supervisors.secret import Secret
from supervisors.testing import Fails
from supervisors.types import Supervisor
from tests.e2e.fake_messages import (
    ROUTE,
    anthropic_tree,
    ask,
    block_events,
    message_body,
    message_events,
    message_reply,
    text_block,
    text_events,
    thinking_block,
    tool_block,
)
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, policy, serving

RULES: Mapping[str, Any] = {
    "supervisors": {"words": {"use": "rules", "keywords": [CANARY]}},
    "policies": policy({"forced": ["words"]}, {"forced": ["words"]}),
}
"""The real text rules: unlike the fake they join parts and name the scope of what they find."""
REDACT = policy({"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["words"], "on_unsafe": "redact"})


async def test_an_allowed_message_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-07, W-08, W-31
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        body = orjson.dumps(message_reply("fine", tool_block({"city": "Oslo"}), vendor_field={"a": None}))
        up.script(Answer(body=body, headers={"content-type": "application/json"}))
        reply = await ask(proxy, system="be kind", top_k=5, future_field={"x": [1, 1.0]})
        assert reply.content == body
        assert reply.headers["x-guardrail-applied"] == "words"
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
        sent = up.received[0]
        assert (sent.path, sent.header("anthropic-version")) == ("/v1/messages", "2023-06-01")
        assert sent.json == message_body(system="be kind", top_k=5, future_field={"x": [1, 1.0]})
        record = (await proxy.records())[0]
        assert (record["outcome"], record["model_served"]) == ("answered", "fake-model")
        assert record["usage"] == {"input_tokens": 7, "output_tokens": 3}


OWN = Secret("env:OWN_KEY", "upstream-key")


async def test_the_callers_key_stays_here_and_the_upstreams_goes_out(tmp_path: Path) -> None:  # W-17, W-31
    upstreams: dict[str, dict[str, Any]] = {"main": {"vendor": "anthropic", "headers": {"x-api-key": OWN}}}
    keys = {"app": {"sha256": "7b6d0a1e3f" + "0" * 54}}
    async with FakeUpstream() as up:
        upstreams["main"]["base_url"] = up.url
        async with serving(anthropic_tree(up, tmp_path, upstreams=upstreams)) as proxy:
            up.script(Answer(json=message_reply("fine")))
            await proxy.client.post(ROUTE, json=message_body(), headers={"x-api-key": "caller-key"})
            assert up.received[0].header("x-api-key") == "upstream-key"
        async with serving(anthropic_tree(up, tmp_path, upstreams=upstreams, keys=keys)) as proxy:
            refused = await proxy.client.post(ROUTE, json=message_body(), headers={"x-api-key": "caller-key"})
            assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
            assert refused.json()["request_id"] == refused.headers["request-id"]


PLACES: Mapping[str, dict[str, Any]] = {
    "system": {"system": CANARY},
    "system block": {"system": [text_block(CANARY)]},
    "first turn": {
        "messages": [
            {"role": "user", "content": CANARY},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "y"},
        ]
    },
    "split over blocks": {"messages": [{"role": "user", "content": [text_block("violet"), text_block(" umbrella")]}]},
    "tool result": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text_block(CANARY)]}],
            }
        ]
    },
    "tool input": {"messages": [{"role": "assistant", "content": [tool_block({"a": {"b": CANARY}})]}]},
    "key of a tool input": {"messages": [{"role": "assistant", "content": [tool_block({CANARY: 1})]}]},
    "thinking": {"messages": [{"role": "assistant", "content": [thinking_block(CANARY)]}]},
    "document": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": CANARY}}
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("place", PLACES)
async def test_a_blocked_input_is_a_400_of_their_form_and_never_reaches_the_model(
    tmp_path: Path, place: str, stream: bool
) -> None:  # D-01, M-06, M-13, W-16
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **RULES)) as proxy:
        reply = await ask(proxy, stream=stream, **PLACES[place])
        assert reply.status_code == 400
        error = reply.json()
        assert error["type"] == "error"
        assert error["error"]["type"] == "invalid_request_error"
        assert error["error"]["details"] == {"error_code": "content_filter"}
        assert error["request_id"] == reply.headers["request-id"] == reply.headers["x-request-id"]
        assert reply.headers["x-should-retry"] == "false"
        assert CANARY not in reply.text
        assert up.received == []
        assert (await proxy.records())[0]["outcome"] == "blocked_input"


async def test_a_finding_in_a_tool_definition_is_logged_and_passes(tmp_path: Path) -> None:  # M-08
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **RULES)) as proxy:
        up.script(Answer(json=message_reply("fine")))
        tools = [{"name": "f", "description": CANARY, "input_schema": {"type": "object"}}]
        reply = await ask(proxy, tools=tools)
        assert reply.status_code == 200
        assert reply.headers["x-guardrail-decision"] == "flag"


@pytest.mark.parametrize(
    "block",
    [text_block(f"a {CANARY}"), tool_block({"a": CANARY}), tool_block({CANARY: "x"}), thinking_block(CANARY)],
    ids=["text", "tool input", "tool key", "thinking"],
)
async def test_a_blocked_output_is_a_200_refusal(tmp_path: Path, block: dict[str, Any]) -> None:  # wire §5.1, W-24
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        up.script(Answer(json=message_reply("fine", block, stop_reason="tool_use")))
        reply = await ask(proxy)
        message = reply.json()
        assert reply.status_code == 200
        assert (message["stop_reason"], message["stop_sequence"]) == ("refusal", None)
        assert message["stop_details"] == {"type": "refusal", "category": None, "explanation": None}
        assert [part["type"] for part in message["content"]] == ["text"]
        assert message["usage"] == {"input_tokens": 7, "output_tokens": 3}
        assert CANARY not in reply.text
        assert (await proxy.records())[0]["outcome"] == "blocked_output"


async def test_an_input_refusal_is_a_message_made_here(tmp_path: Path) -> None:  # wire §5.1
    rules = policy({"forced": ["words"]}, on_block={"input": "refusal", "message": "No."})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
        message = (await ask(proxy, CANARY)).json()
        assert message["content"] == [{"type": "text", "text": "No."}]
        assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "gpt")
        assert message["usage"] == {"input_tokens": 0, "output_tokens": 0}
        assert up.received == []


async def test_input_redaction_changes_what_the_model_receives(tmp_path: Path) -> None:  # G-38, M-03, M-07
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        up.script(Answer(json=message_reply("fine")))
        calls = {"role": "assistant", "content": [tool_block({"a": [f"my {CANARY}"], "n": 1})]}
        messages = [*message_body(f"my {CANARY}")["messages"], calls]
        await ask(proxy, system=[text_block(CANARY)], messages=messages)
        sent = up.received[0].json
        assert sent["system"] == [text_block("[REDACTED:canary]")]
        assert sent["messages"][0]["content"] == "my [REDACTED:canary]"
        assert sent["messages"][1]["content"][0]["input"] == {"a": ["my [REDACTED:canary]"], "n": 1}


@pytest.mark.parametrize("block", [thinking_block(CANARY), tool_block({CANARY: 1})], ids=["signed", "key"])
async def test_what_cannot_be_redacted_is_blocked(tmp_path: Path, block: dict[str, Any]) -> None:  # G-37, W-32
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        messages = [*message_body()["messages"], {"role": "assistant", "content": [block]}]
        assert (await ask(proxy, messages=messages)).status_code == 400
        assert up.received == []


async def test_output_redaction_masks_text_and_tool_input(tmp_path: Path) -> None:  # G-38, M-07
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        up.script(Answer(json=message_reply(f"a {CANARY}!", tool_block({"a": CANARY, "b": 2}))))
        message = (await ask(proxy)).json()
        assert message["content"][0]["text"] == "a [REDACTED:canary]!"
        assert message["content"][1]["input"] == {"a": "[REDACTED:canary]", "b": 2}
        assert message["stop_reason"] == "end_turn"


async def test_a_redaction_keeps_numbers_beyond_64_bits(tmp_path: Path) -> None:  # G-37
    number = "123456789012345678901234567890"
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        reply = json.dumps(message_reply(tool_block({"a": CANARY, "n": int(number)}), tool_block({"n": -int(number)})))
        up.script(Answer(body=reply.encode(), headers={"content-type": "application/json"}))
        said = (await ask(proxy)).text
        assert said.count(number) == 2
        assert CANARY not in said


async def test_a_hit_in_signed_thinking_strips_its_block(tmp_path: Path) -> None:  # W-32
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        kept = thinking_block("harmless")
        up.script(Answer(json=message_reply(thinking_block(CANARY), f"a {CANARY}", kept)))
        reply = await ask(proxy)
        assert reply.json()["content"] == [text_block("a [REDACTED:canary]"), kept]
        assert reply.headers["x-guardrail-decision"] == "redact"


async def test_on_signed_block_blocks_the_reply(tmp_path: Path) -> None:  # W-32
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact", "on_signed": "block"})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=message_reply(thinking_block(CANARY), "fine")))
        reply = await ask(proxy)
        assert reply.json()["stop_reason"] == "refusal"
        assert CANARY not in reply.text


async def test_redacted_thinking_passes_unless_the_policy_blocks_what_nobody_can_read(tmp_path: Path) -> None:  # G-05
    sealed = {
        "type": "redacted_thinking",
        "data": "grcO7n8aUDm+8H7CNH8GbtCPXcdRJEfjQEMAAmtuVFWUoGVoXWTEmAu41FRKhyGpmgGtIZ61nPahXvbx",
    }
    rules = policy(output={"forced": ["words"], "on_opaque": "block"})
    async with FakeUpstream() as up:
        up.script(Answer(json=message_reply(sealed, "fine")), Answer(json=message_reply(sealed, "fine")))
        async with serving(anthropic_tree(up, tmp_path)) as proxy:
            assert (await ask(proxy)).json()["content"][0] == sealed
            assert (await proxy.records())[0]["view"]["opaque"] == 1
        async with serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
            assert (await ask(proxy)).json()["stop_reason"] == "refusal"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("rule", "data"),
    [
        ({}, f"say {CANARY} please"),
        ({}, CANARY.replace(" ", "")),
        ({}, b64encode(f"say {CANARY} please".encode()).decode()),
        ({"on_opaque": "block"}, "no base64"),
    ],
)
async def test_text_in_an_encrypted_member_is_judged(
    tmp_path: Path, rule: Any, data: str, stream: bool
) -> None:  # G-01, G-05
    sealed = {"type": "redacted_thinking", "data": data}
    parts = {
        "policies": policy(output={"forced": ["words"], **rule}),
        "supervisors": {"words": Rules(keywords=(CANARY,))},
    }
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **parts)) as proxy:
        frames = message_events(block_events(0, sealed, ()), text_events(1, "fine"))
        streamed = Answer(frames=frames, headers={"content-type": "text/event-stream"})
        up.script(streamed if stream else Answer(json=message_reply(sealed, "fine")))
        reply = await ask(proxy, stream=stream)
        assert "refusal" in reply.text
        assert sealed["data"] not in reply.text
        assert (await proxy.records())[0]["outcome"] == "blocked_output"


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (404, "not_found_error", "not_found_error"),
        (413, "request_too_large", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "api_error", "api_error"),
        (529, "overloaded_error", "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_error_keeps_its_status_and_type(
    tmp_path: Path, status: int, kind: str, shown: str, stream: bool
) -> None:  # W-05, E-01
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        body = {"type": "error", "error": {"type": kind, "message": f"no luck at {up.url}"}, "request_id": "req_theirs"}
        up.script(Answer(status=status, json=body))
        reply = await ask(proxy, stream=stream)
        assert (reply.status_code, reply.json()["error"]["type"]) == (status, shown)
        assert reply.json()["request_id"] == reply.headers["request-id"] != "req_theirs"
        assert up.url not in reply.text


async def test_the_proxys_own_errors_have_their_form(tmp_path: Path) -> None:  # wire §4, E-01, W-16
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        cases: list[tuple[bytes, int, str, str]] = [
            (b"{", 400, "invalid_request_error", "invalid_json"),
            (b'{"model":"gpt","messages":[]}', 400, "invalid_request_error", "invalid_value"),
            (
                b'{"model":"gpt","messages":[{"role":"tool","content":"x"}]}',
                400,
                "invalid_request_error",
                "invalid_value",
            ),
            (b'{"model":"gpt","messages":[{"role":"user"}]}', 400, "invalid_request_error", "invalid_value"),
            (b'{"model":"nope","messages":[]}', 404, "not_found_error", "model_not_found"),
            (orjson.dumps(message_body(mcp_servers=[{}])), 400, "invalid_request_error", "unsupported_parameter"),
            (orjson.dumps(message_body(system={"a": 1})), 400, "invalid_request_error", "invalid_value"),
        ]
        for body, status, kind, code in cases:
            reply = await proxy.client.post(ROUTE, content=body, headers={"x-request-id": "mine-1"})
            error = reply.json()
            assert (reply.status_code, error["error"]["type"]) == (status, kind), body
            assert error["error"]["details"]["error_code"] == code
            assert error["request_id"] == reply.headers["request-id"] == "mine-1"
        wrong = await proxy.client.get(ROUTE)
        assert (wrong.status_code, wrong.json()["type"]) == (405, "error")
        assert wrong.headers["request-id"] == wrong.headers["x-request-id"]


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_broken_supervisor_is_overloaded_and_never_safe(tmp_path: Path, stage: str, stream: bool) -> None:
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}  # F-01, F-06
    rules = policy(**{"stage" if stage == "input" else "output": {"forced": ["words"]}})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, supervisors=broken, policies=rules)) as proxy:
        up.script(
            Answer(json=message_reply("fine"))
            if not stream
            else Answer(frames=[b'event: ping\ndata: {"type": "ping"}\n\n'])
        )
        reply = await ask(proxy, stream=stream)
        assert (reply.status_code, reply.json()["error"]["type"]) == (503, "overloaded_error")
        assert reply.json()["error"]["details"]["error_code"] == "guardrail_unavailable"
        assert "retry-after" in reply.headers


async def test_a_reply_of_another_shape_is_a_502(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        up.script(Answer(json={"choices": []}))
        reply = await ask(proxy)
        assert (reply.status_code, reply.json()["error"]["type"]) == (502, "api_error")
