"""Spans and GenAI metrics of real exchanges at a real OTLP receiver (O-21, O-22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisors.secret import Secret
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import run_python
from tests.e2e.serving import Serving, guarded, serving
from tests.otlp import Receiver, receive, values

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEY = Secret("env:GUARDRAIL_TEST_OTLP", "violet-key")


def config(up: FakeUpstream, folder: Path, receiver: Receiver, **parts: Any) -> dict[str, Any]:
    made = guarded(
        up,
        folder,
        tracing={"export": "otlp", "endpoint": receiver.url, **parts.pop("tracing", {})},
        supervisors={"words": {"use": "rules", "keywords": ["violet umbrella"]}},
        policies={"default": {"input": {"forced": ["words"]}, "output": {"forced": ["words"]}}},
        **parts,
    )
    made["upstreams"]["main"]["propagate_trace"] = True
    return made


def by_name(receiver: Receiver, name: str) -> list[Any]:
    return [one for one in receiver.spans if one.name == name]


async def ask(proxy: Serving, text: str, **fields: Any) -> str:
    """Send one message inside a trace and return the id of its record."""
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
    body = {"model": "gpt", "messages": [{"role": "user", "content": text}], **fields}
    reply = await proxy.client.post("/v1/chat/completions", json=body, headers=headers)
    return reply.headers["x-guardrail-id"] if "x-guardrail-id" in reply.headers else reply.headers["x-request-id"]


async def test_an_exchange_becomes_a_trace_that_continues_the_callers(tmp_path: Path) -> None:  # O-21, O-22
    with receive() as receiver:
        async with FakeUpstream() as up, serving(config(up, tmp_path, receiver)) as proxy:
            await ask(proxy, "hello")
            told = dict(up.received[0].headers)
            (row,) = await proxy.records()
        (root,) = by_name(receiver, "POST /v1/chat/completions")
        assert (root.trace_id.hex(), root.parent_span_id.hex(), root.kind) == (TRACE, PARENT, 2)
        shown = values(root.attributes)
        assert (shown["guardrail.record.id"], shown["guardrail.policy.names"]) == (row["id"], ["default"])
        assert shown["guardrail.policy.version"] == row["policy"]["version"]
        (call,) = by_name(receiver, "chat gpt")
        assert (call.parent_span_id, call.kind) == (root.span_id, 3)
        assert told["traceparent"] == f"00-{TRACE}-{call.span_id.hex()}-01"
        assert told["tracestate"] == "vendor=1"
        stages = {
            one.span_id: values(one.attributes)["guardrail.stage"] for one in by_name(receiver, "guardrail.stage")
        }
        assert sorted(stages.values()) == ["input", "output"]
        asked = by_name(receiver, "guardrail.supervisor")
        assert sorted([stages[one.parent_span_id] for one in asked]) == ["input", "output"]
        assert {values(one.attributes)["guardrail.verdict.label"] for one in asked} == {"safe"}
        assert {one.status.code for one in receiver.spans} == {0}
        assert receiver.resources[0]["service.name"] == "guardrail-proxy"
        assert receiver.resources[0]["service.instance.id"] == row["boot"]


async def test_blocks_are_no_errors_and_no_text_is_exported(tmp_path: Path) -> None:  # O-18, O-22, O-26
    with receive() as receiver:
        async with FakeUpstream() as up:
            up.script(Answer(frames=sse(*chat_chunks("a violet ", "umbrella"))))
            async with serving(config(up, tmp_path, receiver)) as proxy:
                await ask(proxy, "hello", stream=True)
                await ask(proxy, "a violet umbrella")
                await proxy.client.post("/v1/chat/completions", json={"model": "nobody"})
        roots = by_name(receiver, "POST /v1/chat/completions")
        outcomes = sorted([values(one.attributes)["guardrail.outcome"] for one in roots])
        assert outcomes == ["blocked_input", "blocked_output", "client_error"]
        assert {one.status.code for one in receiver.spans} == {0}
        actions = {
            values(one.attributes).get("guardrail.decision.action") for one in by_name(receiver, "guardrail.stage")
        }
        assert {"pass", "block"} <= actions
        assert not [body for body in receiver.raw if b"violet" in body or b"umbrella" in body]


@pytest.mark.parametrize(
    ("mode", "capture", "shown"), [("full", "true", True), ("full", "", False), ("hashed", "true", False)]
)
async def test_content_needs_the_mode_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, capture: str, shown: bool
) -> None:  # O-22
    monkeypatch.setenv(CAPTURE, capture)
    with receive() as receiver:
        async with FakeUpstream() as up:
            journal = {"path": tmp_path / "journal.sqlite3", "input": mode, "output": mode}
            async with serving(config(up, tmp_path, receiver, journal=journal)) as proxy:
                await ask(proxy, "a green parasol")
        (root,) = by_name(receiver, "POST /v1/chat/completions")
        assert ("green parasol" in str(values(root.attributes).get("gen_ai.input.messages"))) is shown
        assert bool([body for body in receiver.raw if b"green parasol" in body]) is shown


async def test_the_metrics_of_the_conventions_are_exported(tmp_path: Path) -> None:  # §5.1, O-17
    with receive() as receiver:
        async with FakeUpstream() as up:
            tracing = {"headers": {"x-key": KEY}, "sample": 0.0}
            async with serving(config(up, tmp_path, receiver, tracing=tracing)) as proxy:
                for _ in range(3):
                    await proxy.chat("hello")
        found = {one.name: one for one in receiver.metrics}
        assert {"gen_ai.server.request.duration", "gen_ai.client.operation.duration"} <= set(found)
        (point,) = found["gen_ai.server.request.duration"].histogram.data_points
        shown = values(point.attributes)
        assert point.count == 3
        assert (shown["gen_ai.request.model"], shown["gen_ai.operation.name"]) == ("gpt", "chat")
        assert shown["gen_ai.provider.name"] == "openai"
        tokens = found["gen_ai.client.token.usage"].histogram.data_points
        assert {values(one.attributes)["gen_ai.token.type"] for one in tokens} == {"input", "output"}
        assert receiver.spans == []  # nothing that begins here is sampled
        assert {one["x-key"] for one in receiver.headers} == {"violet-key"}


async def test_a_receiver_that_fails_costs_no_answer(tmp_path: Path) -> None:
    with receive() as receiver:
        receiver.status = 400
        async with FakeUpstream() as up, serving(config(up, tmp_path, receiver)) as proxy:
            for _ in range(5):
                assert (await proxy.chat("hello")).status_code == 200
            assert len(await proxy.records(5)) == 5
        assert receiver.spans == []


async def test_without_tracing_nothing_of_it_is_imported_and_a_trace_passes_as_it_came(tmp_path: Path) -> None:  # O-22
    script = "import sys, proxy.app; print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    assert (await run_python("-c", script)).out.strip() == "[]"  # the API alone is imported by FastAPI, if installed
    async with FakeUpstream() as up:
        made = guarded(up, tmp_path)
        async with serving(made) as proxy:
            await ask(proxy, "hello")
        made["upstreams"]["main"]["propagate_trace"] = True
        async with serving(made) as proxy:
            assert proxy.app.gateway.runtime.sinks.traces is None
            await ask(proxy, "hello")
        first, second = (dict(one.headers) for one in up.received)
        assert "traceparent" not in first
        assert second["traceparent"] == f"00-{TRACE}-{PARENT}-01"
