"""Bad requests, broken supervisors and broken upstreams over real sockets (wire §2, §4; guarding §14)."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from supervisors.testing import Always, Fails, Sleeps
from supervisors.types import Cause, Supervisor, unknown
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import CANARY, guarded, policy, serving
from tests.timing import PATIENCE_S


@pytest.mark.parametrize(
    ("stage", "stream", "status"),
    [("input", False, 503), ("input", True, 503), ("output", False, 503), ("output", True, 503)],
)
async def test_a_broken_supervisor_is_a_503_and_never_safe(
    tmp_path: Path, stage: str, stream: bool, status: int
) -> None:  # F-01, F-06
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}
    rules = policy(**{"stage" if stage == "input" else "output": {"forced": ["words"]}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken, policies=rules)) as proxy:
        reply = await proxy.chat(stream=stream)
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "guardrail_unavailable"
        assert "retry-after" in reply.headers
        record = (await proxy.records())[0]
        assert record["outcome"] == "unavailable"
        assert [row["label"] for row in record["verdicts"] if row["stage"] == stage] == ["unknown"]


async def test_on_unknown_log_lets_the_exchange_pass_and_says_so(tmp_path: Path) -> None:  # F-01
    broken: Mapping[str, Supervisor] = {"words": Always(unknown(Cause.TIMEOUT))}
    rules = policy({"forced": ["words"], "on_unknown": {"default": "block", "timeout": "log"}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken, policies=rules)) as proxy:
        reply = await proxy.chat()
        assert reply.status_code == 200
        assert reply.headers["x-guardrail-verdict"] == "unknown; cause=timeout"
        assert reply.headers["x-guardrail-decision"] == "flag"


async def test_a_slow_supervisor_times_out_on_the_wall_clock(tmp_path: Path) -> None:  # F-07, G-45
    rules = policy({"forced": ["words"], "timeout_s": 0.2})
    config: dict[str, Any] = {"supervisors": {"words": Sleeps(30)}, "policies": rules}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **config)) as proxy:
        async with asyncio.timeout(PATIENCE_S):
            reply = await proxy.chat()
        assert reply.status_code == 503
        assert reply.json()["error"]["guardrail"]["cause"] == "timeout"


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (b"{", "invalid_json", 400),
        (b"[]", "invalid_json", 400),
        (b'{"model":"gpt","model":"x","messages":[]}', "invalid_json", 400),
        (b'{"model":"gpt","messages":[{"role":"user","content":"\\ud800"}]}', "invalid_json", 400),
        (b'{"model":"gpt","seed":NaN,"messages":[]}', "invalid_json", 400),
        (b'{"model":"gpt","messages":' + b"[" * 100 + b"]" * 100 + b"}", "invalid_json", 400),
        (b'{"model":"gpt","messages":[]}', "invalid_value", 400),
        (b'{"model":"gpt","messages":"x"}', "invalid_value", 400),
        (b'{"model":"gpt","messages":[{"role":"wizard","content":"x"}]}', "invalid_value", 400),
        (b'{"model":"gpt","stream":1,"messages":[{"role":"user","content":"x"}]}', "invalid_value", 400),
        (b'{"model":"gpt","api_base":"http://x","messages":[]}', "unsupported_parameter", 400),
        (b'{"model":"gpt","metadata":{"a":{"api_key":"x"}},"messages":[]}', "unsupported_parameter", 400),
        (b'{"model":"gpt","guardrails":{"disable":true},"messages":[]}', "invalid_guardrails", 400),
        (b'{"model":"gpt","guardrails":["nope"],"messages":[]}', "unknown_guardrail", 400),
        (b'{"model":"other","messages":[]}', "model_not_found", 404),
    ],
)
async def test_bad_bodies_get_the_right_error(tmp_path: Path, body: bytes, code: str, status: int) -> None:  # W-21
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/v1/chat/completions", content=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert reply.headers["x-request-id"]
        assert up.received == []


async def test_sizes_encodings_and_methods(tmp_path: Path) -> None:  # W-18, W-19, W-02
    limits = {"max_body_bytes": 1000}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits=limits)) as proxy:
        route = "/v1/chat/completions"
        big = orjson.dumps({"model": "gpt", "messages": [{"role": "user", "content": "x" * 2000}]})
        assert (await proxy.client.post(route, content=big)).status_code == 413
        packed = await proxy.client.post(route, content=gzip.compress(big), headers={"content-encoding": "gzip"})
        assert packed.status_code == 413
        small = orjson.dumps({"model": "gpt", "messages": [{"role": "user", "content": "hi"}]})
        ok = await proxy.client.post(route, content=gzip.compress(small), headers={"content-encoding": "gzip"})
        assert ok.status_code == 200
        cut = gzip.compress(small)[:-4]
        assert (await proxy.client.post(route, content=cut, headers={"content-encoding": "gzip"})).status_code == 400
        assert (await proxy.client.post(route, content=small, headers={"content-encoding": "br"})).status_code == 415
        wrong = await proxy.client.get(route)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert (await proxy.client.post("/chat/completions/", content=small)).status_code == 200
        assert (await proxy.client.get("/models")).json()["data"][0]["id"] == "gpt"
        assert (await proxy.client.get("/v1/models/gpt")).json()["object"] == "model"
        assert (await proxy.client.get("/v1/files")).json()["error"]["code"] == "unknown_route"


async def test_keys_open_what_they_may_and_nothing_else(tmp_path: Path) -> None:
    keys: dict[str, dict[str, object]] = {
        "app": {"sha256": sha256(b"a" * 40).hexdigest(), "check": False},
        "ops": {"sha256": sha256(b"b" * 40).hexdigest(), "admin": True, "models": []},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=keys)) as proxy:
        assert (await proxy.chat()).status_code == 401
        app, ops = {"authorization": f"Bearer {'a' * 40}"}, {"x-api-key": "b" * 40}
        body = {"model": "gpt", "messages": [{"role": "user", "content": "x"}]}
        assert (await proxy.client.post("/v1/chat/completions", json=body, headers=app)).status_code == 200
        refused = await proxy.client.post("/v1/chat/completions", json=body, headers=ops)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
        assert (await proxy.client.get("/v1/decisions", headers=app)).status_code == 403
        assert (await proxy.client.get("/v1/decisions", headers=ops)).status_code == 200
        assert (await proxy.client.post("/v1/guardrails/check", json={"input": "x"}, headers=app)).status_code == 403


async def test_request_ids_are_echoed_when_well_formed(tmp_path: Path) -> None:  # W-16
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for path in ("/v1/models", "/nope", "/livez"):
            reply = await proxy.client.get(path, headers={"x-request-id": "my-id.1"})
            assert reply.headers["x-request-id"] == "my-id.1"
            odd = await proxy.client.get(path, headers={"x-request-id": "spaces are odd"})
            assert odd.headers["x-request-id"] != "spaces are odd"


async def test_optional_supervisors_run_when_asked_for(tmp_path: Path) -> None:  # G-15, wire §2.4
    rules = policy({"optional": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        assert (await proxy.chat(CANARY)).status_code == 200
        assert (await proxy.chat(CANARY, guardrails=["words"])).status_code == 400
        assert "guardrails" not in up.received[0].json
        header = {"x-guardrail-add": "words"}
        body = {"model": "gpt", "messages": [{"role": "user", "content": CANARY}]}
        assert (await proxy.client.post("/v1/chat/completions", json=body, headers=header)).status_code == 400


async def test_an_unknown_filter_of_decisions_names_the_known_ones(tmp_path: Path) -> None:  # W-37
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        error = (await proxy.client.get("/v1/decisions?outcome=blocked_input")).json()["error"]
        assert (error["code"], error["param"]) == ("invalid_value", "outcome")
        assert error["message"].endswith("known are: from, to, label, decision, supervisor, model, limit, after.")
