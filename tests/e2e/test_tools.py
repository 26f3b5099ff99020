"""Which tools may be offered and called, and which servers a caller may name (operations X-18, wire §2.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fake_messages import message_body
from tests.e2e.fake_replies import chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import chat_body, content_of, frames_of, guarded, policy, serving, tree

ONLY_GET = {"allowed_tools": ["get_*", "web_search"]}


def offered(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]


def called(name: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"path": "/"}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def config(up: FakeUpstream, folder: Path, **parts: Any) -> dict[str, Any]:
    return tree(up.url, folder, **{"policies": policy(ONLY_GET, ONLY_GET), **parts})


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"tools": offered("get_weather")}, 200),
        ({"tools": offered("get_weather", "delete_all")}, 400),
        ({"functions": [{"name": "delete_all"}]}, 400),
        ({"tools": [{"type": "custom", "custom": {"name": "shell"}}]}, 400),
        ({"messages": [{"role": "user", "content": "x", "name": "bob"}, called("get_weather")]}, 200),
        ({"messages": [{"role": "user", "content": "x"}, called("delete_all")]}, 400),
    ],
)
async def test_only_allowed_tools_are_offered(tmp_path: Path, fields: dict[str, Any], status: int) -> None:
    async with FakeUpstream() as up, serving(config(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/v1/chat/completions", json=chat_body() | fields)
        assert reply.status_code == status
        if status == 400:
            assert reply.json()["error"]["guardrail"]["categories"] == ["tool_not_allowed"]
            assert up.received == []
        (record,) = await proxy.records()
        assert {row["supervisor"] for row in record["verdicts"]} == {"allowed_tools"}


ROUTES: list[tuple[str, dict[str, Any], int]] = [
    (
        "/v1/responses",
        {"tools": [{"type": "function", "name": "get_x", "parameters": {}}, {"type": "web_search"}]},
        200,
    ),
    ("/v1/responses", {"tools": [{"type": "code_interpreter"}]}, 400),
    ("/v1/responses", {"input": [{"type": "function_call", "name": "rm", "arguments": "{}", "call_id": "1"}]}, 400),
    ("/v1/messages", {"tools": [{"name": "rm", "input_schema": {"type": "object"}}]}, 400),
    ("/v1/messages", {"tools": [{"name": "get_x", "input_schema": {"type": "object"}}]}, 200),
]


@pytest.mark.parametrize(("path", "body", "status"), ROUTES)
async def test_other_routes_too(tmp_path: Path, path: str, body: dict[str, Any], status: int) -> None:
    rules = {"policies": policy(ONLY_GET)}
    async with FakeUpstream() as up, serving(config(up, tmp_path, **rules)) as proxy:
        base = message_body("x") if path == "/v1/messages" else {"model": "gpt", "input": "x"}
        found = (await proxy.client.post(path, json=base | body)).status_code
        assert (found == 400) is (status == 400)


def stream_of(name: str, *, split: bool) -> list[bytes]:
    heads = [name[:2], name[2:]] if split else [name]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "Let me look."}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"name": part}}]} for part in heads]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"a"', ": 1}")]
    ends: list[tuple[dict[str, Any], str | None]] = [*[(delta, None) for delta in deltas], ({}, "tool_calls")]
    return sse(*[{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in ends])


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("name", "passes"), [("get_weather", True), ("delete_all", False)])
async def test_only_allowed_tools_are_called(tmp_path: Path, name: str, passes: bool, split: bool) -> None:  # S-16
    async with FakeUpstream() as up, serving(config(up, tmp_path)) as proxy:
        up.script(Answer(frames=stream_of(name, split=split)), Answer(json=chat_reply() | {"choices": [whole(name)]}))
        streamed, reply = await proxy.chat(stream=True), await proxy.chat()
        for text in (streamed.text, reply.text):
            assert ("tool_calls" in text.replace('"finish_reason":"tool_calls"', "")) is passes
            assert ("content_filter" in text) is not passes
        assert frames_of(streamed)[-1] == "[DONE]"
        assert content_of(streamed).startswith("Let me look.") is passes  # short as it is, it is judged with the call


def whole(name: str) -> dict[str, Any]:
    return {"index": 0, "message": called(name), "finish_reason": "tool_calls"}


async def test_a_tool_must_be_allowed_by_every_policy(tmp_path: Path) -> None:  # G-16
    rules = {"a": {"input": {"allowed_tools": ["get_*"]}}, "b": {"input": {"allowed_tools": ["*_weather"]}}}
    async with FakeUpstream() as up, serving(config(up, tmp_path, policies=rules)) as proxy:
        for name, status in (("get_weather", 200), ("get_news", 400), ("set_weather", 400)):
            assert (await proxy.chat(tools=offered(name))).status_code == status


@pytest.mark.parametrize(("allowed", "status"), [((), 400), (("https://mcp.example.com",), 200)])
async def test_servers_of_the_callers_choice_need_a_policy(
    tmp_path: Path, allowed: tuple[str, ...], status: int
) -> None:
    rules = policy({"forced": ["words"]}, mcp_servers=list(allowed))
    server = {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example.com/x", "authorization": "t"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        reply = await proxy.client.post("/v1/responses", json={"model": "gpt", "input": "x", "tools": [server]})
        assert (reply.status_code == 400) is (status == 400)
        assert len(up.received) == (status == 200)


async def test_tools_without_a_function_pass_as_they_are(tmp_path: Path) -> None:  # F-02
    tools = [{"type": "custom", "custom": {"name": "shell"}}, {"type": "web_search"}, {"type": "new", "odd": [1]}]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        assert (await proxy.chat(tools=tools)).status_code == 200
        assert up.received[0].json["tools"] == tools
