"""The real Anthropic SDK, in an environment of its own, against a running proxy on loopback (wire §13, E-01, W-16)."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from supervisors.testing import Fails, Finds
from tests.e2e.fake_messages import (
    anthropic_tree,
    message_events,
    message_reply,
    text_block,
    text_events,
    thinking_block,
    thinking_events,
    tool_block,
    tool_events,
)
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply
from tests.e2e.serving import CANARY, guarded, policy, serving
from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("use_anthropic.py")
WINDOW = {"window_chars": 12, "overlap_chars": 20}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def sdk_python(client_python: Callable[[str, str], Path]) -> Path:
    """Return the Python of an environment that has the SDK."""
    return client_python("anthropic", "anthropic")


async def use(python: Path, url: str, *cases: str) -> Sequence[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        str(python), str(SCRIPT), url, *cases, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    results: list[dict[str, Any]] = json.loads(out)
    return results


async def test_create_and_stream_give_what_the_model_said(tmp_path: Path, sdk_python: Path) -> None:  # W-02, W-31
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        thought, call = thinking_block("hm"), tool_block({"city": "Oslo"})
        up.script(
            Answer(json=message_reply(thought, "All is well.", call, stop_reason="tool_use")),
            Answer(
                frames=message_events(
                    thinking_events(0, "h", "m"),
                    text_events(1, "All ", "is well."),
                    tool_events(2, '{"city": ', '"Oslo"}'),
                    stop_reason="tool_use",
                )
            ),
        )
        created, streamed = await use(sdk_python, proxy.url, "create:hello", "stream:hello")
        assert created["content"] == streamed["content"] == [thought, text_block("All is well."), call]
        assert created["stop_reason"] == streamed["stop_reason"] == "tool_use"
        assert streamed["said"] == "All is well."
        assert streamed["usage"] == {"input_tokens": 7, "output_tokens": 5}
        assert [record["request_id"] for record in await proxy.records(2)] == [
            streamed["request_id"],
            created["request_id"],
        ]


async def test_a_block_reads_as_a_refusal(tmp_path: Path, sdk_python: Path) -> None:  # wire §5.1, §5.2, S-08
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        texts = text_events(0, "All is well, and more so. ", "And yet a ", CANARY, " comes")
        up.script(Answer(json=message_reply(CANARY)), Answer(frames=message_events(texts)))
        created, streamed = await use(sdk_python, proxy.url, "create:hello", "stream:hello")
        assert created["stop_reason"] == streamed["stop_reason"] == "refusal"
        assert created["content"] == streamed["content"][1:]
        assert streamed["content"][0]["text"].startswith("All is well, ")
        assert "violet" not in json.dumps([created, streamed])


async def test_errors_have_class_status_type_code_and_request_id(tmp_path: Path, sdk_python: Path) -> None:  # E-01
    supervisors = {"words": Finds(CANARY), "broken": Fails(RuntimeError("bug"))}
    policies = {
        **policy({"forced": ["words"]}),
        "broken": {"attach": {"models": ["down"]}, "input": {"forced": ["broken"]}},
    }
    models = {"gpt": {"upstream": "main"}, "down": {"upstream": "main"}}
    config: dict[str, Any] = {"supervisors": supervisors, "policies": policies, "models": models}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **config)) as proxy:
        up.script(Answer(status=529, json=overloaded), Answer(status=529, json=overloaded))
        cases = [f"create:{CANARY}", f"stream:{CANARY}", "model:nobody", "model:down", "create:hello", "stream:hello"]
        results = await use(sdk_python, proxy.url, *cases)
        assert [(result["error"], result["status"], result["type"], result["code"]) for result in results] == [
            ("BadRequestError", 400, "invalid_request_error", "content_filter"),
            ("BadRequestError", 400, "invalid_request_error", "content_filter"),
            ("NotFoundError", 404, "not_found_error", "model_not_found"),
            ("ServiceUnavailableError", 503, "overloaded_error", "guardrail_unavailable"),
            ("OverloadedError", 529, "overloaded_error", "overloaded_error"),
            ("OverloadedError", 529, "overloaded_error", "overloaded_error"),
        ]
        recorded = [record["request_id"] for record in await proxy.records(6)]
        assert recorded == [result["request_id"] for result in reversed(results)]


async def test_an_error_after_the_first_byte_is_raised(tmp_path: Path, sdk_python: Path) -> None:  # W-06, E-07
    output = {"forced": ["words"], "stream": {**WINDOW, "block_frame": "error"}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        texts = text_events(0, "All is well, and more so. ", "And yet a ", CANARY, " comes")
        up.script(
            Answer(frames=message_events(texts)), Answer(frames=message_events(text_events(0, "fine")), abort_at=4)
        )
        blocked, died = await use(sdk_python, proxy.url, "stream:hello", "events:hello")
        assert (blocked["type"], blocked["code"]) == ("invalid_request_error", "content_filter")
        assert (died["type"], died["code"]) == ("api_error", "upstream_error")


async def test_stripped_thinking_leaves_a_stream_that_the_sdk_can_join(
    tmp_path: Path, sdk_python: Path
) -> None:  # W-32
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
        blocks = [thinking_events(0, CANARY), text_events(1, f"a {CANARY}"), tool_events(2, '{"a": 1}')]
        up.script(Answer(frames=message_events(*blocks)))
        (streamed,) = await use(sdk_python, proxy.url, "stream:hello")
        assert streamed["content"] == [text_block("a [REDACTED:canary]"), tool_block({"a": 1})]


async def test_a_whole_reply_is_redacted_in_each_of_its_blocks(tmp_path: Path, sdk_python: Path) -> None:  # G-37, W-32
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
        said = [text_block(f"a {CANARY} here"), text_block("All is well."), text_block(CANARY)]
        call, thought = tool_block({"city": f"near {CANARY}", "days": 2}), thinking_block(f"a {CANARY}")
        up.script(Answer(json=message_reply(thought, *said, call, stop_reason="tool_use")))
        (created,) = await use(sdk_python, proxy.url, "create:hello")
        masked = [text_block("a [REDACTED:canary] here"), text_block("All is well."), text_block("[REDACTED:canary]")]
        assert created["content"] == [*masked, tool_block({"city": "near [REDACTED:canary]", "days": 2})]
        assert created["stop_reason"] == "tool_use"
        assert created["usage"] == {"input_tokens": 7, "output_tokens": 3}
        (record,) = await proxy.records(1)
        assert record["request_id"] == created["request_id"]
        assert [row["action"] for row in record["decisions"] if row["stage"] == "output"] == ["redact"]


async def test_a_redacted_request_reaches_the_model_masked(tmp_path: Path, sdk_python: Path) -> None:  # G-38, M-03
    rules = policy({"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=message_reply("All is well.")))
        (created,) = await use(sdk_python, proxy.url, f"create:a {CANARY} here")
        assert created["content"] == [text_block("All is well.")]
        assert up.received[0].json["messages"] == [{"role": "user", "content": "a [REDACTED:canary] here"}]


async def test_a_model_behind_chat_completions_answers_the_sdk(tmp_path: Path, sdk_python: Path) -> None:  # S-11c
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=chat_reply("Hello there.")))
        created, streamed = await use(sdk_python, proxy.url, "create:hello", "stream:hello")
        assert created["content"] == streamed["content"] == [text_block("Hello there.")]
        assert created["stop_reason"] == streamed["stop_reason"] == "end_turn"
        assert streamed["usage"]["input_tokens"] == 7
