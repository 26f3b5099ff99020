"""The server's protocol over real sockets: what a caller may send, and when a connection ends (operations §7.1)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.edge import MOST_HEAD_BYTES, server_settings
from tests.timing import PATIENCE_S

GOOD = b"POST /v1/a HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
BIG = 8 * 2**20


class App:
    """Answer with the path, slowly where asked; note what was asked and how it ended."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []
        self.left = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path != "/early":
            await receive_whole(receive)
        self.headers.append(dict(scope["headers"]))
        if path == "/wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        if path == "/slow":
            await self.go.wait()
        body = bytes(BIG) if path == "/big" else path.encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (body, body) if path == "/big" else (body,):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        if path == "/big":
            self.left.set()


async def receive_whole(receive: Any) -> None:
    """Read the body to its end, or until the caller has left."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.disconnect":
        raise ConnectionResetError


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[tuple[App, Callable[[], Awaitable[Any]]]]:
    app = App()
    settings = server_settings(app, lifespan="off", **options)
    settings.port = 0
    server = uvicorn.Server(settings)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve())
        while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield app, lambda: asyncio.open_connection(host, port)
        finally:
            server.force_exit = server.should_exit = True


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a piece every 20 ms, until the connection is closed or it has been a thousand; nothing is answered."""
    with suppress(ConnectionError):
        for _ in range(1000):
            writer.write(piece)
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    assert await reader.read() == b""
                    return


async def test_trailers_are_no_headers() -> None:
    async with served() as (app, connect):
        reader, writer = await connect()
        head = (
            b"POST /a HTTP/1.1\r\nhost: h\r\nx-tenant: alice\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        )
        writer.write(head + b"2\r\n{}\r\n0\r\nx-tenant: admin\r\nauthorization: Bearer k\r\n\r\n")
        assert b" 200 " in await reader.read()
        writer.close()
        assert app.headers[0][b"x-tenant"] == b"alice"
        assert b"authorization" not in app.headers[0]


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nhost: h\r\nx: ", b"GET /", b"GET / HTTP/1.1\r\n"])
async def test_a_head_has_a_limit_of_bytes(head: bytes) -> None:
    async with served() as (app, connect):
        reader, writer = await connect()
        writer.write(head)
        line = b"x-%d: a\r\n" * 1000 if head.endswith(b"\r\n") else b"a" * 10_000
        for _ in range(2 * MOST_HEAD_BYTES // 10_000):
            writer.write(line)
        answer = b""
        with suppress(ConnectionError):  # it may close before all is sent
            answer = await reader.read()
        writer.transport.abort()
        assert answer[:13] in (b"", b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")
        assert app.headers == []


async def test_a_head_has_a_limit_of_time() -> None:
    async with served(head_s=0.05) as (_, connect):
        for sent in (b"", b"GET / HTTP/1.1\r\nhost:"):
            reader, writer = await connect()
            writer.write(sent)
            assert await reader.read() == b""
            writer.close()


@pytest.mark.parametrize("noise", [b"\r\n", b"\r\n\r\n\r\n"])
async def test_what_begins_no_request_buys_no_time(noise: bytes) -> None:
    async with served(head_s=0.3) as (_, connect):
        reader, writer = await connect()
        await drip(reader, writer, noise)
        assert reader.at_eof()
        writer.close()


BROKEN = b"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "endless", [b"x-a: b\r\n", b"a:\r\n", b"long"], ids=["trailers", "short trailers", "one long trailer"]
)
@pytest.mark.parametrize("path", [b"/early", b"/a"])
async def test_what_frames_a_body_has_a_limit_of_bytes(path: bytes, endless: bytes) -> None:
    async with served() as (app, connect):
        reader, writer = await connect()
        writer.write(BROKEN.replace(b"/a", path) + b"2\r\n{}\r\n0\r\n")
        if path == b"/early":
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionError):
            for _ in range(64):
                writer.write(endless * (MOST_HEAD_BYTES // len(endless)))
                await writer.drain()
        with suppress(ConnectionError):
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 431") if path == b"/a" else not answer
        writer.close()
        assert len(app.headers) == (path == b"/early")


async def test_the_rest_of_a_body_has_a_limit_of_time_once_it_is_answered() -> None:
    async with served(head_s=0.3) as (_, connect):
        reader, writer = await connect()
        writer.write(b"POST /early HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n")
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await drip(reader, writer, b"x")
        assert reader.at_eof()
        writer.close()


async def test_a_body_that_ends_after_its_answer_keeps_the_connection() -> None:
    async with served(head_s=PATIENCE_S) as (app, connect):
        reader, writer = await connect()
        writer.write(b"POST /early HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\nab")
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"cd" + GOOD)
        assert (await reader.readuntil(b"/v1/a")).startswith(b"HTTP/1.1 200")
        assert len(app.headers) == 2
        writer.close()


async def test_a_long_head_is_refused_however_it_arrives() -> None:
    long = GOOD.replace(b"\r\n\r\n", b"\r\nx-long: " + b"a" * MOST_HEAD_BYTES + b"\r\n\r\n")
    for pause in (False, True):
        async with served() as (app, connect):
            reader, writer = await connect()
            writer.write(long[:1000] if pause else long)
            if pause:
                await asyncio.sleep(0.05)
                writer.write(long[1000:])
            assert (await reader.read(13)) == b"HTTP/1.1 431 "
            writer.close()
            assert not app.headers


async def test_a_long_body_is_not_counted_as_the_head_that_follows_it() -> None:
    body = b"b" * (MOST_HEAD_BYTES + 5000)
    head = b"POST /n1 HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with served() as (_, connect):
        reader, writer = await connect()
        writer.write(head + body + GOOD[:10])
        await asyncio.sleep(0.05)
        writer.write(GOOD[10:])
        seen = b""
        while seen.count(b"0\r\n\r\n") < 2:
            piece = await reader.read(65536)
            assert piece, seen
            seen += piece
        writer.close()
        assert seen.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize("chunk", [b"+5\r\nhello\r\n", b"0x5\r\nhello\r\n", b"zz\r\n", b"5\r\nhelloX"])
async def test_a_body_in_broken_chunks_is_refused_at_once(chunk: bytes) -> None:
    head = b"POST /wait HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
    async with served() as (_, connect):
        reader, writer = await connect()
        writer.write(head + b"1\r\n{\r\n")
        await asyncio.sleep(0.05)
        writer.write(chunk)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("bad", [b"garbage\r\n\r\n", b"GET http://x/ HTTP/1.1\r\nhost: h\r\n\r\n"])
async def test_nothing_overtakes_the_answer_under_way(bad: bytes) -> None:
    async with served() as (app, connect):
        reader, writer = await connect()
        writer.write(GOOD.replace(b"/v1/a", b"/slow") + bad)
        await asyncio.sleep(0)
        app.go.set()
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"/slow\r\n0\r\n\r\n")
        assert b" 400 " not in answer


async def test_what_is_no_request_is_refused_where_nothing_is_under_way() -> None:
    async with served() as (_, connect):
        reader, writer = await connect()
        writer.write(b"garbage\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_a_caller_that_leaves_with_a_request_behind_is_noticed() -> None:  # O-10
    async with served() as (app, connect):
        _, writer = await connect()
        writer.write(GOOD.replace(b"/v1/a", b"/wait") + GOOD)
        while not app.headers:  # noqa: ASYNC110 - until the first is served
            await asyncio.sleep(0.01)
        writer.close()
        await app.left.wait()
        assert len(app.headers) == 1


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with served() as (_, connect):
        reader, writer = await connect()
        numbers = range(30)
        writer.write(b"".join([GOOD.replace(b"/v1/a", b"/n%d" % number) for number in numbers]))
        seen = b""
        while seen.count(b"0\r\n\r\n") < len(numbers):
            seen += await reader.read(65536)
        writer.close()
        assert [seen.index(b"/n%d\r\n" % number) for number in numbers] == sorted(
            [seen.index(b"/n%d\r\n" % number) for number in numbers]
        )


async def test_a_caller_that_takes_nothing_loses_its_place() -> None:
    async with served(stall_s=0.1) as (app, connect):
        _, writer = await connect()
        writer.write(GOOD.replace(b"/v1/a", b"/big"))
        await app.left.wait()  # the answer was given up: nobody read a byte of 16 MB
        writer.close()


def test_the_cycle_of_uvicorn_takes_what_it_is_given_in_this_order() -> None:
    """`on_headers_complete` gives it its arguments by position."""
    assert list(inspect.signature(RequestResponseCycle).parameters) == [
        "scope",
        "transport",
        "flow",
        "logger",
        "access_logger",
        "access_log",
        "default_headers",
        "message_event",
        "expect_100_continue",
        "keep_alive",
        "on_response",
    ]
