"""What attackers send: odd targets, hosts and headers, huge, slow and packed bodies (operations §7.1)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from supervisors.testing import Finds
from supervisors.types import Supervisor
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, Serving, chat_body, guarded, policy, serving
from tests.timing import PATIENCE_S

ROUTE = "/v1/chat/completions"
BAD = orjson.dumps(chat_body(f"a {CANARY}"))


async def raw_request(proxy: Serving, head: bytes, body: bytes = b"") -> tuple[int, bytes]:
    """Send bytes as they are and return status and whole answer; 0 when the connection was closed without one."""
    address = httpx.URL(proxy.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(head + body)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            answer = await (reader.read() if b"connection: close" in head else reader.read(4096))
    finally:
        writer.close()
    return (int(answer.split(b" ", 2)[1]) if answer else 0), answer


def post(target: str, *headers: str, body: bytes = BAD) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "connection: close", f"content-length: {len(body)}", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        lines.insert(1, "host: proxy")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize(
    "target",
    [
        ROUTE,
        "/chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions?x=/livez",
        "/v1/chat%2fcompletions",
        "/%76%31/chat/completions",
        "http://elsewhere.example/v1/chat/completions",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions/..",
        "/v1/%2e%2e/v1/chat/completions",
        "/livez/../v1/chat/completions",
        "/v1/chat/completions;x",
        "/V1/chat/completions",
        "/v1/chat/completions%00",
        "/v1/chat/completions%2f",
    ],
)
async def test_no_spelling_of_the_route_goes_round_the_supervisors(tmp_path: Path, target: str) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        status, answer = await raw_request(proxy, post(target), BAD)
        assert status in (400, 404), answer
        assert CANARY.encode() not in answer
        assert up.received == []


KEYS = {
    "app": {"sha256": sha256(b"a" * 40).hexdigest()},
    "ops": {"sha256": sha256(b"b" * 40).hexdigest(), "admin": True},
}
APP, OPS = f"authorization: Bearer {'a' * 40}", f"authorization: Bearer {'b' * 40}"


@pytest.mark.parametrize(
    "target",
    ["/v1/decisions", "/decisions/", "/v1/models/../decisions", "/v1/models/%2e%2e/decisions", "http://x/v1/decisions"],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1/v1/models?x=", "x/livez#", "a b", "évil", ""])
async def test_neither_target_nor_host_opens_an_admin_route(
    tmp_path: Path, target: str, host: str
) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=KEYS)) as proxy:
        for header in (APP, "x-nothing: 1"):
            head = f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{header}\r\n\r\n"
            status, answer = await raw_request(proxy, head.encode("latin-1"))
            assert status in (0, 400, 401, 403, 404), answer
            assert b'"data"' not in answer


async def test_only_configured_hosts_are_answered(tmp_path: Path) -> None:
    server = {"allowed_hosts": ["Guard.Example", "[::1]"]}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, server=server)) as proxy:
        for host, status in (
            ("guard.example", 400),
            ("GUARD.example:8080", 400),
            ("evil.example", 421),
            ("[::1]:80", 400),
        ):
            found, answer = await raw_request(proxy, post(ROUTE, f"host: {host}"), BAD)
            assert found == status, answer
            assert b"x-request-id" in answer.lower()
        assert (await raw_request(proxy, b"GET /livez HTTP/1.0\r\n\r\n"))[0] == 200
        assert (await proxy.client.get("/v1/models", headers={"host": "evil.example"})).status_code == 421
        assert up.received == []


async def test_two_hosts_are_nobodys(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, server={"allowed_hosts": ["a"]})) as proxy:
        for hosts in (("host: evil", "host: a"), ("host: a", "host: evil"), ("host: a", "host: a")):
            found, answer = await raw_request(proxy, post(ROUTE, *hosts), BAD)
            assert found == 421, answer


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_a_body_after_an_upgrade_is_not_the_next_request(tmp_path: Path, protocol: str) -> None:
    inner = post(ROUTE, body=orjson.dumps(chat_body())) + orjson.dumps(chat_body())
    outer = f"POST {ROUTE} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n"
    outer += f"content-length: {len(inner)}\r\n\r\n"
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        address = httpx.URL(proxy.url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        async with asyncio.timeout(PATIENCE_S):
            writer.write(outer.encode())
            answer = await reader.readuntil(b"}}")
            writer.write(inner)
            answer += await reader.read()
        writer.close()
        assert answer.count(b"HTTP/1.1") == 1
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"Upgrade" in answer
        assert up.received == []


async def test_only_chunked_is_a_transfer_encoding(tmp_path: Path) -> None:
    body = orjson.dumps(chat_body())
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for coding, status in (("chunked", 200), ("gzip, chunked", 400)):
            head = f"POST {ROUTE} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: {coding}\r\n\r\n"
            assert (await raw_request(proxy, head.encode(), chunked))[0] == status
        assert len(up.received) == 1


async def test_the_first_of_several_keys_counts(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=KEYS)) as proxy:
        body = orjson.dumps(chat_body())
        wrong = f"authorization: Bearer {'c' * 40}"
        for headers, status in (((APP, wrong), 200), ((wrong, APP), 401), ((wrong, f"x-api-key: {'a' * 40}"), 401)):
            assert (await raw_request(proxy, post(ROUTE, *headers, body=body), body))[0] == status
        odd = ("authorization: Basic abc", "authorization: Bearer", "authorization: ", "authorization: Bearer \xff\xfe")
        for header in odd:
            assert (await raw_request(proxy, post(ROUTE, header, body=body), body))[0] == 401


async def test_no_header_of_the_caller_reaches_the_model_server_uninvited(tmp_path: Path) -> None:  # W-17, X-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=KEYS)) as proxy:
        sent = {
            "authorization": f"Bearer {'a' * 40}",
            "x-api-key": "a" * 40,
            "x-forwarded-for": "1.2.3.4",
            "x-forwarded-host": "evil",
            "forwarded": "for=1.2.3.4",
            "cookie": "a=b",
            "te": "trailers",
            "proxy-authorization": "x",
            "x-portkey-config": "{}",
            "idempotency-key": "x",
            "openai-organization": "org",
            "x-guardrail-task": "title",
            "openai-beta": "x",
        }
        assert (await proxy.client.post(ROUTE, json=chat_body(), headers=sent)).status_code == 200
        names = {name for name, _ in up.received[0].headers}
        assert names <= {
            "host",
            "content-type",
            "accept",
            "user-agent",
            "content-length",
            "accept-encoding",
            "openai-beta",
        }
        assert up.received[0].header("user-agent") == "guardrail-proxy"


@pytest.mark.parametrize("value", ["nope", "words, nope", "{}", "words;drop", "x" * 5000, "%00", "wörds"])
async def test_junk_in_the_header_that_adds_is_a_400(tmp_path: Path, value: str) -> None:  # §2.4
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        head = post(ROUTE, f"x-guardrail-add: {value}")
        status, answer = await raw_request(proxy, head, BAD)
        assert (status, b"unknown_guardrail" in answer) == (400, True)
        assert len(answer) < 1500
        assert up.received == []


@pytest.mark.parametrize("value", ["", " ", ",", " , ,"])
async def test_an_empty_header_that_adds_opts_out_of_nothing(tmp_path: Path, value: str) -> None:  # G-15
    rules = policy({"optional": ["words"], "default_on": True, "opt_out": True})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        status, _ = await raw_request(proxy, post(ROUTE, f"x-guardrail-add: {value}"), BAD)
        assert status == 400
        assert (await proxy.chat(CANARY, guardrails=[])).status_code == 200


async def test_header_values_cannot_break_out(tmp_path: Path) -> None:  # X-05, L-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for value in ("a\rb", "a\nb", "a\x00b"):
            status, answer = await raw_request(proxy, post(ROUTE, f"x-request-id: {value}"), BAD)
            assert status in (0, 400)
            assert value.encode() not in answer
        up.script(
            Answer(headers={"x-evil": "1", "set-cookie": "a=b", "server": "model-host", "x-ratelimit-limit": "7"})
        )
        reply = await proxy.chat()
        assert reply.headers["x-ratelimit-limit"] == "7"
        assert not {"x-evil", "set-cookie"} & reply.headers.keys()
        assert "model-host" not in str(reply.headers)


async def test_a_body_of_five_megabytes_is_decided(tmp_path: Path) -> None:  # D-06, D-05
    words: Mapping[str, Any] = {"words": {"use": "rules", "keywords": [CANARY]}}
    tree = {"supervisors": words, "policies": policy({"forced": ["words"]})}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **tree)) as proxy:
        filler = "lorem ipsum dolor " * 280_000
        safe = await proxy.chat(filler)
        assert safe.status_code == 200
        for text in (CANARY + " " + filler, filler + CANARY, filler[: len(filler) // 2] + f" {CANARY} " + filler):
            assert (await proxy.chat(text)).status_code == 400
        assert len(up.received) == 1


async def test_bodies_beyond_the_limit_are_refused_while_reading(tmp_path: Path) -> None:  # W-19, X-07
    limits = {"max_body_bytes": 100_000}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits=limits)) as proxy:
        chunked = "POST {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        for target in (ROUTE, "/v1/guardrails/check"):
            piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
            status, answer = await raw_request(proxy, chunked.format(target).encode(), piece * 8)
            assert (status, b"request_too_large" in answer) == (413, True), target
        huge = await raw_request(proxy, post(ROUTE, body=b"x" * 10).replace(b"length: 10", b"length: 99999999999"))
        assert huge[0] == 413


@pytest.mark.parametrize("target", [ROUTE, "/v1/guardrails/check"])
async def test_a_bomb_is_refused_without_being_blown_up(tmp_path: Path, target: str) -> None:  # X-07, W-18
    limits = {"max_body_bytes": 1_000_000}
    bomb = gzip.compress(b"[" + b" " * 200_000_000 + b"]", 6)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits=limits)) as proxy:
        reply = await proxy.client.post(target, content=bomb, headers={"content-encoding": "gzip"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "request_too_large")


GZIP = gzip.compress(orjson.dumps(chat_body()), mtime=0)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", GZIP, 200),
        ("GZIP", GZIP, 200),
        ("identity", orjson.dumps(chat_body()), 200),
        ("gzip", GZIP[:-1], 400),
        ("gzip", GZIP[:20], 400),
        ("gzip", b"", 400),
        ("gzip", GZIP + b"x", 400),
        ("gzip", GZIP + GZIP, 400),
        ("gzip", orjson.dumps(chat_body()), 400),
        ("gzip, gzip", gzip.compress(GZIP, mtime=0), 415),
        ("deflate", zlib.compress(orjson.dumps(chat_body())), 415),
        ("br", GZIP, 415),
        ("x" * 500, GZIP, 415),
    ],
)
async def test_encodings(tmp_path: Path, encoding: str, body: bytes, status: int) -> None:  # W-18
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post(ROUTE, content=body, headers={"content-encoding": encoding})
        assert reply.status_code == status
        assert len(up.received) == (status == 200)


async def test_a_body_that_does_not_come_is_a_408(tmp_path: Path) -> None:  # every wait has a deadline
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits={"request_timeout_s": 0.3})) as proxy:
        for target in (ROUTE, "/v1/guardrails/check"):
            status, answer = await raw_request(proxy, post(target, body=b"x" * 50), b"{")
            assert (status, b"request_timeout" in answer) == (408, True)
        assert proxy.app.gateway.in_flight == 0


async def test_too_many_at_once_are_told_to_come_back(tmp_path: Path) -> None:  # G-46, F-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits={"max_in_flight": 2})) as proxy:
        up.script(Answer(hold_at=-1), Answer(hold_at=-1))
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(proxy.chat()) for _ in range(2)]
            await up.wait_received(2)
            refused = await proxy.chat()
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
            assert refused.headers["retry-after"] == "30"
            up.release()
        assert [task.result().status_code for task in waiting] == [200, 200]


CHECKS: list[tuple[Any, int, str]] = [
    ({"input": CANARY}, 200, "blocked"),
    ({"input": "x"}, 200, "passed"),
    ({"input": "x", "stage": "output", "reply": {"role": "assistant", "content": CANARY}}, 200, "blocked"),
    ({"input": "x", "stage": "output", "reply": CANARY}, 400, "reply"),
    ({"input": "x", "stage": "output", "reply": [CANARY]}, 400, "reply"),
    ({"input": "x", "stage": "output", "reply": []}, 400, "reply"),
    ({"input": "x", "stage": "output"}, 400, "reply"),
    ({"input": "x", "messages": []}, 400, "messages"),
    ({}, 400, "messages"),
    ({"input": 3}, 400, "input"),
    ({"input": "x", "stage": "both-ish"}, 400, "stage"),
    ({"input": "x", "policy": "nope"}, 400, "policy"),
    ({"input": "x", "nope": 1}, 400, "nope"),
    ({"input": "x", "dry_run": "yes"}, 400, "dry_run"),
    ({"input": "x", "api_base": "http://x"}, 400, "api_base"),
    ({"messages": [{"role": "wizard"}]}, 400, "messages[0].role"),
    ([], 400, ""),
]


@pytest.mark.parametrize(("body", "status", "said"), CHECKS)
async def test_checks_are_as_strict_as_exchanges(tmp_path: Path, body: Any, status: int, said: str) -> None:  # W-35
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/v1/guardrails/check", json=body)
        assert reply.status_code == status
        shown = reply.json()
        assert (shown["error"]["param"] or "" if status == 400 else shown["status"]) == said
        assert up.received == []
        if status == 200:
            await proxy.app.gateway.journal.flush()
            found = await proxy.client.get(f"/v1/decisions/{reply.headers['x-request-id']}")
            assert found.json()["id"] == shown["id"]


async def test_every_error_is_one_json_object_with_an_id(tmp_path: Path) -> None:  # W-16, §4, E-03, E-04
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=KEYS)) as proxy:
        ops = {"authorization": f"Bearer {'b' * 40}"}
        calls: list[tuple[str, str, dict[str, Any]]] = [
            ("POST", ROUTE, {}),
            ("POST", ROUTE, {"headers": ops, "content": b"{"}),
            ("GET", ROUTE, {"headers": ops}),
            ("GET", "/v1/decisions/none", {"headers": ops}),
            ("GET", "/v1/decisions?limit=x", {"headers": ops}),
            ("GET", "/v1/decisions?nope=1", {"headers": ops}),
            ("GET", "/v1/models/none", {"headers": ops}),
            ("DELETE", "/v1/models", {"headers": ops}),
            ("POST", "/nowhere", {"headers": ops}),
            ("PUT", "/v1/guardrails/check", {"headers": ops}),
        ]
        for method, path, options in calls:
            reply = await proxy.client.request(method, path, **options)
            assert reply.status_code >= 400
            error = reply.json()["error"]
            assert set(error) >= {"message", "type", "param", "code"}
            assert not str(error["code"]).isdecimal()
            assert reply.headers["x-request-id"]
            assert reply.headers["x-should-retry"] == "false"


async def test_a_stream_of_requests_on_one_connection_is_kept_apart(tmp_path: Path) -> None:  # S-05
    words: Mapping[str, Supervisor] = {"words": Finds(CANARY)}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=words)) as proxy:
        good = orjson.dumps(chat_body("hello"))
        head = post(ROUTE, body=good).replace(b"connection: close\r\n", b"")
        last = post(ROUTE)
        _, answer = await raw_request(proxy, head + good + head + good + last + BAD)
        assert answer.count(b"HTTP/1.1 200") == 2
        assert answer.count(b"HTTP/1.1 400") == 1
        assert json.loads(answer.split(b"\r\n\r\n")[-1])["error"]["code"] == "content_filter"
