"""The server's HTTP/1.1 protocol with one write an answer: the head waits for the first bytes of the body."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class EdgeProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a `HeadJoiner`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to serve one connection."""
        joiner = HeadJoiner(transport, asyncio.get_running_loop())
        super().connection_made(cast("asyncio.Transport", joiner))


class HeadJoiner:
    """A transport that sends the head of an answer together with what follows in the same turn of the loop.

    uvicorn writes the head of an answer by itself, which costs a system call of its own. A head that nothing follows
    at once leaves at the end of the turn.

    Args:
        transport: the real one.
        loop: the running loop.
    """

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes; keep the head of an answer until the next ones."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is kept, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
