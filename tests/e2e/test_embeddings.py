"""Embeddings over real sockets: the input stage only, the vectors untouched (wire §7; guarding M-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.checks import check_config
from proxy.cli import main
from proxy.config import Config
from supervisors.rules import Rules
from supervisors.testing import Fails, Sleeps
from supervisors.types import Supervisor, unsafe
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, WORDS, Serving, guarded, hang_up, policy, serving, tree

ROUTE = "/v1/embeddings"
VECTORS = b'{ "object":"list",\n "data":[{"object":"embedding","index":0,"embedding":[0.10,-1e-5]}], "model":"e" }'


async def embed(proxy: Serving, value: object, **fields: Any) -> httpx.Response:
    return await proxy.client.post(ROUTE, json={"model": "gpt", "input": value, **fields})


async def test_an_allowed_reply_is_the_upstreams_bytes(tmp_path: Path) -> None:  # wire §7, M-11
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(body=VECTORS, headers={"content-type": "application/json"}))
        reply = await embed(proxy, ["one", "two"], encoding_format="float", dimensions=2)
        assert reply.content == VECTORS
        assert (up.received[0].path, up.received[0].json["dimensions"]) == (ROUTE, 2)
        assert reply.headers["x-guardrail-verdict"] == "safe"
        assert (await proxy.client.post("/embeddings", json={"model": "gpt", "input": "x"})).status_code == 200
        record = (await proxy.records(2))[-1]
        assert record["prescribed"] == {"input": ["words"], "output": []}
        assert {row["stage"] for row in record["verdicts"]} == {"input"}


@pytest.mark.parametrize("value", [CANARY, ["fine", CANARY], ["fine", [1, 2], CANARY]])
@pytest.mark.parametrize("on_block", ["error", "refusal"])
async def test_any_blocked_input_blocks_the_request(
    tmp_path: Path, value: object, on_block: str
) -> None:  # M-04, M-11, wire §5.1
    rules = policy({"forced": ["words"]}, on_block={"input": on_block})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        reply = await embed(proxy, value)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "content_filter", "input")
        assert up.received == []


@pytest.mark.parametrize("value", [[1, 2, 3], [[1, 2], [3]]])
async def test_token_arrays_are_unknown_and_the_policy_decides(tmp_path: Path, value: object) -> None:  # M-11, G-05
    words: Mapping[str, Supervisor] = {"words": Rules.model_validate({"use": "rules", "keywords": [CANARY]})}
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=words, policies=rules)) as proxy:
        reply = await embed(proxy, value)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_not_judged")
        assert up.received == []
    rules = policy({"forced": ["words"], "on_unknown": {"unsupported": "log"}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=words, policies=rules)) as proxy:
        reply = await embed(proxy, value)
        assert reply.status_code == 200
        assert reply.headers["x-guardrail-verdict"] == "unknown; cause=unsupported"


@pytest.mark.parametrize("value", [f"my {CANARY}", ["fine", f"my {CANARY}"]])
async def test_a_redaction_changes_what_is_embedded(tmp_path: Path, value: object) -> None:  # M-03, G-38
    rules = policy({"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        assert (await embed(proxy, value)).status_code == 200
        sent = up.received[0].json["input"]
        assert (sent if isinstance(sent, str) else sent[1]) == "my [REDACTED:canary]"


async def test_a_broken_supervisor_is_a_503(tmp_path: Path) -> None:  # F-01
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken, policies=rules)) as proxy:
        reply = await embed(proxy, "x")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "guardrail_unavailable")
        assert up.received == []


async def test_parallel_judging_lets_no_vector_leave_before_its_block(tmp_path: Path) -> None:  # guarding §5
    judge: Mapping[str, Supervisor] = {"words": Sleeps(0.1, unsafe("canary"))}
    rules = policy({"forced": ["words"], "mode": "parallel"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judge, policies=rules)) as proxy:
        reply = await embed(proxy, "x")
        assert reply.status_code == 400
        assert "embedding" not in reply.text


async def test_streams_and_bad_replies(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        refused = await embed(proxy, "x", stream=True)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "stream")
        up.script(Answer(status=429, json={"error": {"message": "slow down", "type": "rate_limit_error"}}))
        assert (await embed(proxy, "x")).status_code == 429
        up.script(Answer(body=b"oops", headers={"content-type": "application/json"}))
        assert (await embed(proxy, "x")).status_code == 502


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"error":{"message":"violet umbrella"}}',
        b'{"error":"violet umbrella"}',
        b'{"data":"violet umbrella"}',
        b'{"data":["violet umbrella"]}',
        b'{"data":[{"embedding":"violet umbrella"}]}',
        b'{"data":[{"embedding":[0.5]},{"index":1}]}',
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"violet umbrella"}}]}',
    ],
)
async def test_a_reply_that_is_no_list_of_vectors_does_not_leave(tmp_path: Path, body: bytes) -> None:  # wire §4
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(body=body, headers={"content-type": "application/json"}))
        reply = await embed(proxy, "x")
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        assert "umbrella" not in reply.text
        (record,) = await proxy.records()
        assert (record["outcome"], record["upstream_call"]["error_kind"]) == ("upstream_error", "protocol")


@pytest.mark.parametrize("vectors", [b'{"data":[]}', b'{"data":[{"embedding":"AAAAPw=="},{"embedding":[[0.5]]}]}'])
async def test_every_form_of_vectors_leaves(tmp_path: Path, vectors: bytes) -> None:  # wire §7
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(body=vectors, headers={"content-type": "application/json"}))
        assert (await embed(proxy, "x")).content == vectors


async def test_a_disconnect_closes_the_upstream_and_is_recorded(tmp_path: Path) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json={}, hold_at=-1))
        await hang_up(embed(proxy, "x"), up.wait_received())
        assert (await up.wait_finished(0)).closed_at is not None
        assert (await proxy.wait_records(1))[0]["outcome"] == "cancelled"


async def test_the_journal_holds_after_embeddings(tmp_path: Path) -> None:  # L-01, O-11
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for value in ("fine", CANARY, 7):
            await embed(proxy, value)
        await proxy.app.gateway.journal.flush()
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0


def test_a_refusal_for_a_route_that_cannot_hold_one_is_a_config_error(tmp_path: Path) -> None:  # wire §5.1
    attach = {"routes": [ROUTE]}
    rules = policy({"forced": ["words"]}, {"forced": ["words"]}, attach=attach, on_block={"input": "refusal"})
    config = tree("http://127.0.0.1:1/v1", tmp_path, supervisors=WORDS, policies=rules)
    found = {(one.severity, one.path) for one in check_config(Config.model_validate(config))}
    assert ("error", "policies.default.on_block.input") in found
    assert ("warning", "policies.default.output") in found
