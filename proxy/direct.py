"""A request and its answer without messages of ASGI, and the transport that sends what belongs together at once."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from proxy.headers import Header
from supervisors.transport.batch import WriteBatch

DIRECT: Final = "guardrail.direct"
"""Name of the ASGI extension."""


class Direct:
    """One request and its answer without messages: a body that has arrived, and an answer, in one write or many.

    Only for requests whose method has a body in its answer. Where it is not used, ASGI's messages work as ever.

    Args:
        cycle: uvicorn's state of the request.
        transport: takes whole answers.
    """

    __slots__ = ("_chunked", "_cycle", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: JoiningTransport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._chunked = cycle.scope.get("http_version") != "1.0"

    def take_body(self) -> bytes | None:
        """Return the whole body if all of it is here, None if the caller has to wait for it (or for nothing)."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.flow.resume_reading()
        return body

    @property
    def prompt(self) -> bool:
        """Say whether what is sent leaves without waiting for a slow caller."""
        return not self._cycle.flow.write_paused and not self._cycle.disconnected

    @property
    def gone(self) -> bool:
        """Say whether the caller has left."""
        return self._cycle.disconnected

    async def reply(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer; its length is added to the headers.

        Raises:
            RuntimeError: an answer has begun, or a header would split it.
        """
        if self.prompt or await self._may_send():
            head = self._begin(status, headers, b"content-length: %d" % len(body))
            self._transport.write_whole(head + body)
            self._complete()

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send the head of an answer whose length is not known; it leaves with what follows in this turn of the loop.

        Raises:
            RuntimeError: as for `reply`.
        """
        if not await self._may_send():
            return
        if self._chunked:
            self._transport.write(self._begin(status, headers, b"transfer-encoding: chunked"))
        else:  # HTTP/1.0 knows no chunks: the end of the connection is the end of the answer
            self._transport.write(self._begin(status, headers, b"x-accel-buffering: no"))

    async def write(self, data: bytes) -> None:
        """Send a piece of an answer that was started."""
        if data and await self._may_send():
            self._transport.write_whole(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        """Complete an answer that was started."""
        if await self._may_send():
            if self._chunked:
                self._transport.write_whole(b"0\r\n\r\n")
            self._complete()

    def cut(self) -> None:
        """Close the connection before the end of an answer that has begun: the caller is to see that it is cut."""
        if self._cycle.response_started and not self._cycle.response_complete:
            self._cycle.disconnected = True
            self._transport.close()

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
