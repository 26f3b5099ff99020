from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from evals.attempts import Caller, Lookup
from evals.client import Address
from evals.journal import JsonObject
from supervisors.transport import HttpClient
from tests.e2e.fake_upstream import Answer, FakeUpstream

BODY: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
NOW = {"retry-after": "0"}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient() as opened:
        yield opened


async def _post(client: HttpClient, upstream: FakeUpstream, retries: int = 3) -> tuple[int | None, list[int | None]]:
    called = await Caller(client, retries).post(Address(upstream.url), "/chat/completions", BODY)
    return called.answer.status if called.answer else None, [attempt.status for attempt in called.failed]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_tried_again(
    client: HttpClient, upstream: FakeUpstream, status: int
) -> None:  # H-124
    upstream.script(Answer(status=status, json={"error": {}}, headers=NOW), Answer())
    assert await _post(client, upstream) == (200, [status])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_other_refusals_are_final(
    client: HttpClient, upstream: FakeUpstream, status: int
) -> None:  # H-124, BO-08
    upstream.script(Answer(status=status, json={"error": {}}))
    assert await _post(client, upstream) == (status, [])
    assert len(upstream.received) == 1


async def test_a_block_is_an_answer_and_not_a_failure(client: HttpClient, upstream: FakeUpstream) -> None:
    blocked = {"error": {"code": "guardrail_unavailable", "guardrail": {"stage": "input"}}}
    upstream.script(Answer(status=503, json=blocked, headers=NOW))
    assert await _post(client, upstream) == (503, [])


async def test_retries_end(client: HttpClient, upstream: FakeUpstream) -> None:  # H-124
    upstream.script(*[Answer(status=503, json={"error": {}}, headers=NOW)] * 5)
    assert await _post(client, upstream, retries=2) == (503, [503, 503, 503])
    assert len(upstream.received) == 3


async def test_a_reset_connection_is_tried_again(client: HttpClient, upstream: FakeUpstream) -> None:  # H-36
    upstream.script(Answer(abort_at=-1), Answer())
    caller = Caller(client, 3)
    caller.backoff_s = 0.0
    called = await caller.post(Address(upstream.url), "/chat/completions", BODY)
    assert called.answer is not None
    assert [attempt.kind for attempt in called.failed] == ["reset"]


async def test_nobody_listening_is_a_failure_with_its_kind(client: HttpClient) -> None:
    called = await Caller(client, 0).post(Address("http://127.0.0.1:9/v1"), "/chat/completions", BODY)
    assert called.answer is None
    assert [attempt.kind for attempt in called.failed] == ["connect"]


async def test_a_body_that_is_not_json_is_a_failure(client: HttpClient, upstream: FakeUpstream) -> None:
    upstream.script(Answer(body=b"not json"))
    called = await Caller(client, 0).post(Address(upstream.url), "/chat/completions", BODY)
    assert [attempt.kind for attempt in called.failed] == ["not_json"]


async def test_overload_is_told_once_a_reply(client: HttpClient, upstream: FakeUpstream) -> None:  # H-123
    told: list[int] = []
    answers = [
        Answer(status=429, json={}, headers=NOW),
        Answer(status=503, json={}, headers=NOW),
        Answer(status=500, json={}, headers=NOW),
    ]
    upstream.script(*answers, Answer())
    await Caller(client, 5, overloaded=lambda: told.append(1)).post(Address(upstream.url), "/chat/completions", BODY)
    assert len(told) == 2


async def test_a_record_that_never_appears_is_none(client: HttpClient, upstream: FakeUpstream) -> None:
    upstream.script(*[Answer(status=404, json={})] * 3)
    assert await Caller(client).find_record(Address(upstream.url), "nothing", 0.0) == Lookup()


async def test_a_key_that_may_not_see_records_is_told_at_once(client: HttpClient, upstream: FakeUpstream) -> None:
    upstream.script(Answer(status=403, json={}))
    assert await Caller(client).find_record(Address(upstream.url), "mine", 60.0) == Lookup(refused=True)


async def test_how_long_records_take_is_learned(client: HttpClient, upstream: FakeUpstream) -> None:
    upstream.script(*[Answer(status=404, json={})] * 2, Answer(json={"id": "late"}), Answer(json={"id": "there"}))
    caller = Caller(client)
    assert await caller.find_record(Address(upstream.url), "late", 60.0) == Lookup({"id": "late"})
    learned = caller.record_s
    assert 0.0 < learned <= 0.05
    assert await caller.find_record(Address(upstream.url), "there", 60.0) == Lookup({"id": "there"})
    assert len(upstream.received) == 4
    assert caller.record_s < learned  # it was there at the first look: the next one comes a little earlier
