"""The ASGI edge: read a body within its limits, send an answer, notice that the caller has left."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from proxy.headers import Header
from proxy.ports import ClientGone
from proxy.wire.errors import ErrorReply, RequestError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Way(Protocol):
    """An answer without messages of ASGI; see `proxy.direct.Direct`."""

    @property
    def prompt(self) -> bool:
        """Say whether what is sent leaves without waiting for a slow caller."""
        ...

    @property
    def gone(self) -> bool:
        """Say whether the caller has left."""
        ...

    async def reply(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer."""
        ...

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send the head of a stream."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of it."""
        ...

    async def end(self) -> None:
        """End it."""
        ...


_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the request headers by lower-case name; the last of several wins, except for the key's, the first."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        if key in ("authorization", "x-api-key") and key in headers:
            continue
        headers[key] = value.decode("latin-1")
    return headers


def read_host(headers: Mapping[str, str]) -> str:
    """Return the host of the Host header, without port, in lower case; IPv6 addresses keep their brackets."""
    host, _, port = headers.get("host", "").strip().lower().rpartition(":")
    return host if host and port.isdecimal() else headers.get("host", "").strip().lower()


def read_request_id(headers: Mapping[str, str], made: str) -> str:
    """Return the caller's `x-request-id` if it is well formed, otherwise the one made here (W-16)."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.match(given) else made


async def read_body(
    receive: Receive,
    headers: Mapping[str, str],
    max_bytes: int,
    attend: Callable[[], AbstractContextManager[object]],
    arrived: bytes | None = None,
) -> bytes:
    """Read the whole body, decompressed; the limit applies while reading and while inflating.

    Args:
        receive: gives the parts.
        headers: of the request.
        max_bytes: most bytes, as sent and decompressed.
        attend: looks after the wait for it; TimeoutError comes out when it has lasted too long.
        arrived: the whole body as sent, if it is here already.

    Raises:
        RequestError: 408 too late, 413 beyond the limit, 415 for an encoding other than gzip, 400 for broken
            compression.
        ClientGone: the caller left before the end.
    """
    if headers.get("transfer-encoding", "chunked").strip().lower() != "chunked":
        raise RequestError(400, "unsupported_transfer_encoding", "The only transfer encoding served is chunked.")
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = await _read_in_time(receive, max_bytes, attend) if arrived is None else arrived
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        msg = f"The content encoding {encoding[:32]!r} is not supported; send gzip or none."
        raise RequestError(415, "unsupported_content_encoding", msg)
    return await asyncio.to_thread(inflate, body, max_bytes)


async def _read_in_time(
    receive: Receive, max_bytes: int, attend: Callable[[], AbstractContextManager[object]]
) -> bytes:
    try:
        with attend():
            return await _read_all(receive, max_bytes)
    except TimeoutError as error:
        raise RequestError(408, "request_timeout", "The body of the request took too long to arrive.") from error


async def _read_all(receive: Receive, max_bytes: int) -> bytes:
    first = await receive()
    if first["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = first.get("body", b"")
    return await _read_rest(receive, body, max_bytes) if first.get("more_body") else body


async def _read_rest(receive: Receive, first: bytes, max_bytes: int) -> bytes:
    parts = [first]
    size = len(first)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        if not message.get("more_body"):
            return b"".join(parts)


def inflate(body: bytes, max_bytes: int) -> bytes:
    """Decompress gzip without ever holding more than the limit."""
    engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        out = engine.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise RequestError(400, "invalid_json", "The body is not valid gzip.") from error
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not engine.eof:
        raise RequestError(400, "invalid_json", "The gzip body is truncated.")
    if engine.unused_data:
        raise RequestError(400, "invalid_json", "Bytes follow the end of the gzip body.")
    return out


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(413, "request_too_large", f"The body is larger than {max_bytes} bytes.")


async def send_error(send: Send, reply: ErrorReply, request_id: str) -> int:
    """Send an error answer and return its status."""
    headers: list[Header] = [(b"content-type", b"application/json"), (b"x-request-id", request_id.encode())]
    headers += [(name.encode(), value.encode("ascii", "replace")) for name, value in reply.headers.items()]
    await send_whole(send, reply.status, headers, reply.body)
    return reply.status


async def send_whole(send: Send, status: int, headers: Sequence[Header], body: bytes) -> None:
    """Send a whole answer; an event stream gets no length (W-03)."""
    length = [] if is_event_stream(headers) else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


def is_event_stream(headers: Sequence[Header]) -> bool:
    """Say whether an answer is a stream of events, by its content type, which comes first."""
    return bool(headers) and headers[0][0] == b"content-type" and headers[0][1].startswith(b"text/event-stream")


def also_named(send: Send, name: bytes, value: str) -> Send:
    """Return a `send` that adds one header to every answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (name, value.encode())]
        await send(message)

    return sending


async def send_methods(
    send: Send, method: str, allow: str, request_id: str, to_reply: Callable[[RequestError, str], ErrorReply]
) -> int:
    """Answer OPTIONS with 204, any other wrong method with 405; both name the right ones."""
    if method == "OPTIONS":
        headers: list[Header] = [(b"allow", allow.encode()), (b"x-request-id", request_id.encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return 204
    refused = RequestError(405, "method_not_allowed", f"This route takes {allow}.", headers={"allow": allow})
    return await send_error(send, to_reply(refused, request_id), request_id)


class AsgiResponder:
    """The way back to one caller.

    Args:
        receive: after the body it delivers nothing but the disconnect.
        send: sends messages.
        way: the way past them, where the server has one.
    """

    __slots__ = ("_receive", "_send", "_way", "status")

    def __init__(self, receive: Receive, send: Send, way: Way | None = None) -> None:
        self._receive = receive
        self._send = send
        self._way = way
        self.status = 0

    @property
    def prompt(self) -> bool:
        """Say whether a whole answer would leave without waiting; nobody knows where there is no way past messages."""
        return self._way is not None and self._way.prompt

    @property
    def gone(self) -> bool:
        """Say whether the caller is known to have left."""
        return self._way is not None and self._way.gone

    async def reply(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer."""
        self.status = status
        if self._way is None:
            await send_whole(self._send, status, headers, body)
        elif is_event_stream(headers):  # it gets no length (W-03)
            await self._way.start(status, headers)
            await self._way.write(body)
            await self._way.end()
        else:
            await self._way.reply(status, headers, body)

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send status and headers of a stream."""
        self.status = status
        if self._way is None:
            await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})
        else:
            await self._way.start(status, headers)

    async def write(self, data: bytes) -> None:
        """Send bytes of a stream."""
        if self._way is None:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        elif self._way.gone:
            raise ClientGone
        else:
            await self._way.write(data)

    async def end(self) -> None:
        """End a stream cleanly."""
        if self._way is None:
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await self._way.end()

    async def watch(self) -> None:
        """Wait until the caller leaves, then raise `ClientGone`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ClientGone
