"""The HTTP client against a scripted server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from supervisors.transport import HttpClient, HttpRequest, TransportError, TransportLimits
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse


@pytest.fixture
async def up() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(TransportLimits(connect_s=2.0, read_s=5.0)) as made:
        yield made


def post(up: FakeUpstream, body: bytes = b"{}", timeout_s: float | None = 5.0) -> HttpRequest:
    return HttpRequest("POST", f"{up.url}/chat/completions", (("x-tag", "violet"),), body, timeout_s)


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


async def test_leaving_a_stream_early_closes_the_connection_within_half_a_second(  # O-10
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
    async with client.stream(post(up)) as reply:
        await anext(reply)
        left = asyncio.get_running_loop().time()
    received = await up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < 0.5


async def test_a_reply_that_does_not_come_in_time_is_a_timeout(up: FakeUpstream, client: HttpClient) -> None:
    up.script(Answer(hold_at=-1))
    with pytest.raises(TransportError) as caught:
        await client.send(post(up, timeout_s=0.05))
    assert caught.value.fault == "timeout"
    assert (await up.wait_finished()).closed_at is not None
