"""The server's HTTP/1.1 protocol: one write an answer, and for judged routes a way past the messages of ASGI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from proxy.headers import Header
from proxy.wire.errors import RequestError, openai_reply
from supervisors.transport.batch import WriteBatch, batch_of


class EdgeProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a `JoiningTransport`; the scope of a request holds its `Direct`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to serve one connection."""
        self._joining = JoiningTransport(transport, batch_of(asyncio.get_running_loop()))
        self._idle_from: float | None = None
        self._served: Any = vars(self)["app"]  # uvicorn does not say what it is
        super().connection_made(cast("asyncio.Transport", self._joining))

    def on_headers_complete(self) -> None:
        """Begin to serve one request; refuse what another server on the way could read as two.

        As in uvicorn, but the target of most requests is known, and there is no limit of connections to look at.
        """
        parser, url = cast("Any", self.parser), self.url  # there is one while it calls back
        if parser.should_upgrade():
            self._refuse("Upgrades are not served; leave the Upgrade header out.")
            return
        if not url.startswith(b"/") and url != b"*":
            self._refuse("The request target must be a path.")
            return
        version: str = parser.get_http_version()
        scope = cast("dict[str, Any]", self.scope)
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        read = _read_target if len(url) <= _LONGEST_KNOWN else _read_target.__wrapped__
        scope["path"], scope["raw_path"], scope["query_string"] = read(url)
        earlier = cast("RequestResponseCycle | None", self.cycle)  # none yet, whatever its annotation says
        cycle = self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        scope["extensions"] = {DIRECT: Direct(cycle, self._joining)}  # ours, not one of ASGI
        if earlier is None or earlier.response_complete:
            self._start_asgi_task(cycle, self._served)
        else:  # pipelined: served in its turn
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self._served))

    def on_response_complete(self) -> None:
        """Serve the next pipelined request, or wait for one.

        As in uvicorn, but one timer serves the whole connection: it looks how long the connection has been idle.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_from = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self._look)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_from = None

    def _look(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_from is None or self.transport.is_closing():
            return
        left_s = self._idle_from + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self._look)
        else:
            self.timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        """End to serve the connection."""
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _refuse(self, message: str) -> None:
        """Answer 400 and close: where a body would begin, nothing may be read as the next request."""
        reply = openai_reply(RequestError(400, "bad_request", message), "")
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(reply.body)
        self._joining.write_whole(STATUS_LINE[400] + head + reply.body)
        self._joining.close()


def server_settings(
    app: Callable[..., Awaitable[None]], *, lifespan: Literal["on", "off"] = "on", end_s: int | None = None
) -> uvicorn.Config:
    """Return how the server runs an application: the protocol of this module, uvloop, one log, no other protocols.

    Args:
        app: what is served.
        lifespan: whether it is told of start and stop.
        end_s: longest time of a graceful end, None for no limit.
    """
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=EdgeProtocol,
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=end_s,
    )


@lru_cache(256)
def _read_target(url: bytes) -> tuple[str, bytes, bytes]:
    """Return path, raw path and query string, as ASGI wants them."""
    parsed = httptools.parse_url(url)
    raw: bytes = parsed.path
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, raw, parsed.query or b""


_LONGEST_KNOWN: Final = 256
"""Longer request targets are not remembered."""

DIRECT: Final = "guardrail.direct"
"""Name of the ASGI extension."""


class Direct:
    """One request and its answer without messages: a body that has arrived, and an answer, in one write or many.

    Only for requests whose method has a body in its answer. Where it is not used, ASGI's messages work as ever.

    Args:
        cycle: uvicorn's state of the request.
        transport: takes whole answers.
    """

    __slots__ = ("_cycle", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: JoiningTransport) -> None:
        self._cycle = cycle
        self._transport = transport

    def take_body(self) -> bytes | None:
        """Return the whole body if all of it is here, None if the caller has to wait for it (or for nothing)."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.flow.resume_reading()
        return body

    async def reply(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer; its length is added to the headers.

        Raises:
            RuntimeError: an answer has begun, or a header would split it.
        """
        if await self._may_send():
            head = self._begin(status, headers, b"content-length: %d" % len(body))
            self._transport.write_whole(head + body)
            self._complete()

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send the head of an answer whose length is not known; it leaves with what follows in this turn of the loop.

        Raises:
            RuntimeError: as for `reply`.
        """
        if await self._may_send():
            self._transport.write(self._begin(status, headers, b"transfer-encoding: chunked"))

    async def write(self, data: bytes) -> None:
        """Send a piece of an answer that was started."""
        if data and await self._may_send():
            self._transport.write_whole(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """Complete an answer that was started."""
        if await self._may_send():
            self._transport.write_whole(b"0\r\n\r\n")
            self._complete()

    async def _may_send(self) -> bool:
        """Wait for a slow caller; say whether there is still one."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        return not cycle.disconnected

    def _begin(self, status: int, headers: Sequence[Header], length: bytes) -> bytes:
        cycle = self._cycle
        if cycle.response_started:
            msg = "an answer has begun already"
            raise RuntimeError(msg)
        head = self._head(status, headers, length)
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        return head

    def _complete(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def _head(self, status: int, headers: Sequence[Header], length: bytes) -> bytes:
        cycle = self._cycle
        lines = [b": ".join(pair) for pair in (*cycle.default_headers, *headers)]
        lines.append(length)
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        head = b"%b%b\r\n\r\n" % (STATUS_LINE[status], b"\r\n".join(lines))
        if head.count(b"\n") != len(lines) + 2 or head.count(b"\r") != len(lines) + 2:
            msg = "a header of the answer holds a line break"
            raise RuntimeError(msg)
        return head


def take_direct(scope: MutableMapping[str, Any]) -> Direct | None:
    """Take the way past the messages out of the scope; None under a server that has none.

    Left in, it would hold the scope that holds it: fourteen objects a request for the collector of cycles to find.
    """
    extensions = scope.get("extensions")
    return None if extensions is None else extensions.pop(DIRECT, None)


class JoiningTransport:
    """A transport that sends the head of an answer together with what follows in the same turn of the loop.

    uvicorn writes the head of an answer by itself, which costs a system call of its own. A head that nothing follows
    at once leaves at the end of the turn; so does everything while the loop is busy (`WriteBatch`).

    Args:
        transport: the real one.
        batch: of the running loop.
    """

    __slots__ = ("_batch", "_kept", "_transport")

    def __init__(self, transport: asyncio.Transport, batch: WriteBatch) -> None:
        self._transport = transport
        self._batch = batch
        self._kept = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Say whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send bytes; keep the head of an answer until the next ones."""
        is_head = data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1")
        if is_head and not self._kept:
            self._keep(data)
        else:
            self.write_whole(data)

    def write_whole(self, data: bytes) -> None:
        """Send bytes that nothing needs to follow, after those that are kept."""
        if self._batch.waits() and len(self._kept) < _MOST_KEPT_BYTES:
            self._keep(data)
        elif self._kept:
            kept, self._kept = self._kept, b""
            self._transport.write(kept + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is kept, then close."""
        self._flush()
        self._transport.close()

    def _keep(self, data: bytes) -> None:
        if data and not self._kept:
            self._batch.defer(self._flush)
        self._kept += data

    def _flush(self) -> None:
        kept, self._kept = self._kept, b""
        if kept and not self._transport.is_closing():
            self._transport.write(kept)


_MOST_KEPT_BYTES: Final = 64 * 1024
"""More than this is not held back: the transport says when its peer is too slow, and must be asked."""
