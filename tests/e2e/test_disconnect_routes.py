"""Callers that leave, in every phase and on every route, whole and streamed (O-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from supervisors.testing import Sleeps
from supervisors.types import Supervisor
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.e2e.families import FAMILIES, Family, answer_to, families_tree
from tests.e2e.serving import Serving, policy, serving
from tests.timing import AT_ONCE_S, PATIENCE_S

LONG = "All is well, and it goes on and on. "
WINDOW = {"window_chars": 12, "overlap_chars": 20}
SLOW: Mapping[str, Supervisor] = {"words": Sleeps(20)}
ALL = [(family, stream) for family in FAMILIES for stream in (False, True)]
INPUT_ONLY = (Family("embeddings", "/v1/embeddings", "gpt", "/v1/embeddings"),)
Cases = Sequence[tuple[Family, bool]]


async def post(proxy: Serving, route: str, body: Mapping[str, Any]) -> asyncio.StreamWriter:
    """Send a request and leave the connection open."""
    address = httpx.URL(proxy.url)
    _, writer = await asyncio.open_connection(address.host, address.port)
    raw = orjson.dumps(body)
    writer.write(f"POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
    await writer.drain()
    return writer


async def leave(proxy: Serving, up: FakeUpstream, cases: Cases, ready: Callable[[], bool]) -> list[dict[str, Any]]:
    """Send one request a case, leave them all at once when `ready`, and return the records.

    Every upstream call that is still open must end at once.
    """
    bodies = [(family.route, {**family.body(), "stream": stream}) for family, stream in cases]
    writers = [await post(proxy, route, body) for route, body in bodies]
    async with asyncio.timeout(PATIENCE_S):
        while not ready():  # noqa: ASYNC110 - the phase is seen at the fake upstream only
            await asyncio.sleep(0.02)
    left = asyncio.get_running_loop().time()
    for writer in writers:
        writer.close()
    for received in up.received:
        async with asyncio.timeout(PATIENCE_S):
            await received.finished.wait()
        assert (received.closed_at or left) - left < AT_ONCE_S, received.path
    records = await proxy.wait_records(len(cases))
    assert {record["outcome"] for record in records} == {"cancelled"}
    assert proxy.app.gateway.in_flight == 0
    return records


def phases(records: Sequence[Mapping[str, Any]]) -> set[str]:
    return {record["client"]["cancelled_phase"] for record in records}


async def test_while_the_input_is_judged(tmp_path: Path) -> None:  # O-10
    rules = policy({"forced": ["words"]})
    cases = [*ALL, *[(family, False) for family in INPUT_ONLY]]
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, supervisors=SLOW, policies=rules)) as proxy:
        records = await leave(proxy, up, cases, lambda: proxy.app.gateway.in_flight == len(cases))
        assert phases(records) == {"before_upstream"}
        assert {record["upstream_call"]["called"] for record in records} == {False}
        assert up.received == []


@pytest.mark.parametrize("mode", ["blocking", "parallel"])
async def test_while_the_model_server_is_silent(tmp_path: Path, mode: str) -> None:  # O-10
    rules = policy({"forced": ["words"], "mode": mode}, {"forced": ["words"]})
    cases = [*ALL, *[(family, False) for family in INPUT_ONLY]]
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, policies=rules)) as proxy:
        up.script(*[Answer(hold_at=-1)] * len(cases))
        records = await leave(proxy, up, cases, lambda: len(up.received) == len(cases))
        assert phases(records) == {"before_first_token"}
        assert all(record["upstream_call"]["cancelled"] for record in records)


def paused(after: int) -> Callable[[Received], Answer]:
    """Answer so that the server pauses in the middle of its reply."""

    def answer(received: Received) -> Answer:
        streamed = bool(received.json.get("stream"))
        return answer_to(received, LONG, LONG, LONG, LONG, hold_at=after if streamed else 1)

    return answer


def complete(received: Received) -> Answer:
    return answer_to(received, LONG, LONG)


async def test_in_the_middle_of_a_reply(tmp_path: Path) -> None:  # O-10
    rules = policy(output={"forced": ["words"], "stream": {"mode": "observe"}})
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, policies=rules)) as proxy:
        up.script(*[paused(5)] * len(ALL))
        begun = lambda: sum(received.sent > 0 for received in up.received) == len(ALL)  # noqa: E731
        records = await leave(proxy, up, ALL, begun)
        assert all(record["upstream_call"]["cancelled"] for record in records)
        assert {record["client"]["terminator"] for record in records} == {"none"}


@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
async def test_while_output_is_held(tmp_path: Path, mode: str) -> None:  # O-10, S-11b
    rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "mode": mode}})
    streams = [(family, True) for family in FAMILIES]
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, policies=rules)) as proxy:
        up.script(*[paused(4)] * len(streams))
        held = lambda: sum(received.sent >= 3 for received in up.received) == len(streams)  # noqa: E731
        records = await leave(proxy, up, streams, held)
        assert all(record["upstream_call"]["cancelled"] for record in records)


@pytest.mark.parametrize("mode", ["hold", "window"])
async def test_during_the_verdict_on_the_output(tmp_path: Path, mode: str) -> None:  # O-10
    rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "mode": mode}})
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, supervisors=SLOW, policies=rules)) as proxy:
        up.script(*[complete] * len(ALL))
        records = await leave(proxy, up, ALL, lambda: sum(one.sent > 1 for one in up.received) == len(ALL))
        assert {row["cause"] for record in records for row in record["verdicts"]} == {"skipped"}


async def test_while_a_text_is_moderated(tmp_path: Path) -> None:  # O-10
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, supervisors=SLOW, policies=rules)) as proxy:
        writer = await post(proxy, "/v1/moderations", {"input": "hello"})
        async with asyncio.timeout(PATIENCE_S):
            while proxy.app.gateway.in_flight == 0:  # noqa: ASYNC110 - polls as a client would
                await asyncio.sleep(0.01)
        writer.close()
        assert (await proxy.wait_records())[0]["outcome"] == "cancelled"
