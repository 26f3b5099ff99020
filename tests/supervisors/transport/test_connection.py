"""How replies are delimited, and what happens to those that are not HTTP."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisors.transport import HttpClient, HttpRequest, TransportError, TransportLimits
from tests.e2e.fake_upstream import Answer, FakeUpstream, Framing
from tests.e2e.raw_server import serve_raw
from tests.timing import HANGS_S, PATIENCE_S


def get(up: FakeUpstream, method: str = "GET") -> HttpRequest:
    return HttpRequest(method, f"{up.url}/models", timeout_s=5.0)


async def fault_of(client: HttpClient, request: HttpRequest) -> str:
    with pytest.raises(TransportError) as caught:
        await client.send(request)
    return caught.value.fault


@pytest.mark.parametrize("split", [None, 1, 7])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_bodies_of_every_framing_arrive_whole(
    up: FakeUpstream, client: HttpClient, framing: Framing, split: int | None
) -> None:
    up.script(Answer(frames=[b"violet ", b"umbrella"], framing=framing, split=split))
    assert (await client.send(get(up))).body == b"violet umbrella"
    assert client.idle_connections == (0 if framing == "close" else 1)


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_streams_of_every_framing_arrive_whole(up: FakeUpstream, client: HttpClient, framing: Framing) -> None:
    up.script(Answer(frames=[b"violet ", b"umbrella"], framing=framing, split=1))
    async with client.stream(get(up)) as reply:
        assert b"".join([chunk async for chunk in reply]) == b"violet umbrella"


@pytest.mark.parametrize("answer", [Answer(body=b"12345", end_at=1, split=2), Answer(frames=[b"1", b"2"], end_at=1)])
async def test_a_body_that_ends_too_early_is_truncated(up: FakeUpstream, client: HttpClient, answer: Answer) -> None:
    up.script(answer, answer)
    assert await fault_of(client, get(up)) == "truncated"
    async with client.stream(get(up)) as reply:
        assert await anext(reply)
        with pytest.raises(TransportError) as caught:
            await anext(reply)
    assert caught.value.fault == "truncated"


async def test_a_reset_in_the_middle_of_a_stream_is_told_after_what_arrived(
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(Answer(frames=[b"one", b"two"], hold_at=1, abort_at=1))
    async with client.stream(get(up)) as reply:
        assert await anext(reply) == b"one"
        up.release()
        with pytest.raises(TransportError) as caught:
            await anext(reply)
    assert caught.value.fault == "truncated"


async def test_interim_replies_are_skipped(up: FakeUpstream, client: HttpClient) -> None:
    interim = b"HTTP/1.1 100 Continue\r\nx-a: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n"
    up.script(Answer(raw=interim + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-b: 2\r\n\r\nok"))
    reply = await client.send(get(up))
    assert (reply.status, reply.body, reply.headers) == (200, b"ok", (("content-length", "2"), ("x-b", "2")))


@pytest.mark.parametrize("status", [204, 304])
async def test_replies_without_a_body_end_with_their_head(up: FakeUpstream, client: HttpClient, status: int) -> None:
    up.script(Answer(status=status))
    reply = await client.send(get(up))
    assert (reply.status, reply.body, client.idle_connections) == (status, b"", 1)


async def test_head_does_not_wait_for_the_body_it_announces(up: FakeUpstream, client: HttpClient) -> None:
    reply = await client.send(get(up, "HEAD"))
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.header("content-length") or 0) > 0


@pytest.mark.parametrize(
    "raw",
    [
        b"violet umbrella\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 000 x\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 099 x\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * 70_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n2;" + b"a" * 400_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nx-a: b\0c\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,
    ],
)
async def test_what_is_not_one_clean_reply_is_a_protocol_fault(
    up: FakeUpstream, client: HttpClient, raw: bytes
) -> None:
    up.script(Answer(raw=raw))
    assert await fault_of(client, get(up)) == "protocol"
    assert client.idle_connections == 0


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n3e9;a=b\r\nx",
    ],
)
async def test_nobody_waits_for_more_than_is_allowed(up: FakeUpstream, raw: bytes) -> None:
    up.script(Answer(raw=raw, hold_at=1))
    async with HttpClient(TransportLimits(max_reply_bytes=1000)) as client:
        request = HttpRequest("GET", f"{up.url}/models", timeout_s=HANGS_S)
        with pytest.raises(TransportError) as caught:
            await client.send(request)
    assert (caught.value.fault, caught.value.status) == ("too_large", 200)


async def test_a_failure_after_the_head_has_its_status(up: FakeUpstream, client: HttpClient) -> None:
    cut = Answer(status=201, body=b"12345", end_at=1, split=2)
    unknown = Answer(status=202, body=b"12345", headers={"content-encoding": "br"})
    up.script(cut, unknown, unknown, Answer(raw=b"HTTP/1.1 099 x\r\n\r\n"))
    found: list[int | None] = []
    for _ in range(2):
        with pytest.raises(TransportError) as caught:
            await client.send(get(up))
        found.append(caught.value.status)
    with pytest.raises(TransportError) as caught:
        await client.stream(get(up)).open()
    found.append(caught.value.status)
    with pytest.raises(TransportError) as caught:
        await client.send(get(up))
    assert [*found, caught.value.status] == [201, 202, 202, None]


async def test_bytes_that_answer_no_request_make_a_connection_unusable(client: HttpClient) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await asked.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno")
        assert await reader.read() == b""  # the client closes instead of sending its next request here
        closed.set()

    asked, closed = asyncio.Event(), asyncio.Event()
    async with serve_raw(answer) as port:
        assert (await client.send(HttpRequest("GET", f"http://127.0.0.1:{port}/", timeout_s=5.0))).body == b"ok"
        asked.set()
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
        assert client.idle_connections == 0


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_a_reply_larger_than_allowed_is_cut_off(up: FakeUpstream, framing: Framing) -> None:
    up.script(Answer(frames=[b"x" * 600] * 2, framing=framing), Answer(frames=[b"x" * 500] * 2, framing=framing))
    async with HttpClient(TransportLimits(max_reply_bytes=1000)) as client:
        assert await fault_of(client, get(up)) == "too_large"
        assert len((await client.send(get(up))).body) == 1000


async def test_a_large_body_is_sent_in_slices_and_arrives_whole(up: FakeUpstream, client: HttpClient) -> None:
    body = bytes(range(256)) * 4 * 8192
    await client.send(HttpRequest("POST", f"{up.url}/models", body=body, timeout_s=10.0))
    assert up.received[0].body == body
    assert client.idle_connections == 1


async def test_a_peer_that_does_not_take_the_body_is_a_timeout() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        await done.wait()

    done = asyncio.Event()
    async with serve_raw(ignore) as port, HttpClient(TransportLimits(write_s=0.1)) as client:
        request = HttpRequest("POST", f"http://127.0.0.1:{port}/", body=b"x" * 2**26, timeout_s=10.0)
        assert await fault_of(client, request) == "timeout"
        done.set()


async def test_an_answer_before_the_body_was_taken_is_returned() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await reader.read()

    async with serve_raw(refuse) as port, HttpClient() as client:
        request = HttpRequest("POST", f"http://127.0.0.1:{port}/", body=b"x" * 2**24, timeout_s=10.0)
        reply = await client.send(request)
        assert (reply.status, reply.body) == (413, b"no")
        assert client.idle_connections == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6), split=st.integers(1, 50))
def test_frames_cut_anywhere_give_the_same_bytes(frames: list[bytes], split: int) -> None:
    async def run() -> tuple[bytes, bytes]:
        async with FakeUpstream() as up, HttpClient() as client:
            up.script(Answer(frames=frames, split=split), Answer(frames=frames, split=split, framing="length"))
            async with client.stream(get(up)) as reply:
                streamed = b"".join([chunk async for chunk in reply])
            return streamed, (await client.send(get(up))).body

    assert asyncio.run(run()) == (b"".join(frames), b"".join(frames))
