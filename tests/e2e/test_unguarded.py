"""Declared routes pass unjudged and are recorded; everything else is 404 (wire §1; guarding M-09)."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.cli import main
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, guarded, hang_up, serving, tree

ROUTES: dict[str, Any] = {
    "unguarded_routes": [
        {"method": "GET", "path": "/v1/files"},
        {"method": "POST", "path": "/v1/files"},
        {"method": "GET", "path": "/v1/files/{id}/content"},
    ]
}


async def test_a_declared_route_passes_as_it_came_and_is_recorded(tmp_path: Path) -> None:  # M-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **ROUTES)) as proxy:
        up.script(Answer(status=201, json={"id": "file-1"}), Answer(frames=[b"a ", CANARY.encode()]))
        kind = {"content-type": "multipart/form-data; boundary=x", "authorization": "Bearer nobody", "cookie": "a=b"}
        sent = b"--x\r\n" + CANARY.encode() + b"\r\n--x--\r\n"
        reply = await proxy.client.post("/v1/files?purpose=batch", content=sent, headers=kind)
        assert (reply.status_code, reply.json()) == (201, {"id": "file-1"})
        assert (up.received[0].path, up.received[0].body) == ("/v1/files?purpose=batch", sent)
        assert up.received[0].header("content-type") == kind["content-type"]
        assert (up.received[0].header("authorization"), up.received[0].header("cookie")) == (None, None)
        again = await proxy.client.get("/files/file-1/content/")
        assert again.content == f"a {CANARY}".encode()
        assert (up.received[1].method, up.received[1].path) == ("GET", "/v1/files/file-1/content")
        records = await proxy.wait_records(2)
        assert [(one["kind"], one["route"], one["outcome"]) for one in records] == [
            ("unguarded", "/v1/files/{id}/content", "answered"),
            ("unguarded", "/v1/files", "answered"),
        ]
        assert again.headers["x-guardrail-id"] == records[0]["id"]
        metrics = (await proxy.client.get("/metrics")).text
        assert 'guardrail_unguarded_requests_total{route="/v1/files/{id}/content"} 1.0' in metrics
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/files"),
        ("GET", "/v1/files/file-1"),
        ("GET", "/v1/files/a/b/content"),
        ("GET", "/v1/files/%2e%2e/content"),
        ("GET", "/v1/files/a%2Fb/content"),
        ("GET", "/v1/Files"),
        ("GET", "//v1/files"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/images/generations"),
    ],
)
async def test_everything_else_stays_404(tmp_path: Path, method: str, path: str) -> None:  # M-09, wire §1
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **ROUTES)) as proxy:
        reply = await proxy.client.send(httpx.Request(method, httpx.URL(proxy.url).copy_with(raw_path=path.encode())))
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "unknown_route"
        assert up.received == []


async def test_failures_keep_their_status_and_say_no_address(tmp_path: Path) -> None:  # X-10, W-16
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **ROUTES)) as proxy:
        up.script(Answer(status=404, json={"error": {"message": f"no file at {up.url}", "code": "no_file"}}))
        missing = await proxy.client.get("/v1/files", headers={"x-request-id": "mine"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_file")
        assert up.url not in missing.text
        assert missing.headers["x-request-id"] == "mine"
        up.script(Answer(status=302, headers={"location": "http://127.0.0.1:1/"}))
        assert (await proxy.client.get("/v1/files")).status_code == 502
        address = up.url
        assert [one["outcome"] for one in await proxy.wait_records(2)] == ["upstream_error", "upstream_error"]
    async with serving(tree(address, tmp_path, **ROUTES)) as proxy:
        down = await proxy.client.get("/v1/files")
        assert (down.status_code, down.json()["error"]["code"]) == (502, "upstream_error")


async def test_a_reply_that_breaks_off_is_cut_and_not_completed(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **ROUTES)) as proxy:
        up.script(Answer(frames=[b"one", b"two", b"three"], abort_at=2, frame_delay_s=0.05))
        with pytest.raises(httpx.RemoteProtocolError):
            await proxy.client.get("/v1/files")
        record = (await proxy.wait_records(1))[0]
        assert (record["outcome"], record["client"]["status"]) == ("upstream_error", 200)


async def test_keys_and_limits_hold_there_too(tmp_path: Path) -> None:  # W-19, X-01
    keys = {
        "all": {"sha256": sha256(b"a" * 40).hexdigest(), "admin": True},
        "chat": {"sha256": sha256(b"b" * 40).hexdigest(), "routes": ["/v1/chat/*"]},
    }
    parts = {**ROUTES, "keys": keys, "limits": {"max_body_bytes": 100}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await proxy.client.get("/v1/files")).status_code == 401
        refused = await proxy.client.get("/v1/files", headers={"x-api-key": "b" * 40})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "route_not_allowed")
        big = await proxy.client.post("/v1/files", content=b"x" * 200, headers={"x-api-key": "a" * 40})
        assert big.status_code == 413
        assert up.received == []


async def test_a_disconnect_closes_the_upstream_and_is_recorded(tmp_path: Path) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **ROUTES)) as proxy:
        up.script(Answer(json={}, hold_at=-1))
        await hang_up(proxy.client.get("/v1/files"), up.wait_received())
        assert (await up.wait_finished(0)).closed_at is not None
        record = (await proxy.wait_records(1))[0]
        assert (record["outcome"], record["client"]["status"]) == ("cancelled", 499)


async def test_a_guardrail_that_cannot_be_added_is_refused_not_ignored(tmp_path: Path) -> None:  # wire §3.1, M-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, tasks=["title"], **ROUTES)) as proxy:
        more = {"x-guardrail-add": "words", "x-guardrail-task": "title"}
        refused = await proxy.client.get("/v1/files", headers=more)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_guardrails")
        assert up.received == []
        up.script(Answer(json={}), Answer(json={}))
        assert (await proxy.client.get("/v1/files", headers={"x-guardrail-add": ","})).status_code == 200
        assert (await proxy.client.post("/v1/files", json={"guardrails": ["theirs"]})).status_code == 200
        assert up.received[1].json == {"guardrails": ["theirs"]}
        found = [(one["outcome"], one["task"]) for one in await proxy.wait_records(3)]
        assert found == [("answered", None), ("answered", None), ("client_error", "title")]
