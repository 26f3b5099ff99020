"""The Python servers that the bench measures: the proxy itself in several set-ups, and the relays it is compared with.

``python -m bench.serve guarded --port 1 --upstream 2 --journal FILE``: the server class, the app and the config tree
are those of ``guardrail-proxy serve``; only the no-op supervisors are made here, because no config file can name them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import uvicorn

from bench.bodies import BEHAVIOURS
from proxy.app import App
from proxy.asgi import Receive, Scope, Send, read_body, read_headers
from proxy.call import Call, Progress
from proxy.commands.serve import DrainingServer, listen
from proxy.config import Config
from proxy.edge import server_settings
from proxy.gateway import Gateway
from proxy.logs import set_up_logging
from proxy.pipeline import Pipeline
from proxy.ports import Settings
from proxy.record import Begun, Record
from proxy.runtime import open_runtime
from supervisors.testing import Always
from supervisors.transport import HttpClient, HttpRequest

NO_STREAM_WINDOW: Final = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """How the proxy under test is configured.

    Args:
        upstream: port of the fake upstream.
        journal: SQLite file.
        inputs: number of no-op supervisors on input.
        outputs: number of no-op supervisors on output.
        window_chars: stream window; 1 judges every chunk, 0 keeps the default of the product.
        judges: models of the fake upstream that judge the input as language models do.
        parallel: the input stage runs beside the upstream call.
        vote: the judges are members of one majority panel.
    """

    upstream: int
    journal: Path
    inputs: int = 3
    outputs: int = 3
    window_chars: int = NO_STREAM_WINDOW
    judges: tuple[str, ...] = ()
    parallel: bool = False
    vote: bool = False


def build_config(setup: Setup) -> Config:
    """Return the config of the proxy under test."""
    base = f"http://127.0.0.1:{setup.upstream}"
    supervisors: dict[str, Any] = {f"in{n}": Always() for n in range(setup.inputs)}
    supervisors |= {f"out{n}": Always() for n in range(setup.outputs)}
    judges: dict[str, Any] = {
        name: {"use": "judge", "model": name, "url": f"{base}{BEHAVIOURS[name]}/v1"} for name in setup.judges
    }
    if setup.vote:
        judges = {"panel": {"use": "vote", "strategy": "majority", "members": judges}}
    stream: dict[str, Any] = {"window_chars": setup.window_chars, "overlap_chars": 0} if setup.window_chars else {}
    policy: dict[str, Any] = {
        "input": {
            "forced": [f"in{n}" for n in range(setup.inputs)] + list(judges),
            "mode": "parallel" if setup.parallel else "blocking",
        },
        "output": {"forced": [f"out{n}" for n in range(setup.outputs)], "stream": stream},
    }
    return Config.model_validate(
        {
            "upstreams": {name: {"base_url": f"{base}{options}/v1"} for name, options in BEHAVIOURS.items()},
            "models": {name: {"upstream": name} for name in BEHAVIOURS},
            "supervisors": supervisors | judges,
            "policies": {"bench": policy} if setup.inputs + setup.outputs + len(judges) else {},
            "journal": {"path": str(setup.journal)},
            "server": {"drain_grace_s": 0},
        }
    )


class NoJournal:
    """A journal that keeps nothing: what the proxy costs without records."""

    boot = "none"
    healthy = True
    backlog = 0
    lost = 0
    accepted = 0
    failure = None

    def begin(self, begun: Begun) -> None:
        """Drop the note."""

    def forget(self, record_id: str) -> None:
        """Drop it again."""

    def reserve(self) -> bool:
        """Say that there is a place."""
        return True

    def keep(self, record: Record, *, reserved: bool = False) -> None:
        """Drop the record."""

    def accept(self, record: Record, *, reserved: bool = False) -> None:
        """Drop the record."""

    async def flush(self, timeout_s: float = 5.0) -> None:
        """Nothing waits."""

    async def archive_config(self, version: str, text: str) -> None:
        """Keep nothing."""

    async def get(self, key: str) -> Sequence[Any]:
        """Find nothing."""
        return ()

    async def find(self, filters: object) -> Sequence[Any]:
        """Find nothing."""
        return ()

    async def aclose(self) -> None:
        """Nothing is open."""


class NoSinks:
    """Where facts go that nobody keeps: neither record nor metric is made."""

    def ready(self) -> bool:
        """Take everything."""
        return True

    def reserve(self) -> bool:
        """Say that no record comes."""
        return False

    def begin(self, call: Call, progress: Progress) -> Awaitable[None] | None:
        """Note nothing."""

    def finish(self, call: Call, progress: Progress) -> None:
        """Keep nothing."""


class UnrecordedGateway(Gateway):
    """A gateway that neither records nor counts exchanges, to measure what recording costs."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve without a journal."""
        async with open_runtime(self.config, NoJournal(), self.metrics) as runtime:
            settings = Settings(self.config.expose, self.config.limits.request_timeout_s, runtime.open_contexts)
            self._runtime = replace(runtime, pipeline=Pipeline(settings, NoSinks()))
            yield
            self._runtime = None


class UntunedGateway(Gateway):
    """A gateway under Python's own collector settings, to measure what tuning them gains."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve, and undo the tuning that the app does when it is up."""
        async with super().serving():
            asyncio.get_running_loop().call_later(0.2, _untune_collector)
            yield


def _untune_collector() -> None:
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass bytes to the upstream named in the path (``/PORT/...``) and back, with our own client: the raw relay."""
    if scope["type"] != "http":
        return
    client = _client()
    headers = read_headers(scope)
    body = await read_body(receive, headers, 1 << 26, nullcontext)
    port, _, path = scope["path"][1:].partition("/")
    sent = (("content-type", "application/json"),)
    async with client.stream(HttpRequest("POST", f"http://127.0.0.1:{port}/{path}", sent, body, 60.0)) as reply:
        kind = (reply.header("content-type") or "").encode()
        await send({"type": "http.response.start", "status": reply.status, "headers": [(b"content-type", kind)]})
        async for chunk in reply:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def pass_through(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass a whole reply through with aiohttp: the plain ASGI baseline of PF-42."""
    if scope["type"] != "http":
        return
    body = await read_body(receive, read_headers(scope), 1 << 26, nullcontext)
    port, _, path = scope["path"][1:].partition("/")
    async with _session().post(f"http://127.0.0.1:{port}/{path}", data=body, headers=_JSON) as reply:
        answer: bytes = await reply.read()
        status: int = reply.status
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


_JSON = {"content-type": "application/json"}
_open: dict[str, Any] = {}


def _client() -> HttpClient:
    if "client" not in _open:
        _open["client"] = HttpClient()
    client: HttpClient = _open["client"]
    return client


def _session() -> Any:
    if "session" not in _open:
        aiohttp = importlib.import_module("aiohttp")
        _open["session"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256))
    return _open["session"]


GATEWAYS: Final = {"guarded": Gateway, "unrecorded": UnrecordedGateway, "untuned": UntunedGateway}


def main() -> None:
    """Read the command line and serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*GATEWAYS, "relay", "aiohttp"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("bench.sqlite3"))
    parser.add_argument("--inputs", type=int, default=3)
    parser.add_argument("--outputs", type=int, default=3)
    parser.add_argument("--window-chars", type=int, default=NO_STREAM_WINDOW)
    parser.add_argument("--judges", default="")
    parser.add_argument("--parallel", action="store_true")
    parser.add_argument("--vote", action="store_true")
    args = parser.parse_args()
    set_up_logging("WARNING")
    judges = tuple([name for name in args.judges.split(",") if name])
    setup = Setup(
        args.upstream, args.journal, args.inputs, args.outputs, args.window_chars, judges, args.parallel, args.vote
    )
    listener = listen("127.0.0.1", args.port)
    if args.kind in ("relay", "aiohttp"):
        app = relay if args.kind == "relay" else pass_through
        uvicorn.Server(server_settings(app, lifespan="off", end_s=5)).run(sockets=[listener])
        return
    gateway = GATEWAYS[args.kind](build_config(setup))
    server = DrainingServer(server_settings(App(gateway), end_s=5), gateway)
    server.run(sockets=[listener])
    sys.exit(gateway.failure is not None)


if __name__ == "__main__":
    main()
