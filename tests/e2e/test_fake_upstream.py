"""The fake upstream itself: what it answers by default, and as a process."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from supervisors.transport import HttpClient, HttpRequest
from tests.e2e.fake_upstream import FakeUpstream

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient() as made:
        yield made


async def post(client: HttpClient, url: str, body: object) -> tuple[int, bytes]:
    reply = await client.send(HttpRequest("POST", url, body=json.dumps(body).encode(), timeout_s=5.0))
    return reply.status, reply.body


async def test_by_default_it_answers_like_a_small_model(client: HttpClient) -> None:
    async with FakeUpstream() as up:
        whole = json.loads((await post(client, f"{up.url}/chat/completions", {}))[1])
        assert whole["choices"][0]["finish_reason"] == "stop"
        assert whole["usage"]["total_tokens"] == 10
        options = {"stream": True, "stream_options": {"include_usage": True}}
        frames = (await post(client, f"{up.url}/chat/completions", options))[1].split(b"\n\n")
        assert frames[-2] == b"data: [DONE]"
        assert json.loads(frames[-3].removeprefix(b"data: "))["usage"]["completion_tokens"] == 3
        assert json.loads((await post(client, f"{up.url}/completions", {}))[1])["choices"][0]["text"]
        assert json.loads((await post(client, f"{up.url}/embeddings", {}))[1])["data"][0]["embedding"]
        assert (await post(client, f"{up.url}/nowhere", {}))[0] == 404


async def test_as_a_process_it_takes_a_script_and_gives_a_log(client: HttpClient) -> None:
    script_path = str(ROOT / "tests" / "e2e" / "fake_upstream.py")
    process = await asyncio.create_subprocess_exec(sys.executable, script_path, "--port", "0", stdout=PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        origin = url.removesuffix("/v1")
        script = [{"status": 503, "json": {"a": 1}}, {"frames": ["data: 1\n\n", "data: 2\n\n"]}]
        assert json.loads((await post(client, f"{origin}/_script", script))[1]) == {"scripted": 2}
        assert await post(client, f"{url}/chat/completions", {"b": 2}) == (503, b'{"a": 1}')
        assert await post(client, f"{url}/chat/completions", {}) == (200, b"data: 1\n\ndata: 2\n\n")
        log = json.loads((await post(client, f"{origin}/_log", {}))[1])
        assert [entry["body"] for entry in log] == ['{"b": 2}', "{}"]
    finally:
        process.terminate()
        await process.wait()
