"""What attackers send, on every judged route: right status, nothing at the model server, nothing back (W-21, §2.3)."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.families import FAMILIES, Family, families_tree
from tests.e2e.serving import CANARY, Serving, serving
from tests.timing import PATIENCE_S

OFF: Sequence[dict[str, Any]] = ({"guardrails": []}, {"metadata": {"disable_global_guardrails": True}})
JUDGED = (*FAMILIES, Family("embeddings", "/v1/embeddings", "gpt", "/v1/embeddings"))


async def send(proxy: Serving, family: Family, raw: bytes, **headers: str) -> httpx.Response:
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await proxy.client.post(family.route, content=raw, headers=sent)


def code_of(reply: httpx.Response) -> str:
    error: dict[str, Any] = reply.json()["error"]
    return str(error.get("code") or error["details"]["error_code"])


def raw_of(family: Family, text: str = "hello", **fields: Any) -> bytes:
    return orjson.dumps(family.body(text, **fields))


async def refuse_all(tmp_path: Path, status: int, code: str, *raws: bytes, **headers: str) -> None:
    """Send each body to each route; the marker FAMILY stands for a good request's members."""
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        for family in JUDGED:
            members = raw_of(family)[1:-1]
            for raw in raws:
                reply = await send(proxy, family, raw.replace(b"FAMILY", members), **headers)
                assert (reply.status_code, code_of(reply)) == (status, code), (family.name, raw[:80])
                assert reply.headers["x-request-id"]
                assert reply.headers["x-should-retry"] == "false"
                assert CANARY not in reply.text
        assert up.received == []


async def test_what_two_parsers_could_read_differently(tmp_path: Path) -> None:  # W-21
    await refuse_all(
        tmp_path,
        400,
        "invalid_json",
        b'{FAMILY, "model": "gpt"}',
        b'{FAMILY, "x": {"a": 1, "a": "violet umbrella"}}',
        b'{FAMILY, "x": "\\ud83d"}',
        b'{FAMILY, "x": "\\udc00 violet"}',
        b'{FAMILY, "x": NaN}',
        b'{FAMILY, "x": -Infinity}',
        b'{FAMILY, "x": "\xff\xfe"}',
        b"{FAMILY} {}",
        b"{FAMILY}x",
        b"[{FAMILY}]",
        b"\xef\xbb\xbf{FAMILY}x",
        b"{FAMILY, }",
        b"",
        b'{FAMILY, "x": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{FAMILY, "x": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
        b'{FAMILY, "x": ' + b"[" * 200_000,
    )


async def test_addresses_credentials_and_switches_of_other_gateways(tmp_path: Path) -> None:  # §2.3, X-03
    fields = ("api_base", "base_url", "api_key", "custom_llm_provider", "extra_headers", "vertex_project", "aws_region")
    raws = [b'{FAMILY, "%b": "http://127.0.0.1:9"}' % name.encode() for name in fields]
    raws += [
        b'{FAMILY, "metadata": {"deep": [{"api_base": "http://x"}]}}',
        b'{FAMILY, "mock_response": "violet umbrella"}',
    ]
    await refuse_all(tmp_path, 400, "unsupported_parameter", *raws)


async def test_a_caller_cannot_switch_supervisors_off(tmp_path: Path) -> None:  # §2.4, G-15, M-16
    await refuse_all(
        tmp_path,
        400,
        "invalid_guardrails",
        b'{FAMILY, "guardrails": {"disable": true}}',
        b'{FAMILY, "guardrails": {"options": {"rails": []}}}',
        b'{FAMILY, "guardrails": "none"}',
        b'{FAMILY, "guardrails": [{"disable": "words"}]}',
        b'{FAMILY, "metadata": {"guardrails": {"disable": ["words"]}}}',
    )
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        for family in JUDGED:
            for fields in OFF:
                headers = {"x-litellm-disable-guardrails": "true", "x-portkey-config": "{}", "invariant-guardrails": ""}
                raw = raw_of(family, f"a {CANARY}", **fields)
                reply = await send(proxy, family, raw, **headers)
                assert (reply.status_code, code_of(reply)) == (400, "content_filter"), family.name
        assert up.received == []


async def test_packed_bodies(tmp_path: Path) -> None:  # W-18
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, limits={"max_body_bytes": 200_000})) as proxy:
        for family in JUDGED:
            good, bad = gzip.compress(raw_of(family)), gzip.compress(raw_of(family, f"a {CANARY}"))
            bomb = gzip.compress(b'{"x": "' + b" " * 5_000_000 + b'"}')
            cases = ((good[:-6], 400), (good[:30], 400), (bomb, 413), (bad, 400))
            for raw, status in cases:
                reply = await send(proxy, family, raw, content_encoding="gzip")
                assert reply.status_code == status, (family.name, reply.text)
            assert up.received == []
            up.script(Answer(status=418, json={"error": {"message": "x"}}))
            assert (await send(proxy, family, good, content_encoding="gzip")).status_code == 418
            assert up.received.pop().json["model"] == family.model
        assert len(await proxy.wait_records(len(JUDGED) * 5)) == len(JUDGED) * 5  # nothing lost


async def test_five_megabytes_with_the_canary_at_any_place(tmp_path: Path) -> None:  # D-05, D-06
    filler = "The quick brown fox jumps over the lazy dog. " * 110_000
    texts = [CANARY + " " + filler, filler + CANARY]
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        for number, family in enumerate(JUDGED):
            reply = await send(proxy, family, raw_of(family, texts[number % 2]))
            assert (reply.status_code, code_of(reply)) == (400, "content_filter"), family.name
        assert up.received == []


async def test_neither_model_nor_request_id_writes_headers(tmp_path: Path) -> None:  # X-05, W-16
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        for family in JUDGED:
            evil = "gpt\r\nx-evil: 1\r\n\r\n<b>"
            reply = await send(proxy, family, orjson.dumps({**family.body(), "model": evil}), x_request_id="a b")
            assert (reply.status_code, code_of(reply)) == (404, "model_not_found")
            assert "x-evil" not in reply.headers
            assert reply.headers["x-request-id"] != "a b"
        assert up.received == []


async def test_slow_and_half_sent_requests_hold_nobody_up(tmp_path: Path) -> None:  # slow-loris
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, limits={"request_timeout_s": 2.0})) as proxy:
        address = httpx.URL(proxy.url)
        half: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for number in range(60):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            route = JUDGED[number % len(JUDGED)].route
            head = f"POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n"
            writer.write(head.encode() + (b"\r\n{" if number % 2 else b"x-slow: "))
            half.append((reader, writer))
        up.script(Answer(json={"choices": []}))
        assert (await proxy.chat()).status_code in (200, 502)
        answers = [await asyncio.wait_for(reader.read(20), PATIENCE_S) for reader, _ in half[1::2]]
        assert {answer[:12] for answer in answers} == {b"HTTP/1.1 408"}
        for _, writer in half:
            writer.close()
        assert len(up.received) == 1
        assert proxy.app.gateway.in_flight == 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1@evil", "a b", "[::1", "x" * 5000])
async def test_an_odd_host_changes_nothing(tmp_path: Path, host: str) -> None:
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        address = httpx.URL(proxy.url)
        for family in JUDGED:
            raw = raw_of(family, f"a {CANARY}")
            reader, writer = await asyncio.open_connection(address.host, address.port)
            head = f"POST {family.route} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
            writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
            answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            assert answer.startswith(b"HTTP/1.1 400"), (family.name, answer)
            assert b"evil" not in answer
        assert up.received == []
