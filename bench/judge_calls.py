"""Measure what one judge call and one upstream call cost the caller, beside `litellm.acompletion` (PF-33).

Run from the root of the repository: ``python bench/judge_calls.py [--rounds 5] [--calls 3000]``. Needs nginx. All in
interleaved rounds against one nginx with a fixed reply; the figures are medians of CPU time (user + system).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.clients import REQUEST, free_port, run_nginx, wait_for
from proxy.upstream import Upstream
from proxy.upstream_settings import UpstreamSettings
from supervisors.chat import Budget, ChatService, complete_with_vendor, load_litellm
from supervisors.chat.vendors import VendorCall
from supervisors.transport import HttpClient, HttpRequest
from supervisors.types import ChatRequest, Endpoint

MESSAGES = json.loads(REQUEST)["messages"]
CONCURRENCY = 16

Call = Callable[[], Awaitable[object]]


def make_calls(url: str) -> dict[str, Call]:
    """Return one callable a way of asking the model at `url`."""
    client = HttpClient()
    service = ChatService(client)
    context = service.context(3600.0, Budget(calls=10**9))
    endpoint = Endpoint("m", url, "k")
    question = ChatRequest(MESSAGES)
    upstream = Upstream(UpstreamSettings(url, "k"))
    vendor = VendorCall("hosted_vllm", "m", "chat", {"messages": MESSAGES}, 60.0, url, "k")
    headers = (("content-type", "application/json"), ("authorization", "Bearer k"))
    return {
        "client.send": lambda: client.send(HttpRequest("POST", f"{url}/x", headers, REQUEST, 60.0)),
        "upstream.complete": lambda: upstream.complete("/chat/completions", REQUEST),
        "context.chat": lambda: context.chat(endpoint, question),
        "litellm.acompletion": lambda: complete_with_vendor(vendor),
    }


async def cpu_us(call: Call, count: int) -> float:
    """Return CPU microseconds per call at the concurrency of the bench."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await call()

    begun = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())
    return (time.process_time() - begun) / count * 1e6


async def run(url: str, rounds: int, calls: int) -> dict[str, list[float]]:
    """Run the rounds in turn, after a warm-up."""
    ways = make_calls(url)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for call in ways.values():
        await cpu_us(call, 200)
    for _ in range(rounds):
        for name, call in ways.items():
            found[name].append(await cpu_us(call, calls // 10 if name.startswith("litellm") else calls))
    return found


def main() -> None:
    """Read the command line, run, print conditions and medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, of which the median counts")
    parser.add_argument("--calls", type=int, default=3000, help="calls a round (a tenth of it for litellm)")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    port = free_port()
    with run_nginx(port):
        wait_for(port)
        load_litellm()
        uvloop.install()
        found = asyncio.run(run(f"http://127.0.0.1:{port}/v1", options.rounds, options.calls))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load before: {load:.2f}")
    print(f"request {len(REQUEST)} B, concurrency {CONCURRENCY}, {options.rounds} rounds of {options.calls} calls")
    base = statistics.median(found["litellm.acompletion"])
    for name, values in found.items():
        median = statistics.median(values)
        spread = max(values) - min(values)
        print(f"{name:20} {median:8.1f} us (max-min {spread:6.1f})  litellm / this: {base / median:5.1f}")
    print(f"threads at the end: {threading.active_count()}")


if __name__ == "__main__":
    main()
