"""Measure what one HTTP request and one streamed chunk cost the caller, for three clients in one run.

Run from the root of the repository: ``python bench/clients.py [--rounds 5] [--requests 20000]``. Needs nginx; aiohttp
and pyreqwest are left out when they are not installed. Clients run on one core and servers on another, in interleaved
rounds; the figures are medians of CPU time (user + system) of the client's process, idle loop included.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from supervisors.transport import HttpClient, HttpRequest

REQUEST = b'{"model":"m","messages":[{"role":"user","content":"' + b"violet umbrella " * 46 + b'"}]}'
REPLY = b'{"id":"chatcmpl-x","object":"chat.completion","choices":[{"message":{"content":"' + b"a" * 1080 + b'"}}]}'
FRAME = b'data: {"id":"chatcmpl-x","object":"chat.completion.chunk","choices":[{"delta":{"content":"%b"}}]}\n\n' % (
    b"b" * 90
)
HEADERS = {"content-type": "application/json", "authorization": "Bearer bench"}
CONCURRENCY = 16
STREAMS = 64
CHUNKS = 200
PERIOD_S = 0.01

Send = Callable[[str], Awaitable[int]]
"""Do one POST, or read one stream to its end, and return the bytes of the body."""


def open_own() -> tuple[Send, Send]:
    """Use our own client."""
    client = HttpClient()
    headers = tuple(HEADERS.items())

    async def send(url: str) -> int:
        return len((await client.send(HttpRequest("POST", url, headers, REQUEST, 30.0))).body)

    async def stream(url: str) -> int:
        size = 0
        async with client.stream(HttpRequest("POST", url, headers, REQUEST, 30.0)) as reply:
            async for chunk in reply:
                size += len(chunk)
        return size

    return send, stream


def open_aiohttp() -> tuple[Send, Send]:
    """Use aiohttp with limits that do not bind."""
    aiohttp: Any = importlib.import_module("aiohttp")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=256), headers=HEADERS, timeout=aiohttp.ClientTimeout(total=30)
    )

    async def send(url: str) -> int:
        async with session.post(url, data=REQUEST, allow_redirects=False) as reply:
            return len(await reply.read())

    async def stream(url: str) -> int:
        size = 0
        async with session.post(url, data=REQUEST, allow_redirects=False) as reply:
            async for chunk in reply.content.iter_any():
                size += len(chunk)
        return size

    return send, stream


def open_pyreqwest() -> tuple[Send, Send]:
    """Use pyreqwest on its single-threaded runtime."""
    module: Any = importlib.import_module("pyreqwest.client")
    client = module.ClientBuilder().no_proxy().default_headers(HEADERS).build()

    async def send(url: str) -> int:
        reply = await client.post(url).body_bytes(REQUEST).build().send()
        return len(await reply.bytes())

    async def stream(url: str) -> int:
        size = 0
        async with client.post(url).body_bytes(REQUEST).streamed_read_buffer_limit(0).build_streamed() as reply:
            while (chunk := await reply.body_reader.read_chunk()) is not None:
                size += len(chunk)
        return size

    return send, stream


CLIENTS = {"own": open_own, "aiohttp": open_aiohttp, "pyreqwest": open_pyreqwest}


async def measure(name: str, whole_url: str, stream_url: str, requests: int) -> dict[str, float]:
    """Measure one client in this process, after a warm-up."""
    send, stream = CLIENTS[name]()
    await _repeat(send, whole_url, requests // 10, CONCURRENCY, len(REPLY))
    cpu, wall = await _repeat(send, whole_url, requests, CONCURRENCY, len(REPLY))
    stream_cpu, stream_wall = await _repeat(stream, stream_url, STREAMS, STREAMS, len(FRAME) * CHUNKS)
    return {
        "request_us": cpu / requests * 1e6,
        "per_s": requests / wall,
        "chunk_us": stream_cpu / (STREAMS * CHUNKS) * 1e6,
        "chunks_per_s": STREAMS * CHUNKS / stream_wall,
    }


async def _repeat(call: Send, url: str, count: int, concurrency: int, expected: int) -> tuple[float, float]:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            if await call(url) != expected:
                msg = "a reply had the wrong size: the run is invalid"
                raise RuntimeError(msg)

    wall, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return time.process_time() - cpu, time.perf_counter() - wall


async def serve_streams(port: int) -> None:
    """Answer every request with `CHUNKS` frames, one every `PERIOD_S`, each its own write."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(REQUEST))
                head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                writer.write(head)
                for _ in range(CHUNKS):
                    await asyncio.sleep(PERIOD_S)
                    writer.write(b"%x\r\n%b\r\n" % (len(FRAME), FRAME))
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


@contextmanager
def run_nginx(port: int) -> Generator[None]:
    """Run nginx on one worker, answering every path with `REPLY`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(
            f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n"
            "events { worker_connections 1024; }\n"
            "http { access_log off; keepalive_requests 100000000; client_body_buffer_size 64k;\n"
            f"client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;\n"
            f"uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; default_type application/json;\n"
            f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{REPLY.decode()}'; }} }} }}\n"
        )
        with _run([shutil.which("nginx") or "nginx", "-c", str(config), "-p", folder]):
            yield


@contextmanager
def _run(command: list[str]) -> Generator[None]:
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens on a loopback port."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    msg = "a server of the bench did not start"
    raise RuntimeError(msg)


def _pinned(cpu: int, command: list[str]) -> list[str]:
    taskset = shutil.which("taskset")
    return command if taskset is None or (os.cpu_count() or 1) < 2 else [taskset, "-c", str(cpu), *command]


def run_all(rounds: int, requests: int) -> None:
    """Run every installed client in interleaved rounds and print conditions and medians."""
    names = [name for name in CLIENTS if name == "own" or importlib.util.find_spec(name)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    whole, streams = free_port(), free_port()
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})  # inherited by the servers; clients are pinned to core 0
    with run_nginx(whole), _run([sys.executable, __file__, "--serve", str(streams)]):
        wait_for(whole)
        wait_for(streams)
        for _ in range(rounds):
            for name in names:
                urls = [f"http://127.0.0.1:{whole}/v1/x", f"http://127.0.0.1:{streams}/v1/x"]
                command = [sys.executable, __file__, "--measure", name, *urls, "--requests", str(requests)]
                done = subprocess.run(_pinned(0, command), capture_output=True, check=True)
                found[name].append(json.loads(done.stdout))
    _print_conditions(names, rounds, requests, load)
    for name, results in found.items():
        medians = {key: statistics.median(result[key] for result in results) for key in results[0]}
        spread = max(result["request_us"] for result in results) - min(result["request_us"] for result in results)
        print(
            f"{name:10} {medians['request_us']:8.1f} {spread:8.1f} {medians['per_s']:10.0f}"
            f" {medians['chunk_us']:9.1f} {medians['chunks_per_s']:10.0f}"
        )


def _print_conditions(names: list[str], rounds: int, requests: int, load: float) -> None:
    def version(package: str) -> str:
        return f"{package} {importlib.metadata.version(package)}"

    packages = [version("uvloop"), version("httptools"), *[version(name) for name in names if name != "own"]]
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, check=True, text=True).stderr.strip()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(packages)}")
    print(f"{nginx}; loopback, no TLS; load average before: {load:.2f}")
    print(f"request {len(REQUEST)} B, reply {len(REPLY)} B, concurrency {CONCURRENCY}, {requests} requests a round;")
    print(f"{STREAMS} streams of {CHUNKS} chunks of {len(FRAME)} B every {PERIOD_S * 1000:.0f} ms; {rounds} rounds")
    print(f"{'client':10} {'us/req':>8} {'max-min':>8} {'req/s':>10} {'us/chunk':>9} {'chunks/s':>10}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, of which the median counts")
    parser.add_argument("--requests", type=int, default=20_000, help="whole requests a round")
    parser.add_argument("--measure", nargs=3, metavar=("CLIENT", "URL", "STREAM_URL"), help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    uvloop.install()
    if options.serve:
        asyncio.run(serve_streams(options.serve))
    elif options.measure:
        name, whole_url, stream_url = options.measure
        print(json.dumps(asyncio.run(measure(name, whole_url, stream_url, options.requests))))
    else:
        run_all(options.rounds, options.requests)


if __name__ == "__main__":
    main()
