"""Rates, numbers at a time, queues and breakers over real sockets (X-07, G-46, G-47)."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import Held, Serving, chat_body, guarded, policy, serving, tree
from tests.timing import PATIENCE_S

ROUTE = "/v1/chat/completions"
APP = {"authorization": f"Bearer {'a' * 40}"}


def keyed(**limits: int) -> dict[str, Any]:
    return {"keys": {"app": {"sha256": sha256(b"a" * 40).hexdigest(), "admin": True, **limits}}}


async def wait_for(proxy: Serving, line: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while line not in (await proxy.client.get("/metrics")).text:  # noqa: ASYNC110 - polls as Prometheus would
            await asyncio.sleep(0.01)


async def test_a_key_has_its_rate_on_every_route_that_judges(tmp_path: Path) -> None:
    parts = keyed(requests_per_minute=2) | {"unguarded_routes": [{"method": "POST", "path": "/v1/x"}]}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        proxy.client.headers.update(APP)
        assert [(await proxy.chat()).status_code for _ in range(2)] == [200, 200]
        for path, body in ((ROUTE, chat_body()), ("/v1/guardrails/check", {"input": "x"}), ("/v1/x", {})):
            reply = await proxy.client.post(path, json=body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert reply.json()["error"]["type"] == "rate_limit_error"
            assert 1 <= int(reply.headers["retry-after"]) <= 30
        outcomes = [(row["kind"], row["outcome"], row["client"]["status"]) for row in await proxy.records(5)]
        refused = [(kind, "client_error", 429) for kind in ("unguarded", "check", "exchange")]
        assert outcomes == [*refused, ("exchange", "answered", 200), ("exchange", "answered", 200)]
        assert len(up.received) == 2


async def test_a_key_has_its_number_at_a_time(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **keyed(max_in_flight=1))) as proxy:
        proxy.client.headers.update(APP)
        up.script(Answer(hold_at=-1))
        async with asyncio.TaskGroup() as group:
            first = group.create_task(proxy.chat())
            await up.wait_received()
            assert (await proxy.chat()).status_code == 429
            assert 'proxy_in_flight{limiter="key app"} 1.0' in (await proxy.client.get("/metrics")).text
            up.release()
        assert first.result().status_code == 200
        assert (await proxy.chat()).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("where", ["upstreams", "models"])
async def test_calls_wait_in_a_bounded_queue(tmp_path: Path, where: str, stream: bool) -> None:  # G-46
    async with FakeUpstream() as up:
        config = guarded(up, tmp_path, limits={"max_queue": 1})
        config[where]["main" if where == "upstreams" else "gpt"]["max_concurrency"] = 1
        async with serving(config) as proxy:
            up.script(Answer(hold_at=-1))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(proxy.chat(stream=stream))]
                await up.wait_received()
                tasks.append(group.create_task(proxy.chat(stream=stream)))
                name = "upstream main" if where == "upstreams" else "model gpt"
                await wait_for(proxy, f'proxy_queue_depth{{limiter="{name}"}} 1.0')
                refused = await proxy.chat(stream=stream)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
                assert refused.headers["retry-after"] == "30"
                call = (await proxy.records())[0]["upstream_call"]
                assert (call["called"], call["attempts"], call["seconds"]) == (False, 0, None)
                up.release()
            assert [task.result().status_code for task in tasks] == [200, 200]
            assert len(up.received) == 2


@pytest.mark.parametrize(("setting", "status"), [("block", 503), ({"default": "block", "overloaded": "log"}, 200)])
async def test_exchanges_wait_for_a_supervisor_in_a_bounded_queue(  # G-46
    tmp_path: Path, setting: object, status: int
) -> None:
    held = Held()
    rules = policy({"forced": ["slow"], "on_unknown": setting})
    parts = {"supervisors": {"slow": held}, "places": {"slow": 1}, "policies": rules, "limits": {"max_queue": 1}}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, **parts)) as proxy:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(proxy.chat()) for _ in range(2)]
            await wait_for(proxy, 'proxy_queue_depth{limiter="supervisor slow"} 1.0')
            assert 'proxy_in_flight{limiter="supervisor slow"} 1.0' in (await proxy.client.get("/metrics")).text
            third = await proxy.chat()
            assert third.status_code == status
            if status == 503:
                assert third.json()["error"]["code"] == "overloaded"
                assert third.json()["error"]["guardrail"]["cause"] == "overloaded"
                assert third.headers["retry-after"] == "30"
            else:
                assert third.headers["x-guardrail-verdict"] == "unknown; cause=overloaded"
            held.go.set()
        assert [task.result().status_code for task in tasks] == [200, 200]
        rows = [row for record in await proxy.records(3) for row in record["verdicts"]]
        assert sorted(str(row["cause"]) for row in rows) == ["None", "None", "overloaded"]
        counted = 'cause="overloaded",label="unknown",mode="enforce",stage="input",supervisor="slow"} 1.0'
        assert f"guardrail_verdicts_total{{{counted}" in (await proxy.client.get("/metrics")).text
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0


async def test_a_dead_server_is_left_alone_for_a_while(tmp_path: Path) -> None:  # G-47
    async with FakeUpstream() as up:
        config = guarded(up, tmp_path)
        config["upstreams"]["main"] |= {"breaker_failures": 2, "breaker_open_s": 2.0}
        async with serving(config) as proxy:
            up.script(*[Answer(status=503, json={"error": {"message": "down"}})] * 2)
            assert [(await proxy.chat()).status_code for _ in range(2)] == [503, 503]
            reply = await proxy.chat(stream=True)
            assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
            assert reply.headers["retry-after"] == "2"
            assert len(up.received) == 2
            ready = await proxy.client.get("/readyz")
            assert (ready.status_code, ready.json()["degraded"]) == (200, ["upstream main"])
            metrics = (await proxy.client.get("/metrics")).text
            assert 'guardrail_breaker_state{dependency="upstream main"} 2.0' in metrics
            assert 'proxy_upstream_errors_total{kind="circuit_open",upstream="main"} 1.0' in metrics
            async with asyncio.timeout(PATIENCE_S):
                while (await proxy.chat()).status_code != 200:  # noqa: ASYNC110 - comes back as a client would
                    await asyncio.sleep(0.05)
            assert (await proxy.client.get("/readyz")).json()["degraded"] == []
