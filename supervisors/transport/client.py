"""The HTTP client: whole replies and streams over a pool of kept-alive connections."""

from __future__ import annotations

import asyncio
import ssl
from typing import Self

from supervisors.transport.connection import Connection
from supervisors.transport.decoding import Decoder
from supervisors.transport.dialing import Dialer, Proxy
from supervisors.transport.messages import (
    Headers,
    HttpReply,
    HttpRequest,
    TransportError,
    TransportLimits,
    find_header,
    parse_target,
    render_head,
)
from supervisors.transport.pool import Lease, Outgoing, Pool

_DEFAULT_LIMITS = TransportLimits()
_STREAM_STEP_BYTES = 16 * 2**20
"""Largest decoded form of one piece of a compressed stream; more is an attack."""


class HttpClient:
    """Send requests over kept-alive HTTP/1.1 connections. Redirects are never followed, the environment is not read.

    Cancelling a call closes its connection at once. A connection that the peer had closed while it was idle is
    replaced once, before any byte of a reply was seen.

    Args:
        limits: times, sizes and sockets.
        tls: context for https; None uses the default one (system trust store, host names checked).
        proxy: ``http://[user:password@]host:port``, or None.
        allow_link_local: accept names that resolve to link-local and metadata addresses.

    Raises:
        ValueError: `proxy` is not of that form.
    """

    def __init__(
        self,
        limits: TransportLimits = _DEFAULT_LIMITS,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        allow_link_local: bool = False,
    ) -> None:
        self._max_reply_bytes = limits.max_reply_bytes
        self._proxy = None if proxy is None else Proxy.from_url(proxy)
        dialer = Dialer(limits, tls or _default_tls(), self._proxy, allow_link_local)
        self._pool = Pool(dialer, limits.max_connections)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and return the whole reply, whatever its status.

        Raises:
            TransportError: no complete reply came.
        """
        limit = min(request.max_reply_bytes or self._max_reply_bytes, self._max_reply_bytes)
        lease = await self._pool.open(self._prepare(request, limit))
        done = False
        try:
            body = await lease.connection.wait_complete()
            headers, decoder = _read_head(lease.connection)
            if decoder is not None:
                body = decoder.decode(body, limit)
                decoder.check_complete()
            done = True
            return HttpReply(lease.connection.status, headers, body)
        except TransportError as error:
            error.status = error.status or lease.connection.status or None
            raise
        finally:
            lease.release(usable=done)

    def stream(self, request: HttpRequest) -> HttpStream:
        """Return an async context manager that sends the request and gives the reply piece by piece."""
        return HttpStream(self._pool, self._prepare(request, None))

    async def aclose(self) -> None:
        """Close idle connections and take no new requests; those under way end normally."""
        self._pool.close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    @property
    def idle_connections(self) -> int:
        """Count the open connections that carry no request."""
        return self._pool.idle

    def _prepare(self, request: HttpRequest, whole_bytes: int | None) -> Outgoing:
        target = parse_target(request.url)
        path, authorization = target.path, None
        if self._proxy is not None and not target.secure:
            path, authorization = f"http://{target.authority}{target.path}", self._proxy.authorization
        head = render_head(request, target.authority, path, authorization)
        deadline = request.until
        if deadline is None and request.timeout_s is not None:
            deadline = asyncio.get_running_loop().time() + request.timeout_s
        return Outgoing(target, head, request.body, request.method == "HEAD", whole_bytes, deadline)


class HttpStream:
    """One reply that arrives piece by piece: ``async with client.stream(...) as reply: async for chunk in reply``.

    Leaving the context before the end closes the connection at once. Reading slowly makes the peer wait.
    """

    def __init__(self, pool: Pool, outgoing: Outgoing) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._lease: Lease | None = None
        self._decoder: Decoder | None = None
        self.status = 0
        self.headers: Headers = ()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def open(self) -> None:
        """Send the request and wait for the head of the reply; `close` must follow (the context does both).

        Raises:
            TransportError: no reply came.
        """
        lease = self._lease = await self._pool.open(self._outgoing)
        try:
            self.headers, self._decoder = _read_head(lease.connection)
        except TransportError as error:
            error.status = lease.connection.status
            self._lease = None
            lease.release(usable=False)
            raise
        lease.connection.limit(None)
        self.status = lease.connection.status

    def close(self) -> None:
        """Keep the connection if the reply was read to its end, close it at once otherwise."""
        if self._lease is not None:
            self._lease.release(usable=self._lease.connection.drained)
            self._lease = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._lease is None:
            msg = "read a stream inside its context"
            raise RuntimeError(msg)
        while chunk := await self._lease.connection.read():
            if self._decoder is None:
                return chunk
            if decoded := self._decoder.decode(chunk, _STREAM_STEP_BYTES):
                return decoded
        if self._decoder is not None:
            self._decoder.check_complete()
        raise StopAsyncIteration

    async def read_reply(self, max_bytes: int) -> HttpReply:
        """Return the reply with the rest of its body as a whole, for one that turns out not to be a stream.

        Args:
            max_bytes: where to stop; what follows is not read.

        Raises:
            TransportError: the body broke off before.
        """
        parts: list[bytes] = []
        size = 0
        async for chunk in self:
            parts.append(chunk)
            size += len(chunk)
            if size >= max_bytes:
                break
        return HttpReply(self.status, self.headers, b"".join(parts)[:max_bytes])

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return find_header(self.headers, name)


def _default_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read_head(connection: Connection) -> tuple[Headers, Decoder | None]:
    """Return the headers, without those that are no longer true after decoding, and the decoder."""
    encoding = (find_header(connection.headers, "content-encoding") or "identity").strip().lower()
    if encoding in ("identity", ""):
        return tuple(connection.headers), None
    kept = [pair for pair in connection.headers if pair[0] not in ("content-encoding", "content-length")]
    return tuple(kept), Decoder(encoding)
