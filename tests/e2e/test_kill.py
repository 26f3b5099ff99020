"""A real process that is killed under load leaves a journal that holds: nothing lost, nothing doubled (O-16)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import sys
from asyncio.subprocess import Process
from pathlib import Path

import orjson
import pytest

from proxy.cli import main
from supervisors.transport import HttpClient, HttpRequest, TransportError
from tests.e2e.fake_upstream import FakeUpstream
from tests.timing import PATIENCE_S

REQUESTS = int(os.environ.get("GUARDRAIL_KILL_REQUESTS", "1500"))  # noqa: TID251 - a setting of this test alone
CONFIG = """
upstreams: {{main: {{base_url: "{url}"}}}}
models: {{gpt: {{upstream: main}}}}
supervisors:
  words: {{use: rules, keywords: [violet umbrella]}}
  answers: {{use: rules, keywords: [hello there]}}
policies:
  default:
    input: {{forced: [words]}}
    output: {{optional: [answers], on_unsafe: block}}
journal: {{path: {journal}}}
server: {{port: 0, drain_grace_s: 0}}
"""
BODIES: tuple[dict[str, object], ...] = (
    {"model": "gpt", "messages": [{"role": "user", "content": "hi"}]},
    {"model": "gpt", "messages": [{"role": "user", "content": "a violet umbrella"}]},
    {"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "stream": True},
    {"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "guardrails": ["answers"]},
    {"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "guardrails": ["answers"], "stream": True},
    {"model": "nobody", "messages": []},
)


async def start(config: Path) -> tuple[Process, str]:
    """Start the proxy and return it with its address, read from its log: a file, for nobody would empty a pipe."""
    log = config.with_suffix(".log")
    command = [sys.executable, "-m", "proxy.cli", "serve", "--config", str(config)]
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(*command, stderr=written)
    async with asyncio.timeout(PATIENCE_S):
        while not (found := re.findall(rb'"port":(\d+)', log.read_bytes())):  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.05)
    url = f"http://127.0.0.1:{int(found[0])}"
    await wait_ready(url)
    return process, url


async def wait_ready(url: str) -> None:
    async with HttpClient() as client:
        while True:
            try:
                if (await client.send(HttpRequest("GET", f"{url}/readyz"))).status == 200:
                    return
            except TransportError:
                await asyncio.sleep(0.05)


async def load(url: str, count: int) -> int:
    """Send so many mixed requests, sixteen at a time; return how many were answered."""
    answered = 0
    numbers = iter(range(count))

    async def work() -> None:
        nonlocal answered
        for number in numbers:
            body = orjson.dumps(BODIES[number % len(BODIES)])
            headers = (("content-type", "application/json"),)
            try:
                await client.send(HttpRequest("POST", f"{url}/v1/chat/completions", headers, body))
            except TransportError:
                continue
            answered += 1

    async with HttpClient() as client, asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())
    return answered


@pytest.mark.slow
async def test_a_proxy_killed_under_load_leaves_a_journal_that_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.sqlite3"
    config = tmp_path / "config.yaml"
    async with FakeUpstream() as up:
        config.write_text(CONFIG.format(url=up.url, journal=journal))
        process, url = await start(config)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(load(url, REQUESTS // 2))
            while len(up.received) < REQUESTS // 8:  # noqa: ASYNC110 - counts what the upstream has seen
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        assert sending.result() < REQUESTS // 2
        process, url = await start(config)
        assert await load(url, REQUESTS // 2) == REQUESTS // 2
        arguments = ["verify", "--journal", str(journal), "--metrics", f"{url}/metrics"]
        code = await asyncio.to_thread(main, arguments)
        assert code == 0, capsys.readouterr().out
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    flip_one_byte(journal)
    assert await asyncio.to_thread(main, ["verify", "--journal", str(journal)]) == 1
    assert "seq 7" in capsys.readouterr().out.replace("seq=", "seq ")


def flip_one_byte(journal: Path) -> None:
    """Change one character inside the eighth record of the last boot."""
    with sqlite3.connect(journal) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert "records" in tables
        boot, body = database.execute("SELECT boot, body FROM records WHERE seq = 7 ORDER BY boot DESC").fetchone()
        text = body if isinstance(body, str) else bytes(body).decode()
        changed = text.replace('"/v1/chat', '"/v1/cjat', 1)
        value = changed if isinstance(body, str) else changed.encode()
        database.execute("UPDATE records SET body = ? WHERE boot = ? AND seq = 7", (value, boot))
