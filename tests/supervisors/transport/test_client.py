"""The HTTP client against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from supervisors.transport import HttpClient, HttpRequest, TransportError, TransportLimits
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.e2e.raw_server import serve_raw
from tests.timing import AT_ONCE_S, HANGS_S, PATIENCE_S


def post(up: FakeUpstream, body: bytes = b"{}", timeout_s: float | None = PATIENCE_S) -> HttpRequest:
    return HttpRequest("POST", f"{up.url}/chat/completions", (("x-tag", "violet"),), body, timeout_s)


async def fault_of(client: HttpClient, request: HttpRequest) -> str:
    with pytest.raises(TransportError) as caught:
        await client.send(request)
    return caught.value.fault


async def test_a_whole_reply_comes_with_status_headers_and_body(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(status=201, json=chat_reply("hi"), headers={"X-Word": "umbrella"}))
    reply = await client.send(post(up, b'{"a":1}'))
    assert (reply.status, reply.header("x-word")) == (201, "umbrella")
    assert b'"hi"' in reply.body
    assert (up.received[0].header("x-tag"), up.received[0].body) == ("violet", b'{"a":1}')


async def test_requests_one_after_another_share_a_connection(up: FakeUpstream, client: HttpClient) -> None:
    for _ in range(5):
        await client.send(post(up))
    assert (up.connections, client.idle_connections) == (1, 1)


async def test_a_stream_arrives_while_the_peer_is_still_sending(up: FakeUpstream, client: HttpClient) -> None:
    frames = sse(*chat_chunks("one", "two"))
    up.script(Answer(frames=frames, hold_at=2))
    seen = b""
    async with client.stream(post(up)) as reply:
        async for chunk in reply:
            seen += chunk
            if seen == b"".join(frames[:2]):
                up.release()
    assert seen == b"".join(frames)
    assert client.idle_connections == 1


async def test_leaving_a_stream_early_closes_the_connection_at_once(  # O-10
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
    async with client.stream(post(up)) as reply:
        await anext(reply)
        left = asyncio.get_running_loop().time()
    received = await up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < AT_ONCE_S


@pytest.mark.parametrize("hold_at", [-1, 0, 1])
async def test_cancelling_a_whole_call_closes_the_connection_at_once(  # O-10
    up: FakeUpstream, client: HttpClient, hold_at: int
) -> None:
    up.script(Answer(frames=[b"one", b"two"], hold_at=hold_at))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.send(post(up)))
        await up.wait_received()
        left = asyncio.get_running_loop().time()
        task.cancel()
    received = await up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < AT_ONCE_S
    assert client.idle_connections == 0


async def test_a_redirect_is_returned_and_not_followed(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(status=302, headers={"location": f"{up.url}/models"}))
    assert (await client.send(post(up))).status == 302
    assert len(up.received) == 1


async def test_a_reply_that_does_not_come_in_time_is_a_timeout(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(hold_at=-1))
    assert await fault_of(client, post(up, timeout_s=0.4)) == "timeout"
    assert (await up.wait_finished()).closed_at is not None


async def test_a_body_that_drips_past_the_deadline_is_a_timeout(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(body=b"x" * 1000, split=1, frame_delay_s=0.01))
    assert await fault_of(client, post(up, timeout_s=0.1)) == "timeout"


async def test_a_silent_stream_is_a_timeout_and_a_slow_one_is_not(up: FakeUpstream) -> None:
    up.script(Answer(frames=[b"a"] * 6, frame_delay_s=0.05), Answer(frames=[b"a", b"b"], hold_at=1))
    patient = HttpClient(TransportLimits(read_s=PATIENCE_S))
    async with patient as client, client.stream(post(up, timeout_s=0.2)) as reply:  # 0.25 s in all
        assert b"".join([chunk async for chunk in reply]) == b"aaaaaa"
    async with HttpClient(TransportLimits(read_s=0.2)) as client, client.stream(post(up)) as reply:
        assert await anext(reply) == b"a"
        with pytest.raises(TransportError) as caught:
            await anext(reply)
    assert caught.value.fault == "timeout"


async def test_a_whole_reply_may_be_silent_for_as_long_as_its_own_limit(up: FakeUpstream) -> None:
    up.script(Answer(frames=[b"a", b"b"], delay_s=0.2, frame_delay_s=0.2), Answer(hold_at=-1))
    async with HttpClient(TransportLimits(read_s=0.1)) as client:
        assert (await client.send(post(up))).body == b"ab"
        assert await fault_of(client, post(up, timeout_s=None)) == "timeout"


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        assert await reader.read() == b""
        closed.set()

    closed = asyncio.Event()
    async with serve_raw(answer) as port, HttpClient(TransportLimits(idle_s=0.1)) as client:
        await client.send(HttpRequest("GET", f"http://127.0.0.1:{port}/", timeout_s=5.0))
        assert client.idle_connections == 1
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
        assert client.idle_connections == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_peer_that_answers_before_it_has_read_a_large_body_is_heard(stream: bool) -> None:
    heard = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\numbrella")
        await heard.wait()  # it reads no more, and keeps the connection

    async with serve_raw(refuse) as port, HttpClient() as client:
        request = HttpRequest("POST", f"http://127.0.0.1:{port}/", (), bytes(16 << 20), HANGS_S)
        async with asyncio.timeout(PATIENCE_S):
            if stream:
                async with client.stream(request) as reply:
                    got = (reply.status, b"".join([chunk async for chunk in reply]))
            else:
                whole = await client.send(request)
                got = (whole.status, whole.body)
        heard.set()
        assert got == (413, b"umbrella")
        assert client.idle_connections == 0  # what is unsent of the body is no next request


async def test_nobody_listening_is_a_connect_fault(client: HttpClient) -> None:
    async with FakeUpstream() as gone:
        request = post(gone)
    assert await fault_of(client, request) == "connect"


async def test_a_kept_connection_that_the_peer_closed_is_replaced(up: FakeUpstream, client: HttpClient) -> None:
    await client.send(post(up))
    up.close_connections()
    assert (await client.send(post(up))).status == 200
    assert up.connections == 2


async def test_a_kept_connection_that_breaks_before_any_byte_is_replaced_once(
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(Answer(), Answer(abort_at=-1), Answer(), Answer(abort_at=-1), Answer(abort_at=-1))
    await client.send(post(up))
    assert (await client.send(post(up))).status == 200
    assert len(up.received) == 3
    assert await fault_of(client, post(up)) == "reset"
    assert len(up.received) == 5


async def test_a_fresh_connection_that_breaks_is_not_tried_again(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(abort_at=-1))
    assert await fault_of(client, post(up)) == "reset"
    assert len(up.received) == 1


async def test_a_kept_connection_that_breaks_within_the_head_is_not_replaced(
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(Answer(), Answer(raw=b"HTTP/1.1 200 O"))
    await client.send(post(up))
    assert await fault_of(client, post(up)) == "reset"
    assert len(up.received) == 2


async def test_no_more_connections_are_opened_than_allowed(up: FakeUpstream) -> None:
    up.script(*[Answer(hold_at=-1)] * 5)
    async with HttpClient(TransportLimits(max_connections=2)) as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.send(post(up))) for _ in range(5)]
        await up.wait_received(2)
        assert await fault_of(client, post(up, timeout_s=0.05)) == "timeout"
        assert (up.connections, len(up.received)) == (2, 2)
        up.release()
    assert [task.result().status for task in tasks] == [200] * 5
    assert up.connections == 2


async def test_a_consumer_that_does_not_read_makes_the_peer_wait(up: FakeUpstream, client: HttpClient) -> None:
    frames = [b"x" * 65536] * 1024
    up.script(Answer(frames=frames))
    size = 0
    async with client.stream(post(up)) as reply:
        size += len(await anext(reply))
        for _ in range(100):
            await client.send(HttpRequest("GET", f"{up.url}/models"))  # time passes
        assert up.received[0].sent < 512
        async for chunk in reply:
            size += len(chunk)
    assert size == 65536 * 1024


async def test_a_closed_client_takes_no_requests_and_finishes_those_under_way(up: FakeUpstream) -> None:
    client = HttpClient()
    up.script(Answer(frames=[b"one", b"two"], hold_at=1))
    async with client.stream(post(up)) as reply:
        assert await anext(reply) == b"one"
        await client.aclose()
        up.release()
        assert await anext(reply) == b"two"
        with pytest.raises(StopAsyncIteration):
            await anext(reply)
    assert await fault_of(client, post(up)) == "connect"
    await up.wait_finished()
    assert client.idle_connections == 0


async def test_reading_a_stream_outside_its_context_is_a_mistake_that_is_told(
    up: FakeUpstream, client: HttpClient
) -> None:
    async with client.stream(post(up)) as reply:
        pass
    with pytest.raises(RuntimeError, match="inside its context"):
        await anext(reply)


@pytest.mark.parametrize(
    "header",
    [("x-a", "b\r\nx-evil: 1"), ("x-a", "b\nc"), ("x-a", "b\0"), ("x a", "b"), ("x-a:", "b"), ("", "b"), ("x-a", "☂")],
)
async def test_a_header_that_could_split_the_message_is_refused(
    up: FakeUpstream, client: HttpClient, header: tuple[str, str]
) -> None:
    assert await fault_of(client, HttpRequest("POST", up.url, (header,))) == "request"
    assert up.received == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection"])
async def test_headers_of_the_framing_are_the_clients_own(up: FakeUpstream, client: HttpClient, name: str) -> None:
    assert await fault_of(client, HttpRequest("POST", up.url, ((name, "1"),))) == "request"


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "/relative", "http://", "http://u:p@h/", "http://h/ b", "http://h:x/"]
)
async def test_a_url_that_cannot_be_sent_is_refused_without_being_quoted(client: HttpClient, url: str) -> None:
    with pytest.raises(TransportError) as caught:
        await client.send(HttpRequest("GET", url))
    assert caught.value.fault == "request"
    assert url not in str(caught.value)


async def test_what_is_shown_of_a_request_holds_neither_headers_nor_body(up: FakeUpstream) -> None:
    shown = repr(HttpRequest("POST", up.url, (("authorization", "Bearer violet"),), b"umbrella"))
    assert "violet" not in shown
    assert "umbrella" not in shown


async def check_on_one_loop() -> None:
    async with FakeUpstream() as up, HttpClient(TransportLimits(max_connections=4, read_s=PATIENCE_S)) as client:
        assert (await client.send(post(up))).status == 200
        up.script(Answer(abort_at=-1), Answer(json={}))
        assert (await client.send(post(up, b"x" * 2**20))).status == 200  # stale, in slices
        up.script(Answer(frames=[b"x" * 65536] * 64))
        async with client.stream(post(up)) as reply:
            assert sum([len(chunk) async for chunk in reply]) == 64 * 65536
        up.script(Answer(hold_at=-1), Answer(frames=[b"a", b"b"], hold_at=1))
        assert await fault_of(client, post(up, timeout_s=0.05)) == "timeout"
        async with client.stream(post(up)) as reply:
            assert await anext(reply) == b"a"
        assert (await up.wait_finished(5)).closed_at is not None
        up.script(Answer(frames=[b"a"], framing="close"), Answer(frames=[b"a", b"b"], end_at=1))
        assert (await client.send(post(up))).body == b"a"
        assert await fault_of(client, post(up)) == "truncated"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_client_behaves_alike_on_both_event_loops(run: Callable[[Coroutine[object, object, None]], None]) -> None:
    run(check_on_one_loop())


async def test_many_callers_that_stop_at_random_leave_no_connection_behind(up: FakeUpstream) -> None:  # PF-35
    chance = random.Random(7)  # noqa: S311 - a fixed mix of endings
    ends = [chance.choice(["whole", "stream", "leave", "cancel"]) for _ in range(200)]

    async def call(client: HttpClient, end: str) -> None:
        if end == "whole":
            assert (await client.send(post(up))).status == 200
        elif end == "cancel":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await client.send(post(up))
        else:
            async with client.stream(post(up, b'{"stream": true}')) as reply:
                async for _ in reply:
                    if end == "leave":
                        break

    async with HttpClient(TransportLimits(max_connections=16)) as client:
        async with asyncio.TaskGroup() as group:
            for end in ends:
                group.create_task(call(client, end))
        assert (await client.send(post(up))).status == 200
        assert up.open_connections <= 16
        idle = client.idle_connections
    assert idle <= 16
    assert client.idle_connections == 0
