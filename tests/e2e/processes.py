"""The command `guardrail-proxy` as a process of its own, for tests of what only a process shows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


def environment(extra: Environ) -> dict[str, str]:
    """Return the environment of a child: ours, with the repository importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}  # noqa: TID251 - handed on to a child


async def run_command(*args: str | Path, environ: Environ | None = None) -> Finished:
    """Run a command to its end."""
    return await run_python("-m", "proxy.cli", *args, environ=environ)


async def run_python(*args: str | Path, environ: Environ | None = None) -> Finished:
    """Run Python to its end."""
    command = [sys.executable, *[str(arg) for arg in args]]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment(environ or {}))
    async with asyncio.timeout(PATIENCE_S):
        out, err = await child.communicate()
    return Finished(child.returncode or 0, out.decode(), err.decode())


@dataclass(slots=True)
class Served:
    """A serving process: its address, a client, its log so far."""

    child: asyncio.subprocess.Process
    client: httpx.AsyncClient
    log: list[str] = field(default_factory=list[str])

    def send(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.child.send_signal(number)

    async def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end and return the exit code."""
        async with asyncio.timeout(timeout_s):
            return await self.child.wait()


async def _listening(child: asyncio.subprocess.Process, log: list[str]) -> str:
    assert child.stderr is not None
    async for line in child.stderr:
        log.append(line.decode())
        if '"listening"' in log[-1]:
            found = json.loads(log[-1])
            return f"http://{found['host']}:{found['port']}"
    raise AssertionError("".join(log))


@asynccontextmanager
async def serve_process(
    config: Mapping[str, Any], folder: Path, *options: str, environ: Environ | None = None
) -> AsyncGenerator[Served]:
    """Run `guardrail-proxy serve` with a config while the body runs; yields when it is ready."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    command: Sequence[str] = [
        sys.executable,
        "-m",
        "proxy.cli",
        "serve",
        "--config",
        str(path),
        "--port",
        "0",
        *options,
    ]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stderr=pipe, env=environment(environ or {}))
    log: list[str] = []

    async def read_on() -> None:
        assert child.stderr is not None
        while line := await child.stderr.readline():
            log.append(line.decode())

    try:
        async with asyncio.timeout(PATIENCE_S):
            url = await _listening(child, log)
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as client,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(read_on())
            async with asyncio.timeout(PATIENCE_S):
                while not await _is_ready(client):  # noqa: ASYNC110 - polls as a load balancer would
                    await asyncio.sleep(0.05)
            yield Served(child, client, log)
            if child.returncode is None:
                child.kill()
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _is_ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False
