"""The proxy's client of model servers: whole replies and streams, retries, errors in our words, filtered headers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

import orjson

from proxy.upstream_errors import RetryableError, from_chat, from_reply, from_transport, protocol_error, timeout_error
from proxy.upstream_headers import to_caller, to_upstream
from proxy.upstream_settings import UpstreamSettings
from supervisors.chat.retrying import retry_after
from supervisors.chat.vendors import Route, VendorCall, complete_with_vendor, stream_from_vendor
from supervisors.errors import ChatError, ReplyError, UpstreamError
from supervisors.light import light_dataclass
from supervisors.transport import (
    Headers,
    HttpClient,
    HttpRequest,
    HttpStream,
    TransportError,
    TransportLimits,
)

T = TypeVar("T")

_JSON = "application/json"
_EVENTS = "text/event-stream"
_MAX_ERROR_BYTES = 64 * 1024
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_VENDOR_ROUTES: Mapping[str, Route] = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/embeddings": "embeddings",
}


@light_dataclass(frozen=True, slots=True)
class UpstreamReply:
    """One whole reply of a model server: status 200, a JSON body not yet parsed, headers fit for the caller."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class UpstreamStream:
    """One streamed reply: status 200, headers fit for the caller, and the bytes as they come.

    Iterating `chunks` raises `UpstreamError` when the upstream fails in the middle.
    """

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that is passed on as it came.

    Args:
        method: verb in upper case.
        path: route below the base URL.
        query: what stood behind the question mark.
        headers: of the caller, lower-case; only what the settings allow, its content type and what it accepts go on.
        body: whole body.
    """

    method: str
    path: str
    query: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


class Upstream:
    """One model server.

    Args:
        settings: where it is and how it is treated.
        client: shared HTTP client, or None for one of its own with the times of the settings.
        seed: of the jitter between attempts.
    """

    def __init__(
        self, settings: UpstreamSettings, client: HttpClient | None = None, *, seed: int | None = None
    ) -> None:
        self._settings = settings
        self._base_url = (settings.base_url or "").rstrip("/")
        limits = TransportLimits(
            connect_s=settings.connect_s,
            read_s=settings.idle_s,
            max_connections=settings.max_connections,
            max_reply_bytes=settings.max_reply_bytes,
        )
        self._owned = client is None
        self._client = client or HttpClient(limits, proxy=settings.proxy, allow_link_local=settings.allow_link_local)
        self._secrets = tuple([secret for secret in (settings.api_key, settings.base_url, *settings.secrets) if secret])
        self._own_headers = {accept: _own_headers(settings, accept) for accept in (_JSON, _EVENTS)}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._random = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing

    async def aclose(self) -> None:
        """Close idle connections; replies under way end normally."""
        if self._owned:
            await self._client.aclose()

    async def complete(
        self, path: str, body: bytes, headers: Headers = (), *, timeout_s: float | None = None
    ) -> UpstreamReply:
        """Ask for a whole reply.

        Args:
            path: route below the base URL, e.g. ``/chat/completions``.
            body: JSON object.
            headers: of the caller; only what the settings allow is passed on.
            timeout_s: what is left of the request's deadline; the upstream's own limit holds too.

        Raises:
            UpstreamError: no usable reply; status, code and message are what the caller may see.
        """
        until = self._until(timeout_s)
        if path in self._settings.lacks:
            raise _no_route()
        if self._uses_litellm(path):
            plain = await self._complete_with_vendor(self._vendor_call(path, body, until))
            return UpstreamReply(200, (("content-type", "application/json"),), orjson.dumps(plain))
        sent = self._headers(path, headers, _JSON)
        try:
            return await self._complete_once(path, body, sent, until)
        except RetryableError as error:
            again = await self._retry(error, until, lambda: self._complete_once(path, body, sent, until))
            return replace(again.value, attempts=again.attempts)

    def stream(
        self, path: str, body: bytes, headers: Headers = (), *, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[UpstreamStream]:
        """Ask for a streamed reply; leaving the context early cancels the upstream at once.

        Args:
            path: as for `complete`.
            body: as for `complete`, with ``stream: true`` in it.
            headers: as for `complete`.
            timeout_s: until the stream begins.

        Raises:
            UpstreamError: the stream did not begin; while it flows, iterating `chunks` raises it.
        """
        until = self._until(timeout_s)
        if self._uses_litellm(path):
            return _stream_from_vendor(self._vendor_call(path, body, until))
        sent = self._headers(path, headers, _EVENTS)
        return _Opened(lambda: self._open(path, body, sent, until))

    async def _open(self, path: str, body: bytes, sent: Headers, until: float) -> _After[HttpStream]:
        try:
            return _After(await self._open_once(path, body, sent, until), 1)
        except RetryableError as error:
            return await self._retry(error, until, lambda: self._open_once(path, body, sent, until))

    @asynccontextmanager
    async def forward(self, request: Passed, *, timeout_s: float | None = None) -> AsyncGenerator[UpstreamStream]:
        """Pass on a request of a route that is not judged: any method and body, and any status below 300.

        Raises:
            UpstreamError: the reply did not begin, or says error; while it flows, iterating `chunks` raises it.
        """
        if self._uses_litellm(request.path):
            msg = "this model server has no such route"
            raise UpstreamError(msg, status=404, code="unknown_route", kind="protocol")
        until = self._until(timeout_s)
        own = [pair for pair in self._own_headers[_JSON] if pair[0] not in ("content-type", "accept")]
        asked = self._passed_on(request.path, request.headers)
        kept = [pair for pair in request.headers if pair[0] in ("content-type", "accept")]
        url = self._base_url + request.path + (f"?{request.query}" if request.query else "")
        sent = HttpRequest(request.method, url, (*own, *asked, *kept), request.body, until=until)
        reply = self._client.stream(sent)
        try:
            await reply.open()
            if not 200 <= reply.status < 300:
                raise from_reply(await reply.read_reply(_MAX_ERROR_BYTES), self._secrets)
            yield UpstreamStream(reply.status, to_caller(reply.headers), _Chunks(reply))
        except TransportError as error:
            raise from_transport(error) from None
        finally:
            reply.close()

    # One attempt

    async def _complete_once(self, path: str, body: bytes, sent: Headers, until: float) -> UpstreamReply:
        request = HttpRequest("POST", self._base_url + path, sent, body, until=until)
        try:
            reply = await self._client.send(request)
        except TransportError as error:
            raise from_transport(error) from None
        if reply.status != 200:
            raise from_reply(reply, self._secrets)
        if "json" not in (reply.header("content-type") or "").lower() or not reply.body.strip():
            raise protocol_error("the model server's reply is not JSON", reply.status)
        return UpstreamReply(reply.status, to_caller(reply.headers), reply.body)

    async def _open_once(self, path: str, body: bytes, sent: Headers, until: float) -> HttpStream:
        stream = self._client.stream(HttpRequest("POST", self._base_url + path, sent, body, until=until))
        usable = False
        try:
            await stream.open()
            if stream.status != 200:
                async with asyncio.timeout_at(until):
                    reply = await stream.read_reply(_MAX_ERROR_BYTES)
                raise from_reply(reply, self._secrets)
            if "text/event-stream" not in (stream.header("content-type") or "").lower():
                raise protocol_error("the model server did not answer with a stream", stream.status)
            usable = True
        except TransportError as error:
            raise from_transport(error) from None
        except TimeoutError:
            raise timeout_error() from None
        else:
            return stream
        finally:
            if not usable:
                stream.close()

    async def _retry(self, failed: RetryableError, until: float, attempt: Callable[[], Awaitable[T]]) -> _After[T]:
        attempts = 1

        def wait_s(_: RetryableError, number: int) -> float:
            return self._random.uniform(0.5, 1.0) * min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (number - 1))

        def enough(error: RetryableError, number: int) -> bool:
            return not error.loading and number > self._settings.retries

        async def again() -> T:
            nonlocal attempts
            attempts += 1
            return await attempt()

        try:
            return _After(await retry_after(failed, again, RetryableError, wait_s, enough, until), attempts)
        except UpstreamError as error:
            last = error.cause if isinstance(error, RetryableError) else error
            last.attempts = attempts
            raise last from None

    # What is sent

    def _until(self, timeout_s: float | None) -> float:
        limit_s = self._settings.timeout_s if timeout_s is None else min(timeout_s, self._settings.timeout_s)
        if self._loop is None:  # asked for once: finding it is a call of the kernel
            self._loop = asyncio.get_running_loop()
        return self._loop.time() + limit_s

    def _headers(self, path: str, headers: Headers, accept: str) -> Headers:
        if not headers:
            return self._own_headers[accept]
        return (*self._own_headers[accept], *self._passed_on(path, headers))

    def _passed_on(self, path: str, headers: Headers) -> list[tuple[str, str]]:
        return to_upstream(path, headers, self._settings.forward_headers, trace=self._settings.propagate_trace)

    # Other vendors

    def _uses_litellm(self, path: str) -> bool:
        if self._settings.vendor == "openai":
            return False
        return not (self._settings.vendor == "anthropic" and path.startswith("/messages") and self._base_url)

    def _vendor_call(self, path: str, body: bytes, until: float) -> VendorCall:
        route = _VENDOR_ROUTES.get(path)
        if route is None:
            raise _no_route()
        fields = cast("dict[str, Any]", orjson.loads(body))
        settings = self._settings
        model = str(fields.get("model"))
        url, key, own = settings.base_url, settings.api_key, settings.extra_headers
        return VendorCall(settings.vendor, model, route, fields, _remaining(until), url, key, own)

    @staticmethod
    async def _complete_with_vendor(call: VendorCall) -> dict[str, Any]:
        try:
            return await complete_with_vendor(call)
        except (ChatError, ReplyError) as error:
            raise from_chat(error) from None


def _own_headers(settings: UpstreamSettings, accept: str) -> Headers:
    found = [("content-type", _JSON), ("accept", accept), ("user-agent", "guardrail-proxy")]
    if settings.api_key is not None and settings.vendor == "anthropic":
        found.append(("x-api-key", settings.api_key))
    elif settings.api_key is not None:
        found.append(("authorization", f"Bearer {settings.api_key}"))
    fixed = {name.lower() for name, _ in settings.extra_headers}
    return (*[pair for pair in found if pair[0] not in fixed], *settings.extra_headers)


@asynccontextmanager
async def _stream_from_vendor(call: VendorCall) -> AsyncGenerator[UpstreamStream]:
    async with aclosing(_vendor_frames(call)) as frames:
        first = await anext(frames)  # an error up to here still has a status of its own (W-05)
        headers = (("content-type", "text/event-stream; charset=utf-8"),)
        yield UpstreamStream(200, headers, _Rest(first, frames))


async def _vendor_frames(call: VendorCall) -> AsyncGenerator[bytes]:
    """Yield the vendor's chunks as server-sent events: what is judged is what is sent."""
    try:
        async with aclosing(stream_from_vendor(call)) as chunks:
            async for chunk in chunks:
                yield b"data: " + orjson.dumps(chunk) + b"\n\n"
    except (ChatError, ReplyError) as error:
        raise from_chat(error) from None
    yield b"data: [DONE]\n\n"


class _Rest:
    """A first piece that was awaited already, and then the others."""

    def __init__(self, first: bytes, others: AsyncIterator[bytes]) -> None:
        self._first: bytes | None = first
        self._others = others

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        return await anext(self._others) if first is None else first


@dataclass(frozen=True, slots=True)
class _After(Generic[T]):
    """What came in the end, after so many attempts."""

    value: T
    attempts: int


class _Opened(AbstractAsyncContextManager[UpstreamStream]):
    """A streamed reply of the model server, from its head to its end."""

    def __init__(self, opening: Callable[[], Awaitable[_After[HttpStream]]]) -> None:
        self._opening = opening
        self._reply: HttpStream | None = None

    async def __aenter__(self) -> UpstreamStream:
        opened = await self._opening()
        reply = self._reply = opened.value
        return UpstreamStream(reply.status, to_caller(reply.headers), _Chunks(reply), opened.attempts)

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self._reply is not None:
            self._reply.close()


class _Chunks:
    """The bytes of a stream, with its errors in our words. No generator: nothing is left to finalise."""

    def __init__(self, reply: HttpStream) -> None:
        self._reply = reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._reply)
        except TransportError as error:
            raise from_transport(error) from None


def _no_route() -> UpstreamError:
    msg = "The model server of this model does not serve this route."
    error = UpstreamError(msg, status=404, code="unknown_route", kind="protocol")
    error.attempts = 0
    return error


def _remaining(until: float) -> float:
    """Return the seconds left.

    Raises:
        UpstreamError: none are.
    """
    remaining_s = until - asyncio.get_running_loop().time()
    if remaining_s <= 0:
        raise timeout_error()
    return remaining_s
