"""LlamaIndex's `OpenAILike`, in an environment of its own: by default it calls the legacy route (wire §13, M-18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.clients.situations import BUSY, LONG, NOTICE, REDACTED, blocks_input, is_down, redacts, use
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, guarded, serving

SCRIPT = Path(__file__).with_name("use_llamaindex.py")
CALLS = ("complete", "stream_complete", "chat", "stream_chat")

pytestmark = [pytest.mark.clients, pytest.mark.slow]


@pytest.fixture(scope="session")
def sdk_python(client_python: Callable[[str, str], Path]) -> Path:
    """Return the Python of an environment that has the library."""
    return client_python("llamaindex", "llama-index-llms-openai-like>=0.8,<0.9")


def answers(*texts: str, abort_at: int | None = None) -> Sequence[Answer]:
    """Return one answer a call, in the order of `CALLS`."""
    whole = "".join(texts)
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    choices = [{"index": 0, "text": text, "finish_reason": None} for text in texts]
    choices.append({"index": 0, "text": "", "finish_reason": "stop"})
    legacy = [{**head, "choices": [choice]} for choice in choices]
    one = {"index": 0, "text": whole, "logprobs": None, "finish_reason": "stop"}
    return (
        Answer(json={**chat_reply(), **head, "choices": [one]}),
        Answer(frames=sse(*legacy), abort_at=abort_at),
        Answer(json=chat_reply(whole)),
        Answer(frames=sse(*chat_chunks(*texts)), abort_at=abort_at),
    )


async def test_replies_that_pass(tmp_path: Path, sdk_python: Path) -> None:  # M-18
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers("All ", "is well."))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert [one["text"] for one in shown] == ["All is well."] * 4
        paths = [received.path for received in up.received]
        assert paths == ["/v1/completions"] * 2 + ["/v1/chat/completions"] * 2


async def test_blocked_inputs(tmp_path: Path, sdk_python: Path) -> None:  # M-18
    async with FakeUpstream() as up, serving(blocks_input(up, tmp_path)) as proxy:
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert [(one.get("status"), one.get("code")) for one in shown] == [(400, "content_filter")] * 4
        assert up.received == []


async def test_blocked_outputs(tmp_path: Path, sdk_python: Path) -> None:  # S-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*answers(LONG, "a ", CANARY))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert all(one["text"].endswith(NOTICE) and "violet" not in one["text"] for one in shown), shown


async def test_redacted_outputs(tmp_path: Path, sdk_python: Path) -> None:  # S-10
    async with FakeUpstream() as up, serving(redacts(up, tmp_path)) as proxy:
        up.script(*answers("a vio", "let umbr", "ella here"))
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert [one["text"] for one in shown] == [REDACTED] * 4


async def test_a_guard_that_is_down(tmp_path: Path, sdk_python: Path) -> None:  # F-06
    async with FakeUpstream() as up, serving(is_down(up, tmp_path)) as proxy:
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert [(one.get("status"), one.get("code")) for one in shown] == [(503, "guardrail_unavailable")] * 4


async def test_errors_of_the_model_server(tmp_path: Path, sdk_python: Path) -> None:  # W-05, W-06
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(*[Answer(status=429, json=BUSY)] * 4)
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", *CALLS)
        assert [one.get("status") for one in shown] == [429] * 4
        up.script(answers(LONG, LONG, abort_at=2)[1], answers(LONG, LONG, abort_at=2)[3])
        shown = await use(sdk_python, SCRIPT, f"{proxy.url}/v1", "stream_complete", "stream_chat")
        assert [one.get("code") for one in shown] == ["upstream_error"] * 2
