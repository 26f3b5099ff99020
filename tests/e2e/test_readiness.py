"""`/readyz` tells a proxy that would block everything from one that decides without a failing part (O-08, F-05)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from supervisors.judge import Judge
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import policy, serving, tree, until
from tests.proxy.fake_local import SAYS, FakePackage


@pytest.mark.parametrize("status", [429, 500])
async def test_one_caller_cannot_close_the_judge_for_the_others(tmp_path: Path, status: int) -> None:
    rules = policy({"forced": ["judge"], "on_unknown": "block"})
    supervisors = {"judge": Judge(model="gpt")}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
        up.script(*[Answer(status=status, json={"error": {"message": "no"}}, headers={"retry-after": "99"})] * 30)
        for _ in range(6):
            assert (await proxy.chat()).status_code != 200  # nothing unjudged passes
        asked = len(up.received)
        assert (await proxy.client.get("/readyz")).json() == {"status": "ready", "missing": [], "degraded": []}
        await proxy.chat()
        assert len(up.received) > asked


@pytest.mark.parametrize(("on_unknown", "status"), [("block", 503), ("log", 200)])
async def test_a_judge_without_credentials_shows(tmp_path: Path, on_unknown: str, status: int) -> None:
    rules = policy({"forced": ["judge"], "on_unknown": on_unknown})
    supervisors = {"judge": Judge(model="gpt")}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
        assert (await proxy.client.get("/readyz")).status_code == 200
        up.script(Answer(status=401, json={"error": {"message": "no"}}))
        await proxy.chat()
        reply = await proxy.client.get("/readyz")
        assert reply.status_code == status
        assert reply.json()["degraded"] == ["gpt"]
        assert reply.json()["missing"] == (["supervisor judge"] if status == 503 else [])


async def test_a_dead_hosted_guard_is_named_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisors = {"hosted": {"use": "lakera", "url": "http://127.0.0.1:9/v2"}}
    rules = policy({"forced": ["hosted"], "on_unknown": "block"})
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
        with caplog.at_level("WARNING", "supervisors.chat.service"):
            for _ in range(7):
                assert (await proxy.chat()).status_code == 503
        told = [record for record in caplog.records if record.name == "supervisors.chat.service"]
        assert [(record.__dict__["dependency"], record.__dict__["cause"]) for record in told] == [("hosted", "connect")]
        ready = (await proxy.client.get("/readyz")).json()
        assert (ready["degraded"], ready["missing"]) == (["hosted"], ["supervisor hosted"])
        assert 'guardrail_breaker_state{dependency="hosted"} 2.0' in (await proxy.client.get("/metrics")).text


@pytest.mark.parametrize(("strategy", "down", "status"), [("any", "a", 503), ("all", "a", 200), ("all", "ab", 503)])
async def test_a_panel_is_ready_while_its_rule_can_say_safe(  # O-08
    tmp_path: Path, strategy: str, down: str, status: int
) -> None:
    members = {name: {"use": "judge", "model": name} for name in "ab"}
    supervisors = {"panel": {"use": "vote", "strategy": strategy, "members": members, "exhaustive": True}}
    rules = policy({"forced": ["panel"], "on_unknown": "block"})
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path, supervisors=supervisors, policies=rules)
        config["upstreams"]["off"] = {"base_url": "http://127.0.0.1:9/v1"}
        config["models"] |= {name: {"upstream": "off" if name in down else "main"} for name in "ab"}
        async with serving(config) as proxy:
            for _ in range(6):
                await proxy.chat()
            reply = await proxy.client.get("/readyz")
            assert (reply.status_code, reply.json()["degraded"]) == (status, list(down))
            assert reply.json()["missing"] == (["supervisor panel"] if status == 503 else [])


async def test_a_local_model_that_dies_is_a_server_that_is_down_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = FakePackage(tmp_path, monkeypatch)
    upstreams = {"own": {"use": "local", "path": package.weights}}
    config = {**tree("http://127.0.0.1:9/v1", tmp_path), "upstreams": upstreams, "models": {"gpt": {"upstream": "own"}}}
    async with serving(config) as proxy:
        kept = proxy.app.gateway.runtime.kept["own"]
        assert (await proxy.chat()).json()["choices"][0]["message"]["content"] == SAYS
        assert 'guardrail_local_restarts_total{upstream="own"} 0.0' in (await proxy.client.get("/metrics")).text
        package.spoil()
        os.kill(kept.pid, signal.SIGKILL)
        await until(lambda: kept.state == "starting")
        down = await proxy.chat()
        assert (down.status_code, down.json()["error"]["code"]) == (502, "upstream_error")
        ready = await proxy.client.get("/readyz")
        assert (ready.status_code, ready.json()["degraded"]) == (200, ["upstream own"])
        assert 'guardrail_breaker_state{dependency="upstream own"} 1.0' in (await proxy.client.get("/metrics")).text
        package.repair()
        await until(lambda: kept.state == "running")
        assert (await proxy.chat()).status_code == 200
        assert (await proxy.client.get("/readyz")).json()["degraded"] == []
        shown = (await proxy.client.get("/metrics")).text
        assert 'guardrail_local_restarts_total{upstream="own"} 1.0' in shown
        assert 'guardrail_breaker_state{dependency="upstream own"} 0.0' in shown
        kept.state = "given_up"
        lost = await proxy.client.get("/readyz")
        assert (lost.status_code, lost.json()["missing"]) == (503, ["upstream own"])
        assert 'guardrail_breaker_state{dependency="upstream own"} 2.0' in (await proxy.client.get("/metrics")).text
