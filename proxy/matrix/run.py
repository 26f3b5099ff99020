"""Run the matrix: the real application in process, each place once a way of delivery, every record read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import orjson

from proxy.app import App, create_app
from proxy.config import Config
from proxy.matrix import chat, messages, responses
from proxy.matrix.cells import BOTH, PLAIN, WHOLE, Body, Cell, Delivery, Place
from proxy.matrix.frames import PIECE_CHARS
from proxy.matrix.judging import Exchanged, judge_all, reply_holds, sent_holds
from proxy.matrix.lanes import Lane, find_lanes
from proxy.matrix.server import Scripted, scripted
from proxy.matrix.standing import Standing, stand
from proxy.misrouted import CHECK_ROUTE
from proxy.store.protocol import Filters
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.messages import MESSAGES
from proxy.wire.moderations import MODERATIONS
from proxy.wire.responses import RESPONSES
from supervisors.errors import GuardrailError

ROUTES: Final = (
    CHAT.route,
    COMPLETIONS.route,
    RESPONSES.route,
    MESSAGES.route,
    EMBEDDINGS.route,
    MODERATIONS.route,
    CHECK_ROUTE,
)
_TIMEOUT_S: Final = 60.0
_SETTLE_S: Final = 15.0
"""How long the journal may take to hold the last record."""
_POLL_S: Final = 0.02
_NEVER_JUDGED: Final = frozenset({401, 403, 404, 405, 413, 429})


class MatrixError(GuardrailError):
    """The matrix could not be run to its end; it says nothing about the config's coverage."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """What came of a run.

    Args:
        cells: every cell.
        stand_ins: supervisors that could not be scripted.
        unsound: routes on which a harmless exchange does not pass, so that a block there proves nothing.
        unguarded: declared routes that nobody judges.
    """

    cells: Sequence[Cell]
    stand_ins: Sequence[str]
    unsound: Sequence[str]
    unguarded: Sequence[str]


def places_of(lane: Lane) -> Iterator[Place]:
    """Yield the places of a lane's route."""
    match lane.route:
        case CHAT.route:
            yield from (*chat.chat_inputs(), *chat.chat_outputs())
        case COMPLETIONS.route:
            yield from (*chat.completion_inputs(), *chat.completion_outputs())
        case RESPONSES.route:
            yield from (*responses.response_inputs(), *responses.response_outputs())
        case MESSAGES.route:
            yield from messages.message_inputs()
            yield from messages.message_outputs() if lane.native else messages.translated_outputs()
        case EMBEDDINGS.route:
            yield from chat.embedding_inputs()
        case MODERATIONS.route:
            yield from chat.moderation_inputs()
        case _:
            yield from chat.check_places()


def controls_of(lane: Lane) -> Iterator[Place]:
    """Yield a harmless exchange for each stage of a lane's route."""
    body: Body = {
        CHAT.route: chat.asked(),
        COMPLETIONS.route: {"prompt": PLAIN},
        RESPONSES.route: responses.asked(),
        MESSAGES.route: messages.asked(),
        CHECK_ROUTE: {"stage": "both", **chat.asked(), "reply": chat.message_of({"content": PLAIN})},
    }.get(lane.route, {"input": PLAIN})
    streams = lane.route in (CHAT.route, COMPLETIONS.route, RESPONSES.route, MESSAGES.route)
    yield Place(lane.route, "input", "user", "-", "text", "control", body, deliveries=BOTH if streams else WHOLE)


@dataclass(slots=True)
class _Walk:
    """One application and everything sent through it.

    Args:
        app: the proxy, serving.
        client: reaches it in process.
        standing: its config.
        script: the servers behind it.
        prefix: of the request ids.
    """

    app: App
    client: httpx.AsyncClient
    standing: Standing
    script: Scripted
    prefix: str
    sent: list[Exchanged] = field(default_factory=list[Exchanged])

    async def send(self, lane: Lane, place: Place, delivery: Delivery, *, control: bool = False) -> None:
        """Send one exchange and note what became visible of it."""
        self.script.expect(place.reply, PIECE_CHARS if delivery == "split" else None)
        body: Body = {**place.body, "model": lane.model}
        if delivery != "whole":
            body["stream"] = True
        request_id = f"{self.prefix}-{len(self.sent)}"
        headers = {"x-request-id": request_id, "anthropic-version": "2023-06-01"}
        if lane.key is not None:
            headers["authorization"] = f"Bearer {self.standing.keys[lane.key]}"
        reply = await self.client.post(place.route, content=orjson.dumps(body), headers=headers)
        leaked = sent_holds(self.script.received) if place.stage == "input" else reply_holds(reply.content)
        if control and reply.status_code in _NEVER_JUDGED:
            msg = (
                f"the matrix cannot run: a harmless exchange on {place.route} is answered with {reply.status_code} "
                f"before anybody judges it: {reply.text[:300]}"
            )
            raise MatrixError(msg)
        self.sent.append(Exchanged(lane, place, delivery, request_id, reply.status_code, leaked, control))

    async def records(self) -> dict[str, Mapping[str, Any]]:
        """Return the records of everything sent, by request id, once all of them are there."""
        found: dict[str, Mapping[str, Any]] = {}
        try:
            async with asyncio.timeout(_SETTLE_S):
                while len(found) < len(self.sent):
                    found = await self._written()
                    await asyncio.sleep(0 if len(found) == len(self.sent) else _POLL_S)
        except TimeoutError:
            lost = [one for one in self.sent if one.request_id not in found]
            first = f"the first is {lost[0].place.route}, {lost[0].place.shape}, answered with {lost[0].status}"
            msg = f"the matrix cannot be read: {len(lost)} of {len(self.sent)} exchanges left no record; {first}"
            raise MatrixError(msg) from None
        return found

    async def _written(self) -> dict[str, Mapping[str, Any]]:
        journal = self.app.gateway.journal
        await journal.flush()
        found: dict[str, Mapping[str, Any]] = {}
        after = None
        while page := await journal.find(Filters(limit=1000, after=after)):
            found |= {row["request_id"]: row for row in page}
            after = page[-1]["id"]
        return found


@asynccontextmanager
async def _walking(config: Config, script: Scripted, *, native: bool) -> AsyncGenerator[_Walk]:
    with TemporaryDirectory(prefix="guardrail-matrix-") as folder:
        standing = stand(config, script.origin, Path(folder), native=native)
        script.responders.update(standing.responders)
        app = create_app(standing.config)
        transport = httpx.ASGITransport(app=app)
        async with (
            app.gateway.serving(),
            httpx.AsyncClient(transport=transport, base_url="http://matrix", timeout=_TIMEOUT_S) as client,
        ):
            yield _Walk(app, client, standing, script, "native" if native else "plain")


async def run_matrix(config: Config, routes: Sequence[str] = ROUTES, every: int = 1) -> Matrix:
    """Send the canary to every place of the routes and say what came of it.

    Args:
        config: as validated; nothing outside this process is called.
        routes: route templates.
        every: take each n-th place only, for a quick look.
    """
    cells: list[Cell] = []
    unsound: list[str] = []
    stand_ins: list[str] = []
    lanes = [lane for route in routes for lane in find_lanes(config, route)]
    async with scripted() as script:
        for native in (False, True):
            own = [lane for lane in lanes if lane.native is native]
            if not own:
                continue
            async with _walking(config, script, native=native) as walk:
                for lane in own:
                    await _walk_lane(walk, lane, every)
                judged = judge_all(walk.sent, await walk.records(), config.supervisors)
                cells += judged.cells
                unsound += judged.unsound
                stand_ins = list(walk.standing.stand_ins)
    declared = [f"{route.method} {route.path}" for route in config.unguarded_routes]
    return Matrix(cells, stand_ins, unsound, declared)


async def _walk_lane(walk: _Walk, lane: Lane, every: int) -> None:
    for place in controls_of(lane):
        for delivery in place.deliveries:
            await walk.send(lane, place, delivery, control=True)
    for place in list(places_of(lane))[::every]:
        for delivery in place.deliveries:
            await walk.send(lane, place, delivery)
