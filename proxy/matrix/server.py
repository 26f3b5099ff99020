"""The scripted servers of the matrix on loopback: the model that says what a cell needs, and models of supervisors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import orjson

from proxy.matrix import frames
from proxy.matrix.cells import PLAIN, Body
from proxy.matrix.chat import chat_reply, completion_reply
from proxy.matrix.messages import message_reply
from proxy.matrix.responses import response_reply

Responder = Callable[[Body], Body]
"""From the body of a supervisor's call to the answer of its model."""
_Framer = Callable[[Body, int | None], list[bytes]]

SUPERVISORS: Final = "/supervisors/"
"""Calls of supervisors go below this path, each to the name of its supervisor."""
_FRAMERS: Final[Mapping[str, _Framer]] = {
    "/chat/completions": frames.chat_frames,
    "/completions": frames.completion_frames,
    "/responses": frames.response_frames,
    "/messages": frames.message_frames,
}
_EMBEDDING: Final[Body] = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25]}],
    "model": "scripted",
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}


def harmless(path: str) -> Body:
    """Return the reply of a path that holds nothing of interest."""
    match path:
        case "/completions":
            return completion_reply(PLAIN)
        case "/responses":
            return response_reply()
        case "/messages":
            return message_reply()
        case "/embeddings":
            return _EMBEDDING
        case _:
            return chat_reply()


class Scripted:
    """What the scripted servers say next, and what they were sent."""

    def __init__(self) -> None:
        self.reply: Body | None = None
        self.piece_chars: int | None = None
        self.received: list[bytes] = []
        self.responders: dict[str, Responder] = {}
        self.port = 0

    @property
    def origin(self) -> str:
        """Return scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    def expect(self, reply: Body | None, piece_chars: int | None = None) -> None:
        """Forget what was received and say what the next reply is; None is a harmless one."""
        self.received.clear()
        self.reply = reply
        self.piece_chars = piece_chars

    def answer(self, path: str, raw: bytes) -> tuple[bytes, bytes]:
        """Return the content type and the body of an answer."""
        body: Body = orjson.loads(raw)
        if path.startswith(SUPERVISORS):
            name = path.removeprefix(SUPERVISORS).partition("/v1/")[0]
            return b"application/json", orjson.dumps(self.responders[name](body))
        self.received.append(raw)
        route = path.removeprefix("/v1")
        reply = harmless(route) if self.reply is None else self.reply
        if body.get("stream") is True:
            return b"text/event-stream", b"".join(_FRAMERS[route](reply, self.piece_chars))
        return b"application/json", orjson.dumps(reply)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it closes."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = head.split(" ", 2)[1]
                lines = [line.lower() for line in head.split("\r\n")]
                length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                kind, body = self.answer(path, await reader.readexactly(length))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body)))
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the proxy has closed the connection
        finally:
            writer.close()


@asynccontextmanager
async def scripted() -> AsyncGenerator[Scripted]:
    """Serve on a free port of loopback while the body runs."""
    script = Scripted()
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, limit=2**26)
    script.port = int(server.sockets[0].getsockname()[1])
    try:
        yield script
    finally:
        server.close()
