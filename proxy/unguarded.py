"""Pass declared routes on unjudged: recorded with kind ``unguarded`` and counted; all others stay 404 (M-09)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter

from proxy.asgi import AsgiResponder, Receive, Scope, Send, read_body, read_headers, read_request_id, send_error
from proxy.declared import UnguardedRoute
from proxy.direct import take_direct
from proxy.failures import deadline_exceeded, record_unavailable, to_caller_error
from proxy.gateway import Gateway
from proxy.headers import Header
from proxy.keys import Caller, read_key
from proxy.limits import NoPlace
from proxy.ports import ClientGone
from proxy.prepare import new_id, read_task
from proxy.record import ClientEnd, Outcome, Record, UpstreamCall
from proxy.runtime import Runtime
from proxy.upstream import Passed, UpstreamStream
from proxy.wire.errors import RequestError, internal, to_reply
from supervisors.errors import StoreError, UpstreamError


def find_route(routes: Sequence[UnguardedRoute], method: str, path: str) -> UnguardedRoute | None:
    """Return the declared route of a request, with or without ``/v1`` and a trailing slash (W-02)."""
    bare = path.rstrip("/")
    full = bare if bare.startswith("/v1/") else f"/v1{bare}"
    return next((route for route in routes if route.method == method and route.covers(full)), None)


async def serve_unguarded(gateway: Gateway, route: UnguardedRoute, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request of a declared route."""
    out = AsgiResponder(receive, send)
    headers = read_headers(scope)
    direct = take_direct(scope)
    made = new_id()
    request_id = read_request_id(headers, made)
    finished = False
    try:
        runtime = gateway.enter()
        try:
            caller = runtime.keyring.authenticate(read_key(headers.get("authorization"), headers.get("x-api-key")))
            passing = Passing(runtime, route, caller, made, request_id)
            await passing.run(scope, receive, out, headers)
        finally:
            gateway.leave(runtime)
        finished = True
    except RequestError as error:
        if not out.status:
            out.status = await send_error(send, to_reply(error), request_id)
        finished = True
    finally:
        if not finished and not out.status:
            out.status = await send_error(send, to_reply(internal()), request_id)
        elif finished and direct is not None:
            direct.cut()  # what broke off; nothing where the answer is whole
        gateway.metrics.count_request(route.path, out.status or 499)


class Passing:
    """One request on its way through.

    Args:
        runtime: what it is served with.
        route: as declared.
        caller: who asks.
        record_id: id of the record to be.
        request_id: value of `x-request-id`.
    """

    def __init__(
        self, runtime: Runtime, route: UnguardedRoute, caller: Caller, record_id: str, request_id: str
    ) -> None:
        self._runtime = runtime
        self._route = route
        self._caller = caller
        self._id = record_id
        self._request_id = request_id
        self._upstream = route.upstream or next(iter(runtime.models))
        self._started = time.time()
        self._clock = perf_counter()
        self._outcome: Outcome = "answered"
        self._error_kind: str | None = None
        self._attempts = 0
        self._called = False
        self._status: int | None = None
        self._bytes = 0
        self._reserved = False
        self._task: str | None = None

    async def run(self, scope: Scope, receive: Receive, out: AsgiResponder, headers: dict[str, str]) -> None:
        """Pass the request on and the reply back, then record the call.

        Raises:
            RequestError: nothing was sent yet; the caller gets this error.
        """
        status = 500
        try:
            with self._caller.admitted():
                await self._run(scope, receive, out, headers)
            status = out.status
        except RequestError as error:
            status = out.status or error.status
            if self._outcome == "answered":
                self._outcome = "client_error" if error.status < 500 else "unavailable"
            raise
        except ClientGone:
            status = out.status or 499
            self._outcome = "cancelled"
        finally:
            self._record(status)

    async def _run(self, scope: Scope, receive: Receive, out: AsgiResponder, headers: dict[str, str]) -> None:
        runtime = self._runtime
        self._task = read_task(headers, runtime.catalogue.tasks)
        self._caller.allow_route(self._route.path)
        if headers.get("x-guardrail-add", "").strip(", "):  # a silent ignore would look like success
            message = "Nothing judges this route, so no guardrail can be added on it; leave x-guardrail-add out."
            raise RequestError(400, "invalid_guardrails", message, param="guardrails")
        if not runtime.sinks.ready():
            raise record_unavailable()
        most, attend = runtime.config.limits.max_body_bytes, runtime.pipeline.attend_alone
        body = await read_body(receive, headers, most, attend)
        self._reserved = runtime.sinks.reserve()  # whatever comes back leaves while it comes
        path: str = scope["path"].rstrip("/")
        query: bytes = scope.get("query_string", b"")
        asked = Passed(
            self._route.method, path.removeprefix("/v1"), query.decode("latin-1"), tuple(headers.items()), body
        )
        try:
            with runtime.pipeline.attend(out):
                self._called, self._attempts = True, 1
                async with runtime.models[self._upstream].forward(asked) as reply:
                    await self._pass_back(reply, out)
        except UpstreamError as error:
            self._outcome, self._error_kind, self._attempts = "upstream_error", error.kind, error.attempts
            self._status = error.answered or self._status
            self._called = self._attempts > 0
            if not out.status:
                raise to_caller_error(error) from error
        except NoPlace:
            self._called, self._attempts = False, 0
            raise
        except TimeoutError:
            self._outcome = "upstream_error"
            if not out.status:
                raise deadline_exceeded() from None

    async def _pass_back(self, reply: UpstreamStream, out: AsgiResponder) -> None:
        """Send the reply; one that breaks off stays without its end, so that the caller sees that it is cut."""
        self._status = reply.status
        given: list[Header] = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers]
        given += [(b"x-request-id", self._request_id.encode()), (b"x-guardrail-id", self._id.encode())]
        await out.start(reply.status, given)
        async for chunk in reply.chunks:
            self._bytes += len(chunk)
            await out.write(chunk)
        await out.end()

    def _record(self, status: int) -> None:
        seconds = perf_counter() - self._clock
        record = Record(
            id=self._id,
            request_id=self._request_id,
            started=self._started,
            seconds=seconds,
            kind="unguarded",
            route=self._route.path,
            stream=False,
            task=self._task,
            key_id=self._caller.key_id,
            model="",
            model_served=None,
            upstream=self._upstream,
            policies=(),
            version=self._runtime.version,
            outcome=self._outcome,
            upstream_call=UpstreamCall(
                called=self._called,
                attempts=self._attempts,
                status=self._status,
                seconds=seconds if self._called else None,
                cancelled=self._called and self._outcome == "cancelled",
                error_kind=self._error_kind,
            ),
            client=ClientEnd(
                status,
                bytes=self._bytes,
                cancelled_phase=("streaming" if self._bytes else "before_first_token")
                if self._outcome == "cancelled"
                else None,
            ),
        )
        if self._called or self._reserved:  # the reply has left, or its request has
            self._runtime.sinks.keep(record, reserved=self._reserved)
            return
        with suppress(StoreError):  # the answer is an error, nothing was passed on
            self._runtime.sinks.refuse(record)
