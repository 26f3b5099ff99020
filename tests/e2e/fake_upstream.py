"""A scriptable OpenAI-compatible server on loopback, for tests and by hand.

In a test::

    async with FakeUpstream() as up:
        up.script(Answer(status=503, json={"error": {"message": "Loading model"}}), Answer())
        ...  # talk to up.url
        assert up.received[0].path == "/v1/chat/completions"

As a process: ``python tests/e2e/fake_upstream.py --port 9000``. There, ``POST /_script`` takes a JSON list of
answers (bytes members as text), ``GET /_log`` returns what was received.

Answers are used in order, one a request; when the script is used up (or empty) the server behaves like a small
model: chat, legacy completions, embeddings, models, whole or streamed. Nothing here sleeps unless an answer asks
for a delay; a test that wants to stand in the middle of a stream uses `Answer.hold_at` and `FakeUpstream.release`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import ssl
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, cast

if __name__ == "__main__":  # run as a script: the root of the repository is not on the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.fake_replies import chat_chunks, chat_reply, default_reply, sse
from tests.timing import PATIENCE_S

__all__ = ["Answer", "FakeUpstream", "Framing", "Received", "Script", "chat_chunks", "chat_reply", "sse"]

Framing = Literal["chunked", "length", "close"]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request. Without arguments: the default behaviour.

    Args:
        status: status code.
        json: body as JSON value; sets the content type.
        body: body as exact bytes.
        frames: body in parts, each written and flushed on its own.
        headers: extra or replacing headers (``content-type`` …).
        framing: how the body is delimited; None: frames are chunked, a body has a length.
        delay_s: wait before the head.
        frame_delay_s: wait before every frame after the first.
        split: cut every frame into pieces of this many bytes (1 = byte by byte).
        hold_at: stop before this piece (0 = after the head, -1 = before the head) until `FakeUpstream.release`.
        abort_at: reset the connection before this piece (-1 = before the head).
        end_at: close the connection cleanly before this piece, though the body is not complete.
        close: close the connection after the answer, without announcing it.
        raw: exact bytes on the wire instead of everything above, then close.
    """

    status: int = 200
    json: object = None
    body: bytes | None = None
    frames: Sequence[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    framing: Framing | None = None
    delay_s: float = 0.0
    frame_delay_s: float = 0.0
    split: int | None = None
    hold_at: int | None = None
    abort_at: int | None = None
    end_at: int | None = None
    close: bool = False
    raw: bytes | None = None

    @property
    def is_default(self) -> bool:
        """Say whether the body is left to the default behaviour."""
        return self.json is None and self.body is None and self.frames is None and self.status == 200


@dataclass(slots=True)
class Received:
    """One request as it arrived.

    Args:
        method: as sent.
        path: request target as sent, query included.
        headers: in order, names in lower case.
        body: decoded from chunked transfer if need be.
        connection: number of the connection, from 0.
        at: loop time when the request was complete.
        closed_at: loop time when the peer closed before the answer was complete, None if it did not.
        sent: body pieces written so far.
    """

    method: str
    path: str
    headers: Headers
    body: bytes
    connection: int
    at: float
    closed_at: float | None = None
    sent: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


Script = Answer | Callable[[Received], Answer]


class FakeUpstream:
    """The server. `url` ends in ``/v1``; `received` grows with every request.

    Args:
        port: 0 picks a free one.
        tls: serve TLS with this context.
    """

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.open_connections = 0
        self._script: deque[Script] = deque()
        self._arrived = asyncio.Condition()
        self._gate = asyncio.Event()
        self._port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_Reader(2**26, loop), self._serve, loop)

        self._server = await loop.create_server(protocol, "127.0.0.1", self._port, ssl=self._tls)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            if self._handlers:
                await asyncio.wait(self._handlers, timeout=5)
            await self._server.wait_closed()

    @property
    def origin(self) -> str:
        """Return scheme, host and port."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """Return the base URL, up to and including ``/v1``."""
        return f"{self.origin}/v1"

    def script(self, *answers: Script) -> None:
        """Append answers, one a request; a callable gets the request."""
        self._script.extend(answers)

    def release(self) -> None:
        """Let every answer go on that waits at its `hold_at`."""
        self._gate.set()

    def close_connections(self) -> None:
        """Close every connection from this side, idle ones included."""
        for writer in list(self._writers):
            writer.close()

    async def wait_received(self, count: int = 1, timeout_s: float = PATIENCE_S) -> Received:
        """Wait until this many requests have arrived and return the last of them."""
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return self.received[count - 1]

    async def wait_finished(self, index: int = 0, timeout_s: float = PATIENCE_S) -> Received:
        """Wait until a request was answered or its connection was closed by the peer, and return it."""
        received = await self.wait_received(index + 1, timeout_s)
        async with asyncio.timeout(timeout_s):
            await received.finished.wait()
        return received

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self.open_connections += 1
        self._writers.add(writer)
        handler = cast("asyncio.Task[None]", asyncio.current_task())
        self._handlers.add(handler)
        try:
            while await self._serve_one(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the peer went away: that is what many tests are about
        finally:
            self.open_connections -= 1
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self._handlers.discard(handler)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        received = await _read_request(reader, number)
        if received is None:
            return False
        if received.path.startswith("/_"):
            answer = self._control(received)
        else:
            async with self._arrived:
                self.received.append(received)
                self._arrived.notify_all()
            answer = self._next_answer(received)
        return await self._answer_unless_closed(answer, received, reader, writer)

    def _next_answer(self, received: Received) -> Answer:
        scripted = self._script.popleft() if self._script else Answer()
        return scripted(received) if callable(scripted) else scripted

    async def _answer_unless_closed(
        self, answer: Answer, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        loop = asyncio.get_running_loop()
        keep = False

        async def write() -> None:
            nonlocal keep
            keep = await self._write(answer, received, writer)
            watcher.cancel()

        async def watch() -> None:
            if isinstance(reader, _Reader):
                await reader.closed.wait()
            received.closed_at = loop.time()
            task.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(write())
                watcher = group.create_task(watch())
        except* (ConnectionError, ssl.SSLError):
            received.closed_at = received.closed_at or loop.time()
        finally:
            received.finished.set()
        return keep and received.closed_at is None

    async def _write(self, answer: Answer, received: Received, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(answer.delay_s)
        if answer.hold_at == -1:
            await self._gate.wait()
        if answer.abort_at == -1:
            writer.transport.abort()
            return False
        if answer.raw is not None:
            writer.write(answer.raw)
            await writer.drain()
            return False
        return await self._write_framed(answer, received, writer)

    async def _write_framed(self, answer: Answer, received: Received, writer: asyncio.StreamWriter) -> bool:
        head, framing, frames = _render(answer, received)
        pieces = [piece for frame in frames for piece in _split(frame, answer.split)]
        writer.write(head)
        async for number, piece in self._paced(pieces, answer):
            if number == answer.abort_at:
                await writer.drain()
                writer.transport.abort()
                return False
            if number == answer.end_at:
                return False
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunked" else piece)
            await writer.drain()
            received.sent += 1
        if framing == "chunked":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return framing != "close" and not answer.close

    async def _paced(self, pieces: Sequence[bytes], answer: Answer) -> AsyncIterator[tuple[int, bytes]]:
        for number, piece in enumerate(pieces):
            if number and answer.frame_delay_s:
                await asyncio.sleep(answer.frame_delay_s)
            if number == answer.hold_at:
                await self._gate.wait()
            yield number, piece

    def _control(self, received: Received) -> Answer:
        if received.path == "/_script":
            self.script(*[_from_json(entry) for entry in received.json])
            return Answer(json={"scripted": len(self._script)})
        if received.path == "/_log":
            return Answer(json=[_to_json(entry) for entry in self.received])
        return Answer(status=404, json={"error": "unknown control path"})


class _Reader(asyncio.StreamReader):
    """A stream reader that tells when the peer has closed, even while nobody reads."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.closed = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.closed.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.closed.set()


async def _read_request(reader: asyncio.StreamReader, number: int) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.decode("latin-1").split("\r\n")[:-2]
    method, path, _ = line.split(" ", 2)
    pairs = [entry.split(":", 1) for entry in rest]
    headers = tuple([(name.strip().lower(), value.strip()) for name, value in pairs])
    body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
    return Received(method, path, headers, body, number, asyncio.get_running_loop().time())


def _render(answer: Answer, received: Received) -> tuple[bytes, Framing, Sequence[bytes]]:
    headers: dict[str, str] = {}
    if answer.is_default:
        status, value = default_reply(received.path, received.body)
        if isinstance(value, list):
            answer = dataclasses.replace(answer, status=status, frames=cast("list[bytes]", value))
        else:
            answer = dataclasses.replace(answer, status=status, body=json.dumps(value).encode())
        headers["content-type"] = "text/event-stream; charset=utf-8" if answer.frames else "application/json"
    elif answer.json is not None:
        answer = dataclasses.replace(answer, body=json.dumps(answer.json).encode())
        headers["content-type"] = "application/json"
    elif answer.frames is not None:
        headers["content-type"] = "text/event-stream; charset=utf-8"
    frames = answer.frames if answer.frames is not None else [answer.body or b""]
    framing: Framing = answer.framing or ("chunked" if answer.frames is not None else "length")
    headers |= {name.lower(): value for name, value in answer.headers.items()}
    if framing == "length":
        headers.setdefault("content-length", str(sum(len(frame) for frame in frames)))
    elif framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    lines = [f"HTTP/1.1 {answer.status} Scripted", *[f"{name}: {value}" for name, value in headers.items()]]
    if received.method == "HEAD" or answer.status in (204, 304):
        frames = []
        lines = [line for line in lines if not line.startswith("transfer-encoding")]
        framing = "length"
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), framing, [frame for frame in frames if frame]


def _split(frame: bytes, size: int | None) -> list[bytes]:
    return [frame] if size is None else [frame[start : start + size] for start in range(0, len(frame), size)]


def _from_json(entry: dict[str, Any]) -> Answer:
    for name in ("body", "raw"):
        if isinstance(entry.get(name), str):
            entry[name] = entry[name].encode()
    if isinstance(entry.get("frames"), list):
        entry["frames"] = [frame.encode() for frame in entry["frames"]]
    return Answer(**entry)


def _to_json(received: Received) -> dict[str, object]:
    shown: dict[str, object] = {"body": received.body.decode("utf-8", "replace")}
    return shown | {name: getattr(received, name) for name in ("method", "path", "headers", "at", "closed_at", "sent")}


async def _main(port: int) -> None:
    async with FakeUpstream(port) as up:
        sys.stdout.write(up.url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scriptable OpenAI-compatible server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free port, printed on the first line")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args().port))
