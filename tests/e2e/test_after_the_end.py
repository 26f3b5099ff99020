"""What happens between the end that a caller has read and the end of its upstream's stream."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from proxy.cli import main
from tests.e2e.fake_messages import message_body
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, sse
from tests.e2e.serving import CANARY, Serving, chat_body, guarded, policy, serving
from tests.timing import PATIENCE_S

OUTPUT = policy(output={"forced": ["words"]})
FRAMES = sse(*chat_chunks("Hello ", "there."))


async def read_to_the_end(proxy: Serving, path: str, body: dict[str, object], last: bytes) -> bytes:
    """Read a stream as SDKs do: up to its last event, and close."""
    read = b""
    async with asyncio.timeout(PATIENCE_S):
        async with httpx.AsyncClient(base_url=proxy.url) as client, client.stream("POST", path, json=body) as reply:
            async for part in reply.aiter_bytes():
                read += part
                if last in read:
                    break
    return read


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/messages"])
async def test_a_caller_that_leaves_with_the_end_has_not_cancelled(  # O-10
    tmp_path: Path, route: str, *, judged: bool
) -> None:
    policies = OUTPUT if judged else policy()
    chat = route.endswith("completions")
    body, last = (chat_body(stream=True), b"[DONE]") if chat else (message_body(stream=True), b"message_stop")
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=policies)) as proxy:
        up.script(Answer(frames=[*FRAMES, b": bye\n\n"], hold_at=len(FRAMES)))
        assert last in await read_to_the_end(proxy, route, body, last)
        (record,) = await proxy.wait_records()
        assert (record["outcome"], record["client"]["terminator"]) == ("answered", "done")
        assert record["client"]["cancelled_phase"] is None
        up.release()
    assert main(["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0


async def test_a_block_is_recorded_though_half_a_frame_is_behind_it(tmp_path: Path) -> None:
    half = [*sse(*chat_chunks(f"a {CANARY} b"))[:-1], b'data: {"id":"c1","del']
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=OUTPUT)) as proxy:
        up.script(Answer(frames=[*half, b"x"], hold_at=len(half)))
        reply = await proxy.chat(stream=True)
        assert "violet" not in reply.text
        (record,) = await proxy.wait_records()
        assert record["outcome"] == "blocked_output"
        up.release()


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/messages"])
async def test_a_connection_serves_again_after_a_stream(tmp_path: Path, route: str, *, judged: bool) -> None:  # PF-07
    policies = OUTPUT if judged else policy()
    body = chat_body(stream=True) if route.endswith("completions") else message_body(stream=True)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=policies)) as proxy:
        async with httpx.AsyncClient(base_url=proxy.url) as client:
            for _ in range(5):
                up.script(Answer(frames=[*FRAMES, b""], frame_delay_s=0.01))
                reply = await client.post(route, json=body)
                assert reply.status_code == 200
        assert up.connections == 1


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/messages"])
async def test_a_connection_that_breaks_behind_the_end_breaks_no_reply(  # W-06
    tmp_path: Path, route: str, *, judged: bool
) -> None:
    body = chat_body(stream=True) if route.endswith("completions") else message_body(stream=True)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=OUTPUT if judged else policy())) as proxy:
        up.script(Answer(frames=[*FRAMES, b": bye\n\n"], end_at=len(FRAMES)))
        async with httpx.AsyncClient(base_url=proxy.url) as client:
            reply = await client.post(route, json=body)
        assert b"error" not in reply.content
        (record,) = await proxy.wait_records()
        assert (record["outcome"], record["client"]["terminator"]) == ("answered", "done")
