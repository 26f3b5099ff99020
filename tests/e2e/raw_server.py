"""A loopback server for peers that do not speak HTTP properly, or only by half."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable

from tests.timing import PATIENCE_S

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serve_raw(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Run `handler` for every connection and give the port; at the end every connection is closed."""
    running: dict[asyncio.StreamWriter, asyncio.Event] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = running[writer] = asyncio.Event()
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the peer went away
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            done.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer, done in list(running.items()):
            writer.transport.abort()
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()
        await server.wait_closed()
