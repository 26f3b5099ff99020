"""The Responses route over real sockets, whole replies (wire §3, §5.1, §8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.cli import main
from supervisors.testing import Fails
from tests.e2e.fake_responses import USAGE, message, output_text, response, streamed
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, Serving, guarded, policy, serving, tree

REDACT_OUTPUT = policy(output={"forced": ["words"], "on_unsafe": "redact"})


async def ask(proxy: Serving, given: object = "hello", **fields: Any) -> httpx.Response:
    return await proxy.client.post("/v1/responses", json={"model": "gpt", "input": given, **fields})


async def test_an_allowed_reply_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-07, W-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = orjson.dumps(response(message("fine"), future={"a": None}))
        up.script(Answer(body=body, headers={"content-type": "application/json"}))
        reply = await ask(proxy, reasoning={"effort": "low"}, future_field={"x": [1, 1.0]})
        assert reply.content == body
        assert up.received[0].path == "/v1/responses"
        assert up.received[0].json["future_field"] == {"x": [1, 1.0]}
        assert reply.headers["x-guardrail-decision"] == "pass"
        record = (await proxy.records())[0]
        assert (record["route"], record["model_served"]) == ("/v1/responses", "fake-model")
        assert record["client"]["finish_reasons"] == ["completed"]
        assert record["view"]["unseen_history"] is False


async def test_the_route_answers_without_v1_too(tmp_path: Path) -> None:  # W-02
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=response(message("fine"))))
        reply = await proxy.client.post("/responses/", json={"model": "gpt", "input": "hello"})
        assert reply.status_code == 200


@pytest.mark.parametrize("given", [f"a {CANARY}", [{"role": "user", "content": f"a {CANARY}"}]])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_input_is_a_400_and_never_reaches_the_model(tmp_path: Path, given: Any, stream: bool) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:  # D-01, M-02, W-05
        reply = await ask(proxy, given, stream=stream)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "content_filter", "input")
        assert up.received == []


async def test_a_refusal_of_the_input_is_an_incomplete_response(tmp_path: Path) -> None:  # wire §5.1
    rules = policy({"forced": ["words"]}, on_block={"input": "refusal"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        body = (await ask(proxy, CANARY, metadata={"job": "7"})).json()
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
        assert [part["type"] for part in body["output"][0]["content"]] == ["output_text", "refusal"]
        assert (body["model"], body["metadata"], body["usage"]["total_tokens"]) == ("gpt", {"job": "7"}, 0)
        assert up.received == []


async def test_a_blocked_output_is_an_incomplete_response_with_the_notice(tmp_path: Path) -> None:  # wire §5.1, W-20
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        call = {"id": "fc", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        up.script(Answer(json=response(call, message(f"take a {CANARY}"), note=CANARY)))
        reply = await ask(proxy, instructions="be kind")
        body = reply.json()
        assert reply.status_code == 200
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
        assert (body["id"], body["error"], body["usage"]) == ("resp_fake", None, USAGE)
        assert body["instructions"] == "be kind"
        (item,) = body["output"]
        text, refusal = item["content"]
        assert (item["type"], item["status"], text["text"]) == ("message", "incomplete", refusal["refusal"])
        assert CANARY not in reply.text
        record = (await proxy.records())[0]
        assert record["outcome"] == "blocked_output"
        assert record["client"]["finish_reasons"] == ["content_filter"]


async def test_a_json_caller_gets_the_notice_in_the_refusal_only(tmp_path: Path) -> None:  # W-22
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=response(message(CANARY))))
        reply = await ask(proxy, text={"format": {"type": "json_object"}})
        assert [part["type"] for part in reply.json()["output"][0]["content"]] == ["refusal"]


async def test_output_redaction_masks_every_repetition_and_the_logprobs(tmp_path: Path) -> None:  # G-38, W-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT_OUTPUT)) as proxy:
        tokens = [{"token": token, "logprob": -1.0} for token in ("a ", "violet", " umbrella", "!")]
        item = message("x")
        item["content"] = [output_text(f"a {CANARY}!", logprobs=tokens)]
        up.script(Answer(json=response(item, output_text=f"a {CANARY}!")))
        reply = await ask(proxy)
        part = reply.json()["output"][0]["content"][0]
        assert part["text"] == reply.json()["output_text"] == "a [REDACTED:canary]!"
        assert [entry["token"] for entry in part["logprobs"]] == ["a ", "!"]
        assert "violet" not in reply.text


async def test_input_redaction_changes_what_the_model_receives(tmp_path: Path) -> None:  # G-38, M-03
    rules = policy({"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        await ask(proxy, f"my {CANARY}")
        assert up.received[0].json["input"] == "my [REDACTED:canary]"
        output = {"type": "function_call_output", "call_id": "c", "output": f"a {CANARY}"}
        await ask(proxy, [output], instructions=f"no {CANARY}")
        assert up.received[1].json["input"][0]["output"] == "a [REDACTED:canary]"
        assert up.received[1].json["instructions"] == "no [REDACTED:canary]"


async def test_what_a_reply_repeats_of_the_request_is_not_judged_as_output(tmp_path: Path) -> None:  # M-22
    rules = policy(output={"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        never = f"never say {CANARY}"
        up.script(Answer(json=response(message("fine"), instructions=never)))
        assert (await ask(proxy, instructions=never)).json()["status"] == "completed"
        up.script(Answer(json=response(message("fine"), instructions=f"{never} again")))
        assert (await ask(proxy, instructions=never)).json()["status"] == "incomplete"


async def test_background_is_refused(tmp_path: Path) -> None:  # wire §1
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        error = (await ask(proxy, background=True)).json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", "background")
        assert (await ask(proxy, background="yes")).json()["error"]["code"] == "invalid_value"
        assert up.received == []


@pytest.mark.parametrize("name", ["headers", "authorization", "server_url"])
async def test_a_caller_may_not_send_the_model_server_elsewhere(tmp_path: Path, name: str) -> None:  # wire §2.3
    value = {"x": "y"} if name == "headers" else "https://tools.example"
    tool = {"type": "mcp", "server_label": "tools", name: value}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        error = (await ask(proxy, tools=[{"type": "web_search"}, tool])).json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", f"tools[1].{name}")
        added = {"type": "additional_tools", "role": "developer", "tools": [tool]}
        assert (await ask(proxy, [added])).json()["error"]["param"] == f"input[0].tools[0].{name}"
        assert up.received == []


HISTORIES: list[dict[str, Any]] = [
    {"previous_response_id": "resp_1"},
    {"conversation": "conv_1"},
    {"conversation": {"id": "conv_1"}},
    {"prompt": {"id": "pmpt_1"}},
    {"input": [{"type": "item_reference", "id": "msg_0"}]},
]


@pytest.mark.parametrize("fields", HISTORIES)
async def test_unseen_history_is_recorded_and_can_be_blocked(tmp_path: Path, fields: dict[str, Any]) -> None:  # W-20
    body = {"model": "gpt", "input": "hello", **fields}
    for name in ("log", "block"):
        (tmp_path / name).mkdir()
    async with FakeUpstream() as up, serving(guarded(up, tmp_path / "log")) as proxy:
        up.script(Answer(json=response(message("fine"))))
        assert (await proxy.client.post("/v1/responses", json=body)).status_code == 200
        assert (await proxy.records())[0]["view"]["unseen_history"] is True
    rules = policy({"forced": ["words"], "on_unseen_history": "block"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path / "block", policies=rules)) as proxy:
        reply = await proxy.client.post("/v1/responses", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_not_judged")
        assert up.received == []
        record = (await proxy.records())[0]
        assert {row["supervisor"]: row["detail"] for row in record["verdicts"]}["unseen_history"] == "unseen_history"
        up.script(Answer(json=response(message("fine"))))
        assert (await ask(proxy)).status_code == 200


async def test_the_journal_holds_with_and_without_unseen_history(tmp_path: Path) -> None:  # L-01
    rules = policy({"forced": ["words"], "on_unseen_history": "block"}, {"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=response(message("fine"))), Answer(json=response(message(CANARY))), streamed(CANARY))
        for fields in ({}, {}, {"stream": True}, {"previous_response_id": "resp_1"}, {"background": True}):
            await ask(proxy, **fields)
        await proxy.app.gateway.journal.flush()
        journal = ["--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, ["verify", *journal]) == 0
        outcomes = [record["outcome"] for record in await proxy.records(5)]
        assert sorted(outcomes) == ["answered", "blocked_input", "blocked_output", "blocked_output", "client_error"]


@pytest.mark.parametrize("path", ["/v1/responses/resp_1", "/v1/responses/resp_1/input_items", "/v1/responses/compact"])
async def test_stored_answers_stay_out_of_reach(tmp_path: Path, path: str) -> None:  # M-09
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path)) as proxy:
        for method in ("GET", "POST"):
            reply = await proxy.client.request(method, path, json={} if method == "POST" else None)
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_route")
        assert up.received == []


async def test_a_guard_that_is_down_is_a_503(tmp_path: Path) -> None:  # F-01
    config = {"supervisors": {"words": Fails(RuntimeError("down"))}, "policies": policy(output={"forced": ["words"]})}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **config)) as proxy:
        up.script(Answer(json=response(message("fine"))))
        reply = await ask(proxy)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "guardrail_unavailable")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_error_keeps_its_status(tmp_path: Path, stream: bool) -> None:  # W-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(status=404, json={"error": {"message": "no", "type": "not_found_error", "code": "gone"}}))
        reply = await ask(proxy, stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "gone")


async def test_a_reply_of_another_shape_is_a_502(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json={"answer": 42}))
        assert (await ask(proxy)).status_code == 502


async def test_the_cap_on_tokens_holds_here_too(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits={"max_tokens": 10})) as proxy:
        assert (await ask(proxy, max_output_tokens=11)).json()["error"]["param"] == "max_output_tokens"
        assert up.received == []


async def test_every_kind_of_output_is_judged(tmp_path: Path) -> None:  # M-06, M-14
    items: list[dict[str, Any]] = [
        {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": CANARY}]},
        {"id": "c", "type": "custom_tool_call", "call_id": "c", "name": "t", "input": CANARY},
        {"id": "w", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": CANARY}},
        {"id": "m", "type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": CANARY},
        {"id": "k", "type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": CANARY}]},
        {"id": "u", "type": "teleport_call", "deep": [{"er": CANARY}]},
    ]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for item in items:
            up.script(Answer(json=response(item)))
            reply = await ask(proxy)
            assert (item["type"], reply.json()["status"]) == (item["type"], "incomplete")
            assert CANARY not in reply.text


@pytest.mark.parametrize("blocked", [False, True])
async def test_sealed_input_passes_unless_the_policy_blocks_it(tmp_path: Path, blocked: bool) -> None:  # G-05
    sealed: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "grcO7n8aUDm+8H7CNH8GbtCPXcdR",
    }
    rules = policy({"forced": ["words"], "on_opaque": "block" if blocked else "pass"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=response(message("fine"))))
        reply = await ask(proxy, [sealed, {"role": "user", "content": "hello"}])
        assert (reply.status_code, len(up.received)) == ((400, 0) if blocked else (200, 1))
