"""Requests that end before anybody judges them, on every route: a record of the route's kind, and a journal that proves
itself (O-13, §4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.cli import main
from supervisors.testing import Sleeps
from supervisors.types import Supervisor
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import Serving, guarded, serving
from tests.timing import PATIENCE_S

APP, OFTEN, NOBODY = "a" * 40, "b" * 40, "c" * 40
KEYS: dict[str, dict[str, Any]] = {
    "app": {"sha256": sha256(APP.encode()).hexdigest(), "admin": True},
    "often": {"sha256": sha256(OFTEN.encode()).hexdigest(), "requests_per_minute": 1},
    "nobody": {"sha256": sha256(NOBODY.encode()).hexdigest(), "routes": [], "check": False},
}
CONFIG: dict[str, Any] = {
    "keys": KEYS,
    "limits": {"max_body_bytes": 2000, "request_timeout_s": 0.4},
    "unguarded_routes": [{"method": "POST", "path": "/v1/files"}],
}
ROUTES: Sequence[tuple[str, str, str]] = [
    ("/v1/chat/completions", "exchange", "/v1/chat/completions"),
    ("/v1/completions", "exchange", "/v1/completions"),
    ("/v1/responses", "exchange", "/v1/responses"),
    ("/v1/embeddings", "exchange", "/v1/embeddings"),
    ("/v1/messages", "exchange", "/v1/messages"),
    ("/v1/moderations", "moderation", "/v1/moderations"),
    ("/v1/guardrails/check", "check", "/v1/chat/completions"),
    ("/v1/files", "unguarded", "/v1/files"),
]
GONE = 499


def request(path: str, body: bytes, *, key: str = APP, length: int | None = None, extra: str = "") -> bytes:
    """Return a request; with a length of its own it is not complete."""
    length = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n{extra}content-length: {length}\r\n\r\n"
    return head.encode() + body


async def ask(proxy: Serving, sent: bytes, *, leave: bool = False) -> tuple[int, str | None]:
    """Send bytes; return the status of the answer and the id of the record in it."""
    address = httpx.URL(proxy.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(sent)
    try:
        async with asyncio.timeout(PATIENCE_S):
            if leave:
                assert b" 100 " in await reader.readuntil(b"\r\n\r\n")  # the body is waited for
                return GONE, None
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    finally:
        writer.close()
    fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
    return int(head.split(" ", 2)[1]), fields.get("x-guardrail-id")


def early_ends(path: str) -> Sequence[tuple[int, bytes]]:
    """Return each request and the status that its record has."""
    begun = request(path, b'{"model": "gpt"', length=100, extra="expect: 100-continue\r\n")
    packed = "content-encoding: br\r\n"
    found = [
        (400, request(path, b"no gzip", extra="content-encoding: gzip\r\n")),
        (408, request(path, b'{"model": "gpt"', length=100)),
        (413, request(path, b"", length=3000)),
        (413, request(path, b'{"model": "gpt", "x": "' + b"x" * 3000 + b'"}')),
        (415, request(path, b'{"model": "gpt"}', extra=packed)),
        (403, request(path, b"{}", key=NOBODY)),
        (GONE, begun),
    ]
    if path != "/v1/files":  # nobody looks into its bodies
        found += [
            (400, request(path, body)) for body in (b"{", b"[]", b'{"model": "gpt", "api_base": "x"}', b'{"model": 1}')
        ]
    return found


@pytest.mark.parametrize(("path", "kind", "route"), ROUTES)
async def test_every_early_end_is_a_record_of_the_kind_of_its_route(
    tmp_path: Path, path: str, kind: str, route: str
) -> None:  # O-13, §4.3, wire §3.2
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **CONFIG)) as proxy:
        proxy.client.headers["authorization"] = f"Bearer {APP}"
        ends = [*early_ends(path), (429, request(path, b"{}", key=OFTEN))]
        await ask(proxy, request("/v1/chat/completions", b"{}", key=OFTEN))  # the one it may make in this minute
        answered = [(await ask(proxy, sent, leave=status == GONE)) for status, sent in ends]
        assert [status for status, _ in answered] == [status for status, _ in ends]
        records = (await proxy.wait_records(len(ends) + 1))[: len(ends)]
        assert {(one["kind"], one["route"]) for one in records} == {(kind, route)}
        outcomes = {status: "cancelled" if status == GONE else "client_error" for status, _ in ends}
        assert {one["client"]["status"]: one["outcome"] for one in records} == outcomes
        assert {row["cause"] for one in records for row in one["verdicts"]} <= {"skipped"}
        if kind != "unguarded":
            shown = {record_id for status, record_id in answered if status != GONE}
            assert shown == {one["id"] for one in records if one["client"]["status"] != GONE}
        metrics = (await proxy.client.get("/metrics")).text
        counted = [line for line in metrics.splitlines() if line.startswith("guardrail_exchanges_total")]
        assert sum([float(line.split()[-1]) for line in counted if f'kind="{kind}"' in line]) >= len(ends)
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0
        assert up.received == []


async def test_a_check_names_its_record_and_a_dry_run_has_none(tmp_path: Path) -> None:  # W-35, O-13
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        asked = await proxy.client.post("/v1/guardrails/check", json={"input": "hello"})
        assert asked.headers["x-guardrail-id"] == asked.json()["id"] == (await proxy.wait_records())[0]["id"]
        dry = await proxy.client.post("/v1/guardrails/check", json={"input": "hello", "dry_run": True})
        assert (dry.status_code, dry.headers.get("x-guardrail-id")) == (200, None)
        assert len(await proxy.records(5)) == 1


async def test_a_check_that_takes_too_long_is_recorded_with_who_was_due(tmp_path: Path) -> None:  # O-13, O-11
    slow: dict[str, Supervisor] = {"words": Sleeps(60)}
    settings: dict[str, Any] = {"supervisors": slow, "limits": {"request_timeout_s": 0.3}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **settings)) as proxy:
        late = await proxy.client.post("/v1/guardrails/check", json={"input": "hello"})
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
        record = (await proxy.wait_records())[0]
        assert late.headers["x-guardrail-id"] == record["id"]
        assert (record["kind"], record["outcome"], record["client"]["status"]) == ("check", "unavailable", 504)
        assert [row["cause"] for row in record["verdicts"]] == ["skipped"]
        assert await asyncio.to_thread(main, ["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0
