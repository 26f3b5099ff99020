"""The composition root: a plain ASGI callable that serves the judged routes itself and hands the rest to FastAPI."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Final

from proxy.admin import create_admin
from proxy.asgi import (
    AsgiResponder,
    Message,
    Receive,
    Scope,
    Send,
    also_named,
    read_body,
    read_headers,
    read_host,
    read_request_id,
    send_error,
    send_methods,
)
from proxy.config import Config
from proxy.direct import Direct, take_direct
from proxy.early import record_gone, record_refused
from proxy.gateway import Gateway
from proxy.keys import read_key
from proxy.limits import SLOW_BYTES
from proxy.moderate import Moderating
from proxy.ports import ClientGone
from proxy.prepare import Arrival, IdSource, new_id, prepare
from proxy.reload import Source
from proxy.runtime import Runtime
from proxy.unguarded import find_route, serve_unguarded
from proxy.wire.adapter import Adapter
from proxy.wire.body import parse_body
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.errors import RequestError, internal, openai_reply, to_reply
from proxy.wire.forms import model_of
from proxy.wire.messages import MESSAGES
from proxy.wire.moderations import MODERATIONS
from proxy.wire.responses import RESPONSES
from supervisors.errors import GuardrailError

log = logging.getLogger(__name__)

FAMILIES: Final[tuple[Adapter, ...]] = (CHAT, COMPLETIONS, EMBEDDINGS, MODERATIONS, RESPONSES, MESSAGES)
ADAPTERS: Final[Mapping[str, Adapter]] = {
    path: adapter for adapter in FAMILIES for path in (adapter.route, adapter.route.removeprefix("/v1"))
}
_PROBES: Final = frozenset({"/livez", "/readyz"})
_ID_NAMES: Final[Mapping[str, bytes]] = {MESSAGES.route: b"request-id"}
"""A second name of `x-request-id` where the vendor's SDK reads no other (W-16)."""
_BARE: Final = frozenset({"models", "guardrails", "decisions"})


def create_app(config: Config, source: Source | None = None) -> App:
    """Return the ASGI application of a validated config, which may be read again from its source."""
    return App(Gateway(config, source))


class App:
    """The ASGI callable.

    Args:
        gateway: what it serves with.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._ids = IdSource()
        self._admin = create_admin(gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        if self.gateway.hosts and not self._is_known_host(scope):
            await self._refuse_host(scope, send)
            return
        path: str = scope["path"]
        adapter = ADAPTERS.get(path) or ADAPTERS.get(path.rstrip("/"))
        if adapter is not None and scope["method"] == "POST":
            await self._serve(adapter, scope, receive, send)
        else:
            await self._serve_other(adapter, scope, receive, send)

    def _is_known_host(self, scope: Scope) -> bool:
        """Say whether the Host header names us; probes by address reach the two health routes (X-04)."""
        if scope["path"] in _PROBES:
            return True
        given = [name for name, _ in scope["headers"] if name == b"host"]
        return len(given) == 1 and read_host(read_headers(scope)) in self.gateway.hosts

    async def _refuse_host(self, scope: Scope, send: Send) -> None:
        request_id = read_request_id(read_headers(scope), new_id())
        refused = RequestError(421, "unknown_host", "This proxy does not answer under that host name.")
        self.gateway.metrics.count_request("other", await send_error(send, to_reply(refused), request_id))

    async def _serve_other(self, adapter: Adapter | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what is not judged; every answer carries the request id (W-16)."""
        declared = find_route(self.gateway.config.unguarded_routes, scope["method"], scope["path"])
        if declared is not None:
            await serve_unguarded(self.gateway, declared, scope, receive, send)
            return
        request_id = read_request_id(read_headers(scope), new_id())
        path = canonical_path(scope["path"])
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        send = _name_id(send, adapter, request_id)
        if scope["method"] == "OPTIONS" or adapter is not None:
            to_reply = adapter.error_reply if adapter else openai_reply
            allow = "POST" if adapter else "GET, HEAD, POST"
            status = await send_methods(send, scope["method"], allow, request_id, to_reply)
        else:
            method = "GET" if scope["method"] == "HEAD" else scope["method"]  # the server leaves the body out
            inner = {**scope, "method": method, "path": path, "raw_path": path.encode(), "request_id": request_id}
            await self._admin(inner, receive, send_with_id)
        self.gateway.metrics.count_request(path if adapter is None else adapter.route, status)

    async def _serve(self, adapter: Adapter, scope: Scope, receive: Receive, send: Send) -> None:
        started, clock = time.time(), perf_counter()
        headers = read_headers(scope)
        made = self._ids.make(started)
        request_id = read_request_id(headers, made)
        send = _name_id(send, adapter, request_id)
        direct = take_direct(scope)
        out = AsgiResponder(receive, send, None if adapter.route in _ID_NAMES else direct)
        finished = False
        try:
            runtime = self.gateway.enter()
            try:
                caller = runtime.keyring.authenticate(read_key(headers.get("authorization"), headers.get("x-api-key")))
                arrival = Arrival(made, request_id, adapter, caller, headers, started, clock)
                if caller.allowance is None:
                    await self._judge(runtime, arrival, out, receive, direct)
                else:
                    await self._judge_admitted(runtime, arrival, out, receive, direct)
            finally:
                self.gateway.leave(runtime)
            finished = True
        except RequestError as error:
            out.status = await send_error(send, adapter.error_reply(error, request_id), request_id)
            finished = True
        except ClientGone:
            finished = True
        finally:
            if not finished and not out.status:
                out.status = await send_error(send, adapter.error_reply(internal(), request_id), request_id)
            self.gateway.metrics.count_request(adapter.route, out.status or 499)

    async def _judge_admitted(
        self, runtime: Runtime, arrival: Arrival, out: AsgiResponder, receive: Receive, direct: Direct | None
    ) -> None:
        """Judge what the rate of the caller allows; what it does not is recorded as refused."""
        admitted = False
        try:
            with arrival.caller.admitted():
                admitted = True
                await self._judge(runtime, arrival, out, receive, direct)
        except RequestError as error:
            if not admitted:
                record_refused(runtime, arrival, "", error)
            raise

    async def _judge(
        self, runtime: Runtime, arrival: Arrival, out: AsgiResponder, receive: Receive, direct: Direct | None
    ) -> None:
        model = ""
        try:
            arrival.caller.allow_route(arrival.adapter.route)
            limits, attend = runtime.config.limits, runtime.pipeline.attend_alone
            arrived = None if direct is None else direct.take_body()
            raw = await read_body(receive, arrival.headers, limits.max_body_bytes, attend, arrived)
            slow = len(raw) > SLOW_BYTES
            if slow:  # in a thread, so that the loop goes on
                body = await asyncio.to_thread(parse_body, raw, limits.max_json_depth)
            else:
                body = parse_body(raw, limits.max_json_depth)
            model = model_of(body)
            if arrival.adapter is MODERATIONS:
                read = partial(Moderating.read, runtime, arrival, body, len(raw))
                moderating = await asyncio.to_thread(read) if slow else read()
                await moderating.run(out)
                return
            call = prepare(arrival, body, runtime.catalogue, len(raw))
        except RequestError as error:
            record_refused(runtime, arrival, model, error)
            raise
        except ClientGone:  # while its body was arriving
            record_gone(runtime, arrival, model)
            raise
        await runtime.pipeline.run(call, runtime.model_for(call), out)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        started = False
        try:
            async with self.gateway.serving():
                tune_collector()
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except BaseException as error:
            if isinstance(error, Exception):  # whatever it is: a process that cannot serve must not stay
                self.gateway.failure = error
            if started or not isinstance(error, GuardrailError | OSError):
                raise
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def canonical_path(path: str) -> str:
    """Return the route of a path: no trailing slash, and with `/v1` where a client left it out (W-02).

    The console's folder keeps its slashes: what its redirect is relative to depends on them.
    """
    bare = path.rstrip("/") or "/"
    if bare == "/console":
        return path
    head = bare.split("/", 2)[1] if bare.startswith("/") else ""  # the target of OPTIONS may be *
    return f"/v1{bare}" if head in _BARE else bare


def _name_id(send: Send, adapter: Adapter | None, request_id: str) -> Send:
    name = _ID_NAMES.get(adapter.route) if adapter is not None else None
    return send if name is None else also_named(send, name, request_id)


def tune_collector() -> None:
    """Keep the collector away from start-up objects and from short bursts.

    Source: the measured effect on tail latency in docs/performance.md, "Garbage collection".
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
