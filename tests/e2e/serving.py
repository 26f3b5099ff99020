"""A proxy in the test's own loop: the real ASGI application behind a real loopback socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvicorn

from proxy.app import App, create_app
from proxy.config import Config
from proxy.edge import server_settings
from proxy.reload import ConfigSource
from supervisors.testing import Finds
from supervisors.types import Context, Exchange, Supervisor, Verdict, safe
from tests.e2e.fake_upstream import FakeUpstream
from tests.timing import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Serving:
    """A proxy that is up: its address, a client for it, and the application."""

    url: str
    client: httpx.AsyncClient
    app: App

    async def chat(self, text: str = "hello", **fields: Any) -> httpx.Response:
        """Send one user message."""
        return await self.client.post("/v1/chat/completions", json=chat_body(text, **fields))

    async def records(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the newest records, after everything accepted is on disk."""
        await self.app.gateway.journal.flush()
        reply = await self.client.get(f"/v1/decisions?limit={count}")
        data: list[dict[str, Any]] = reply.json()["data"]
        return data

    async def wait_records(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the newest records as soon as there are so many; shadow stages and disconnects end late."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := await self.records(count)) < count:  # noqa: ASYNC110 - polls as a client would
                await asyncio.sleep(0.01)
        return found


async def hang_up(request: Coroutine[Any, Any, httpx.Response], when: Awaitable[object]) -> None:
    """Send a request and close its connection, without a reply, once something has happened."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(request)
        await when
        task.cancel()


async def until(happened: Callable[[], bool]) -> None:
    """Return as soon as something that offers no event has happened."""
    async with asyncio.timeout(PATIENCE_S):
        while not happened():  # noqa: ASYNC110 - that is what this function is for
            await asyncio.sleep(0.01)


class Held:
    """A local supervisor that answers when it is let go."""

    local = True

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.calls = 0

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Wait, then find nothing."""
        self.calls += 1
        self.asked.set()
        await self.go.wait()
        return safe()


class BreaksLater(Finds):
    """A supervisor with a bug that shows at the word "second", in the middle of a stream."""

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Find the canary until then."""
        if any("second" in segment.text for segment in exchange.judged):
            raise RuntimeError
        return await super().assess(exchange, context)


def chat_body(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Return the body of a chat request with one user message."""
    return {"model": "gpt", "messages": [{"role": "user", "content": text}], **fields}


def tree(upstream: str, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a config tree with one upstream and one model."""
    return {
        "upstreams": {"main": {"base_url": upstream}},
        "models": {"gpt": {"upstream": "main"}},
        "journal": {"path": folder / "journal.sqlite3"},
        **parts,
    }


def policy(
    stage: Mapping[str, Any] | None = None, output: Mapping[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    """Return `policies` with one policy `default`."""
    return {"default": {"input": dict(stage or {}), "output": dict(output or {}), **rest}}


CANARY = "violet umbrella"
WORDS: Mapping[str, Supervisor] = {"words": Finds(CANARY)}
BOTH = policy({"forced": ["words"]}, {"forced": ["words"], "stream": {"window_chars": 12, "overlap_chars": 20}})


def guarded(up: FakeUpstream, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a config tree whose policy looks for the canary on both sides."""
    return tree(up.url, folder, **{"supervisors": WORDS, "policies": BOTH, **parts})


def frames_of(reply: httpx.Response) -> list[Any]:
    """Return the data of every frame, parsed; the terminator stays text."""
    lines = [line[6:] for line in reply.text.split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else orjson.loads(line) for line in lines]


def content_of(reply: httpx.Response) -> str:
    """Return the content of choice 0 as a client would join it."""
    deltas = [frame["choices"][0]["delta"] for frame in frames_of(reply) if frame != "[DONE]" and frame.get("choices")]
    return "".join([delta.get("content") or "" for delta in deltas])


@asynccontextmanager
async def serving(config: Mapping[str, Any] | Config, source: ConfigSource | None = None) -> AsyncGenerator[Serving]:
    """Serve a config while the body runs."""
    settings = config if isinstance(config, Config) else Config.model_validate(config)
    app = create_app(settings, source)
    options = server_settings(app)
    options.port = 0
    server = uvicorn.Server(options)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve())
        async with asyncio.timeout(PATIENCE_S):
            while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn offers no event
                await asyncio.sleep(0.01)
        if app.gateway.failure is not None:
            raise app.gateway.failure
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        url = f"http://{host}:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
                yield Serving(url, client, app)
        finally:
            server.should_exit = True
