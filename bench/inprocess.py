"""What the parts of our own proxy cost: whole exchanges through the app in one process, without sockets.

Run as ``python -m bench.inprocess``; prints JSON. The model answers at once, so all the time is the proxy's. Figures
are CPU time of the event loop's thread, the least of many short batches: foreign load only ever adds to them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, cast

import uvloop

from bench.bodies import whole_body
from bench.serve import Setup, UnrecordedGateway, build_config
from bench.targets import ROUTE
from proxy.app import App, tune_collector
from proxy.asgi import Message
from proxy.gateway import Gateway
from proxy.limited import Fuse, LimitedServer
from proxy.logs import set_up_logging
from proxy.plan import Planner, Request
from proxy.ports import CallerHeaders, Reply, ReplyStream
from proxy.stages import run_stage
from proxy.upstream import Upstream
from supervisors.errors import UpstreamError
from supervisors.testing import context, exchange

REPLY: Final = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "violet umbrella " * 54, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 150, "completion_tokens": 200, "total_tokens": 350},
    }
).encode()
BATCH: Final = 16


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A model server that answers at once."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: bytes = REPLY
    attempts: int = 1

    async def complete(self, path: str, body: bytes, headers: CallerHeaders) -> Reply:
        """Give one turn to the loop and answer."""
        await asyncio.sleep(0)
        return self

    def stream(self, path: str, body: bytes, headers: CallerHeaders) -> AbstractAsyncContextManager[ReplyStream]:
        """Refuse: only whole replies are measured here."""
        msg = "only whole replies are measured in process"
        raise UpstreamError(msg, status=501, code="not_measured", kind="protocol")


def _at_once() -> LimitedServer:
    return LimitedServer(cast("Upstream", AtOnce()), Fuse())  # the line asks only for `complete` and `stream`


class QuietGateway(Gateway):
    """A gateway whose models answer at once."""

    def answer_at_once(self) -> None:
        """Replace the models of the open runtime."""
        self._runtime = replace(self.runtime, models=dict.fromkeys(self.runtime.models, _at_once()))


class QuietUnrecordedGateway(UnrecordedGateway):
    """The same without records."""

    def answer_at_once(self) -> None:
        """Replace the models of the open runtime."""
        self._runtime = replace(self.runtime, models=dict.fromkeys(self.runtime.models, _at_once()))


async def least_us(work: Callable[[], Awaitable[None]], per_batch: int, batches: int) -> float:
    """Return the least CPU microseconds of this thread a piece of work, over many batches."""
    least = float("inf")
    for _ in range(batches):
        before = time.thread_time()
        await work()
        least = min(least, (time.thread_time() - before) / per_batch)
    return least * 1e6


async def exchanges_us(folder: Path, batches: int) -> dict[str, float]:
    """Return the cost of one exchange with 0, 3 and 13 supervisors a stage, and with 3 but no records; in turns."""
    recorded = {
        f"exchange_{number}": QuietGateway(build_config(Setup(9, folder / f"{number}.sqlite3", number, number)))
        for number in (0, 3, 13)
    }
    unrecorded = QuietUnrecordedGateway(build_config(Setup(9, folder / "none.sqlite3")))
    gateways: dict[str, QuietGateway | QuietUnrecordedGateway] = {**recorded, "unrecorded_3": unrecorded}
    found = dict.fromkeys(gateways, float("inf"))
    async with AsyncExitStack() as stack:
        for gateway in gateways.values():
            await stack.enter_async_context(gateway.serving())
            gateway.answer_at_once()
        apps = {name: App(gateway) for name, gateway in gateways.items()}
        tune_collector()
        for _ in range(batches):
            for name, app in apps.items():
                found[name] = min(found[name], await least_us(partial(_batch, app), BATCH, 1))
                if name in recorded:
                    await recorded[name].journal.flush(30)
    return found


async def _batch(app: App) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(BATCH):
            group.create_task(_exchange(app))


async def _exchange(app: App) -> None:
    body = whole_body("fast")
    headers = [(b"host", b"bench"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app({"type": "http", "method": "POST", "path": ROUTE, "headers": headers}, receive, send)
    if statuses != [200]:
        msg = f"the proxy answered {statuses}"
        raise RuntimeError(msg)


async def stage_us(number: int, batches: int) -> float:
    """Return the cost of running one stage of `number` no-op supervisors."""
    config = build_config(Setup(9, Path("unused"), number, 0))
    plan = Planner(config.policies, config.supervisors).plan(Request("fast", None, ROUTE))
    asked, given = exchange("violet umbrella " * 40), context("unused")

    async def batch() -> None:
        for _ in range(200):
            await run_stage(plan.input, plan.input.blocking, asked, given)

    return await least_us(batch, 200, batches)


async def run(batches: int) -> dict[str, float]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="bench-in-") as name:
        folder = Path(name)
        found = {f"stage_{number}": await stage_us(number, batches) for number in (0, 3, 13)}
        found |= await exchanges_us(folder, batches)
    return found


if __name__ == "__main__":
    set_up_logging("ERROR")  # that a proxy without a policy judges nothing is what is measured
    uvloop.install()
    print(json.dumps(asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 400))))
