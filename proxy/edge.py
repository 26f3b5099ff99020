"""The server's HTTP/1.1 protocol: one write an answer, and for judged routes a way past the messages of ASGI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, Literal, cast

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
        super().connection_made(cast("asyncio.Transport", self._joining))

    def on_headers_complete(self) -> None:
        """Begin to serve one request; refuse what another server on the way could read as two."""
        if self.parser is not None and self.parser.should_upgrade():
            self._refuse("Upgrades are not served; leave the Upgrade header out.")
            return
        if not self.url.startswith(b"/") and self.url != b"*":
            self._refuse("The request target must be a path.")
            return
        super().on_headers_complete()
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none yet, whatever its annotation says
        if cycle is not None and cycle.scope is self.scope:
            self.scope["extensions"] = cast("Any", {DIRECT: Direct(cycle, self._joining)})  # ours, not one of ASGI

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


DIRECT: Final = "guardrail.direct"
"""Name of the ASGI extension."""


class Direct:
    """One request and its answer without messages: a body that has arrived, and an answer in one write.

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
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if cycle.response_started:
            msg = "an answer has begun already"
            raise RuntimeError(msg)
        head = self._head(status, headers, len(body))
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        self._transport.write_whole(head + body)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def _head(self, status: int, headers: Sequence[Header], length: int) -> bytes:
        cycle = self._cycle
        lines = [b"%b: %b\r\n" % pair for pair in (*cycle.default_headers, *headers)]
        lines.append(b"content-length: %d\r\n" % length)
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        head = b"".join([STATUS_LINE[status], *lines, b"\r\n"])
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
