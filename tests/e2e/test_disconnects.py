"""Callers that leave or stop reading: upstreams are closed, what was decided is recorded (operations O-10, R-03)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from supervisors.types import Supervisor, Verdict
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import Serving, chat_body, guarded, policy, serving
from tests.timing import AT_ONCE_S, PATIENCE_S


@dataclass(frozen=True, slots=True)
class Begins:
    """A supervisor that says when it is asked, and never answers."""

    asked: asyncio.Event

    async def assess(self, exchange: object, context: object, /) -> Verdict:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


OBSERVE = policy(output={"forced": ["words"], "stream": {"mode": "observe"}})


async def open_request(proxy: Serving, stream: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request and leave the connection open."""
    address = httpx.URL(proxy.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    body = orjson.dumps(chat_body(stream=stream))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def closed_after(up: FakeUpstream, left_at: float) -> float:
    """Return the seconds between the caller's leaving and the close of the upstream."""
    received = await up.wait_finished(0)
    assert received.closed_at is not None
    return received.closed_at - left_at


async def test_leaving_while_the_body_is_sent(tmp_path: Path) -> None:  # O-10, O-13
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        address = httpx.URL(proxy.url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
        writer.write(head)
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{")
        writer.close()
        record = (await proxy.wait_records())[0]
    assert (record["outcome"], record["client"]["status"]) == ("cancelled", 499)
    assert record["client"]["cancelled_phase"] == "before_upstream"
    assert (record["upstream_call"]["called"], record["verdicts"], up.received) == (False, [], [])


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_the_input_is_judged(tmp_path: Path, stream: bool) -> None:  # O-10, phase 1
    asked = asyncio.Event()
    slow: Mapping[str, Supervisor] = {"words": Begins(asked)}
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        _, writer = await open_request(proxy, stream)
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        writer.close()
        record = (await proxy.wait_records())[0]
        assert (record["outcome"], record["client"]["cancelled_phase"]) == ("cancelled", "before_upstream")
        assert [row["cause"] for row in record["verdicts"]] == ["skipped"]
        assert up.received == []


@pytest.mark.parametrize("mode", ["blocking", "parallel"])
@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_before_the_first_token(tmp_path: Path, stream: bool, mode: str) -> None:  # O-10, phase 2
    rules = policy({"forced": ["words"], "mode": mode})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(hold_at=-1))
        _, writer = await open_request(proxy, stream)
        await up.wait_received()
        await asyncio.sleep(0.1)
        left = asyncio.get_running_loop().time()
        writer.close()
        assert await closed_after(up, left) < AT_ONCE_S
        record = (await proxy.wait_records())[0]
        assert (record["outcome"], record["client"]["cancelled_phase"]) == ("cancelled", "before_first_token")
        assert [row["label"] for row in record["verdicts"] if row["stage"] == "input"] == ["safe"]


@pytest.mark.parametrize("policies", [None, OBSERVE])
async def test_leaving_in_the_middle_of_a_stream(
    tmp_path: Path, policies: dict[str, Any] | None
) -> None:  # O-10, phase 3
    parts = {} if policies is None else {"policies": policies}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        up.script(
            Answer(
                frames=sse(
                    *chat_chunks("All is well. And so on. ", "More of it, and more, and still more of it. ", "two")
                ),
                hold_at=3,
            )
        )
        reader, writer = await open_request(proxy, stream=True)
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"All is well.")
        left = asyncio.get_running_loop().time()
        writer.close()
        assert await closed_after(up, left) < AT_ONCE_S
        record = (await proxy.wait_records())[0]
        assert (record["outcome"], record["client"]["cancelled_phase"]) == ("cancelled", "streaming")
        assert record["client"]["terminator"] == "none"


@pytest.mark.parametrize("stream", [False, True])
async def test_who_left_just_before_the_answer_has_not_been_answered(tmp_path: Path, stream: bool) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for number in range(1, 9):  # the watch begins after 50 to 150 ms; these answers come before it
            up.script(Answer(hold_at=-1))
            _, writer = await open_request(proxy, stream=stream)
            await up.wait_received(number)
            writer.transport.abort()
            await asyncio.sleep(0.005)
            up.release()
        records = await proxy.wait_records(8)
    assert {(one["outcome"], one["client"]["status"], one["client"]["bytes"]) for one in records} == {
        ("cancelled", 499, 0)
    }


async def test_closing_the_sending_side_is_leaving(tmp_path: Path) -> None:  # O-10: nobody can tell the two apart
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(hold_at=-1))
        reader, writer = await open_request(proxy, stream=False)
        await up.wait_received()
        left = asyncio.get_running_loop().time()
        writer.write_eof()
        assert await closed_after(up, left) < AT_ONCE_S
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        assert (await proxy.wait_records())[0]["outcome"] == "cancelled"


async def test_leaving_while_a_whole_reply_arrives(tmp_path: Path) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=[b'{"a":', b"1}"], headers={"content-type": "application/json"}, hold_at=1))
        _, writer = await open_request(proxy, stream=False)
        await up.wait_received()
        await asyncio.sleep(0.1)
        left = asyncio.get_running_loop().time()
        writer.close()
        assert await closed_after(up, left) < AT_ONCE_S
        assert (await proxy.wait_records())[0]["outcome"] == "cancelled"


async def test_leaving_while_the_output_is_judged_cancels_the_supervisor(tmp_path: Path) -> None:  # O-10
    asked = asyncio.Event()
    slow: Mapping[str, Supervisor] = {"words": Begins(asked)}
    rules = policy(output={"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        _, writer = await open_request(proxy, stream=False)
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        writer.close()
        record = (await proxy.wait_records())[0]
        assert record["outcome"] == "cancelled"
        assert record["upstream_call"]["status"] == 200


async def test_a_caller_that_stops_reading_holds_up_the_upstream_and_not_the_memory(tmp_path: Path) -> None:
    frames = sse(*chat_chunks(*["x" * 50_000 + " " for _ in range(600)]))
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=OBSERVE)) as proxy:
        up.script(Answer(frames=frames))
        address = httpx.URL(proxy.url)
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        raw.connect((address.host, address.port))
        body = orjson.dumps(chat_body(stream=True))
        raw.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        received = await up.wait_received()
        halted = -1
        async with asyncio.timeout(PATIENCE_S):
            while halted < received.sent:
                halted = received.sent
                await asyncio.sleep(0.5)
        assert halted < len(frames) // 2  # 30 MB do not pile up in the proxy
        assert (await proxy.chat()).status_code == 200  # others are served meanwhile
        raw.close()
        await up.wait_finished(0)
        record = next(one for one in await proxy.wait_records(2) if one["stream"])
        assert record["outcome"] == "cancelled"
