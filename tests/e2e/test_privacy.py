"""A canary in prompts, replies and keys is searched for wherever it must not be (O-23 to O-26, L-03, L-05)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.logs import JsonFormatter
from supervisors.testing import Always, Fails
from supervisors.types import Cause, unknown
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import serve_process
from tests.e2e.serving import chat_body, guarded, policy, serving

PROMPT = "Xq7-prompt-canary-4711"
REPLY = "Xq7-reply-canary-0815"
CALLER_KEY = "Xq7-caller-key-" + "k" * 30
UPSTREAM_KEY = "Xq7-upstream-key-" + "u" * 30
CANARIES = [text.encode() for text in (PROMPT, REPLY, CALLER_KEY, UPSTREAM_KEY)]
ROUTE = "/v1/chat/completions"


def assert_clean(*places: bytes) -> None:
    for place in places:
        assert [canary for canary in CANARIES if canary in place] == []


def journal_bytes(folder: Path) -> list[bytes]:
    files = list(folder.glob("journal*"))
    assert files
    return [path.read_bytes() for path in files]


def config(upstream: str, folder: Path) -> dict[str, Any]:
    return {
        "upstreams": {"main": {"base_url": upstream, "api_key": {"env": "UPSTREAM_KEY"}}},
        "models": {"gpt": {"upstream": "main"}},
        "keys": {"app": {"key": {"env": "CALLER_KEY"}, "admin": True}},
        "supervisors": {"words": {"use": "rules", "keywords": ["violet umbrella"]}},
        "policies": policy({"forced": ["words"]}, {"forced": ["words"]}),
        "journal": {"path": str(folder / "journal.sqlite3")},
        "server": {"drain_grace_s": 0},
    }


async def test_nothing_of_prompts_replies_and_keys_is_left_behind(tmp_path: Path) -> None:  # O-26
    environ = {"UPSTREAM_KEY": UPSTREAM_KEY, "CALLER_KEY": CALLER_KEY}
    async with FakeUpstream() as up:
        served = serve_process(config(up.url, tmp_path), tmp_path, "--log-level", "DEBUG", environ=environ)
        async with served as proxy:
            headers = {"authorization": f"Bearer {CALLER_KEY}"}
            bodies = [
                chat_body(f"{PROMPT} {text}", stream=stream)
                for stream in (False, True)
                for text in ("", "violet umbrella")
            ]
            for body in bodies:
                frames = sse(*chat_chunks(REPLY, " violet umbrella")) if body["stream"] else None
                up.script(Answer(frames=frames, json=None if frames else chat_reply(f"{REPLY} violet umbrella")))
                reply = await proxy.client.post(ROUTE, json=body, headers=headers)
                assert_clean(str(reply.headers).encode())
                assert PROMPT.encode() not in reply.content
            broken = [
                (b'{"model": "gpt", "' + PROMPT.encode(), headers),
                (orjson.dumps({**chat_body(PROMPT), "model": 3}), headers),
                (orjson.dumps(chat_body(PROMPT)), {"authorization": f"Bearer {PROMPT}"}),
                (orjson.dumps(chat_body(PROMPT)), {**headers, "content-encoding": "br"}),
            ]
            for content, sent in broken:
                reply = await proxy.client.post(ROUTE, content=content, headers=sent)
                assert reply.status_code >= 400
                assert_clean(reply.content, str(reply.headers).encode())
            error = {"message": f"bad key {UPSTREAM_KEY} at {up.url}", "type": "x", "code": "x"}
            for status in (401, 400, 500):
                up.script(Answer(status=status, json={"error": error}))
                reply = await proxy.client.post(ROUTE, json=chat_body(PROMPT), headers=headers)
                assert_clean(reply.content, str(reply.headers).encode())
            for path in (
                "/metrics",
                "/health",
                "/readyz",
                "/v1/models",
                "/v1/guardrails",
                "/v1/decisions",
                "/openapi.json",
            ):
                assert_clean((await proxy.client.get(path, headers=headers)).content)
            proxy.send()
            assert await proxy.wait() == 0
        assert_clean("".join(proxy.log).encode())
    assert_clean(*journal_bytes(tmp_path))


async def test_failures_are_logged_without_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # O-23
    supervisors = {"words": Fails(ValueError(PROMPT)), "other": Always(unknown(Cause.ERROR, reason=PROMPT))}
    rules = policy({"forced": ["words", "other"], "on_unknown": "log"})
    formatter = JsonFormatter()
    with caplog.at_level(logging.DEBUG):
        async with (
            FakeUpstream() as up,
            serving(guarded(up, tmp_path, supervisors=supervisors, policies=rules)) as proxy,
        ):
            up.script(Answer(raw=b"HTTP/1.1 200 OK\r\n\r\n" + REPLY.encode()))
            reply = await proxy.chat(PROMPT)
            assert reply.status_code == 502
            assert_clean(reply.content, str(reply.headers).encode())
    assert any(record.getMessage() == "supervisor failed" for record in caplog.records)
    assert_clean(*[formatter.format(record).encode() for record in caplog.records])


@pytest.mark.parametrize("mode", ["off", "hashed", "full"])
async def test_content_modes(tmp_path: Path, mode: str) -> None:  # O-25: full is after redaction
    rules = policy({"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["words"], "on_unsafe": "redact"})
    journal = {"path": tmp_path / "journal.sqlite3", "input": mode, "output": mode}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules, journal=journal)) as proxy:
        for stream in (False, True):
            text = f"{REPLY} violet umbrella"
            up.script(
                Answer(frames=sse(*chat_chunks(*text)) if stream else None, json=None if stream else chat_reply(text))
            )
            await proxy.chat(f"{PROMPT} violet umbrella", stream=stream)
        records = await proxy.records(2)
        for record in records:
            shown = orjson.dumps(record)
            assert b"umbrella" not in shown
            assert (PROMPT.encode() in shown, REPLY.encode() in shown) == (mode == "full", mode == "full")
            assert (record["view"]["input_hmac"] is None) == (mode == "off")
