"""Mixed requests leave neither memory nor connections behind (operations R-01, R-02).

A thousand of them by default; `GUARDRAIL_SOAK_REQUESTS=10000` asks for more. What is kept on purpose, the caches of
forms and of SQLite, is full after some 4,000, so that a long run measures from half of its length on.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.e2e.processes import Served, serve_process
from tests.e2e.serving import CANARY, chat_body, policy

REQUESTS = int(os.environ.get("GUARDRAIL_SOAK_REQUESTS", "1000"))  # noqa: TID251 - a setting of the test suite itself
WORDS = {"words": {"use": "rules", "keywords": [CANARY]}}


def rss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def sockets(pid: int) -> int:
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue  # closed while we looked
    return found


def bad_answer(received: Received) -> Answer:
    if received.json.get("stream"):
        return Answer(frames=sse(*chat_chunks(CANARY)))
    return Answer(json=chat_reply(CANARY))


async def burst(proxy: Served, up: FakeUpstream, count: int) -> None:
    """Send this many requests, eight at a time: whole, streamed, blocked on both sides, and bad ones."""
    queue = iter(range(count))

    async def work() -> None:
        for number in queue:
            body = chat_body(CANARY if number % 5 == 4 else "hello", stream=number % 2 == 1)
            if number % 11 == 3:
                up.script(bad_answer)
            reply = await proxy.client.post("/v1/chat/completions", json=body if number % 13 else {})
            assert reply.status_code in (200, 400)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(work())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
async def test_memory_and_sockets_stay_flat(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config = {
            "upstreams": {"main": {"base_url": up.url}},
            "supervisors": WORDS,
            "policies": policy({"forced": ["words"]}, {"forced": ["words"]}),
            "journal": {"path": str(tmp_path / "journal.sqlite3")},
        }
        async with serve_process(config, tmp_path) as proxy:
            await burst(proxy, up, max(500, REQUESTS // 2))
            up.received.clear()
            before, open_before = rss_bytes(proxy.child.pid), sockets(proxy.child.pid)
            started = time.perf_counter()
            await burst(proxy, up, REQUESTS)
            seconds = time.perf_counter() - started
            grown, opened = rss_bytes(proxy.child.pid) - before, sockets(proxy.child.pid) - open_before
            sizes = f"RSS {before / 2**20:.0f} MB + {grown / 2**20:.1f} MB, sockets {open_before} + {opened}"
            sys.stdout.write(f"{seconds:.1f} s, {sizes}\n")
            assert grown <= 0.05 * before + 4 * 2**20
            assert opened <= 8
            assert "Traceback" not in "".join(proxy.log)
