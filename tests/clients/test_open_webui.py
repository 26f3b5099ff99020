"""The calls Open WebUI makes, as plain HTTP: model list, chat, and its own background tasks (wire §13)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, Serving, content_of, frames_of, guarded, serving

KEYS = {
    name: {"sha256": sha256(name.encode() * 10).hexdigest(), "tags": tags}
    for name, tags in (("chat", []), ("task", ["task"]))
}
ADMIN = {"ops": {"sha256": sha256(b"ops" * 20).hexdigest(), "admin": True}}


def call(proxy: Serving, key: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key * 10}", "x-openwebui-user-name": "Ada", "x-openwebui-chat-id": "c1"}
    return httpx.AsyncClient(base_url=f"{proxy.url}/v1", headers=headers, timeout=10, trust_env=False)


async def test_it_lists_chats_and_names_the_chat(tmp_path: Path) -> None:  # W-01, §2.1
    parts: dict[str, Any] = {"keys": {**KEYS, **ADMIN}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy, call(proxy, "chat") as client:
        assert [model["id"] for model in (await client.get("/models")).json()["data"]] == ["gpt"]
        messages = [{"role": "user", "content": "hello"}]
        body = {"model": "gpt", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        up.script(Answer(frames=sse(*chat_chunks("All is well.", usage=True))))
        reply = await client.post("/chat/completions", json=body)
        assert content_of(reply) == "All is well."
        assert frames_of(reply)[-1] == "[DONE]"
        async with call(proxy, "task") as tasks:
            titled = await tasks.post(
                "/chat/completions", json={**body, "stream": False}, headers={"x-guardrail-task": "title"}
            )
            assert titled.status_code == 200
        names = {name for received in up.received for name, _ in received.headers}
        assert not {name for name in names if name.startswith("x-openwebui")}
        headers = {"authorization": f"Bearer {'ops' * 20}"}
        await proxy.app.gateway.journal.flush()
        rows = (await proxy.client.get("/v1/decisions?limit=2", headers=headers)).json()["data"]
        assert [row["task"] for row in rows] == ["title", None]


async def test_a_block_reads_as_a_reply_with_the_notice(tmp_path: Path) -> None:  # S-19, W-25
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=KEYS)) as proxy, call(proxy, "chat") as client:
        up.script(
            Answer(frames=sse(*chat_chunks(*["All is well, and it goes on. "] * 2, "a ", CANARY)), frame_delay_s=0.1)
        )
        body = {"model": "gpt", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        reply = await client.post("/chat/completions", json=body)
        assert content_of(reply).startswith("All is well")
        assert "content policy" in content_of(reply)
        assert CANARY not in content_of(reply)
