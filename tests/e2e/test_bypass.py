"""Two and three real proxies in a row: a judge's call passes the second one unjudged and never a third (G-42)."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from proxy.bypass import DEPTH_HEADER, TOKEN_HEADER, make_token
from proxy.cli import main
from supervisors.secret import Secret
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply
from tests.e2e.serving import BOTH, CANARY, WORDS, policy, serving, tree

SECRET = Secret("env:BYPASS", "a secret of more than thirty-two characters")
TAKES = {"bypass": {"secret": SECRET, "accept": ["judge"]}}
JUDGE = {"use": "guard", "card": "binary-judge", "model": "judge"}


def asking(up: FakeUpstream, judges: str, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a proxy whose input is judged by a model that it reaches through another proxy."""
    config = tree(up.url, folder, supervisors={"judge": JUDGE}, policies=policy({"forced": ["judge"]}), **parts)
    config["upstreams"]["other"] = {"base_url": f"{judges}/v1", "bypass": "bypass" in parts}
    config["models"]["judge"] = {"upstream": "other"}
    return config


def judging(up: str, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a proxy that blocks the canary, whoever sends it, and serves the judge's model."""
    folder.mkdir()
    return tree(up, folder, models={"judge": {"upstream": "main"}}, supervisors=WORDS, policies=BOTH, **parts)


def says(digit: str) -> Answer:
    return Answer(json=chat_reply(digit))


async def test_the_call_of_a_judge_passes_another_proxy_unjudged(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as model:
        model.script(says("0"), says("1"))
        async with (
            serving(judging(model.url, tmp_path / "b", **TAKES)) as other,
            serving(asking(up, other.url, tmp_path, bypass={"secret": SECRET})) as proxy,
        ):
            passed, blocked = await proxy.chat(f"my {CANARY}"), await proxy.chat(f"my {CANARY}")
            assert (passed.status_code, blocked.status_code) == (200, 400)
            second, first = await other.records(2)
            seen = [(one["task"], one["outcome"], one["policy"]["names"], one["verdicts"]) for one in (first, second)]
            assert seen == [("bypass", "answered", [], [])] * 2
            assert model.received[0].header(DEPTH_HEADER) == "1"
            assert model.received[0].header(TOKEN_HEADER) is None
            assert (await other.client.post("/v1/chat/completions", json=_as_judge())).status_code == 400
        assert await asyncio.to_thread(main, ["verify", "--journal", str(tmp_path / "b" / "journal.sqlite3")]) == 0


async def test_without_a_token_the_judges_call_is_judged(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as model:
        async with (
            serving(judging(model.url, tmp_path / "b", **TAKES)) as other,
            serving(asking(up, other.url, tmp_path)) as proxy,
        ):
            reply = await proxy.chat(f"my {CANARY}")
        assert reply.status_code in (400, 503)
        assert not up.received
        assert not model.received


async def test_a_third_proxy_on_the_way_refuses_with_400_and_the_verdict_is_unknown(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as model:
        async with (
            serving(judging(model.url, tmp_path / "c", **TAKES)) as third,
            serving(judging(f"{third.url}/v1", tmp_path / "b", **TAKES)) as second,
            serving(asking(up, second.url, tmp_path, bypass={"secret": SECRET})) as first,
        ):
            reply = await first.chat(f"my {CANARY}")
            assert reply.status_code == 503
            assert reply.json()["error"]["code"] == "guardrail_unavailable"
            refused = (await third.records())[0]
            assert (refused["outcome"], refused["client"]["status"]) == ("client_error", 400)
        assert not up.received
        assert not model.received


@pytest.mark.parametrize(
    ("secret", "until", "depth", "status", "code"),
    [
        ("what a caller thinks up, in thirty-two characters", 20, 1, 403, "bypass_refused"),
        (SECRET.value, -20, 1, 403, "bypass_refused"),
        (SECRET.value, 3_000, 1, 403, "bypass_refused"),
        (SECRET.value, 20, 2, 400, "bypass_depth"),
    ],
)
async def test_a_caller_cannot_make_one_nor_use_one_again_later(
    secret: str, until: int, depth: int, status: int, code: str, tmp_path: Path
) -> None:
    async with FakeUpstream() as model, serving(judging(model.url, tmp_path / "b", **TAKES)) as other:
        now = (await other.chat("hello", model="judge")).headers["date"]
        token = make_token(secret, "judge", _seconds(now) + until, depth)
        sent = {TOKEN_HEADER: token}
        reply = await other.client.post("/v1/chat/completions", json=_as_judge(), headers=sent)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert token not in reply.text
        assert len(model.received) == 1


async def test_no_caller_gives_its_exchange_the_tag_of_such_a_call(tmp_path: Path) -> None:
    async with FakeUpstream() as model, serving(judging(model.url, tmp_path / "b", **TAKES)) as other:
        sent = {"x-guardrail-task": "bypass"}
        await other.client.post("/v1/chat/completions", json={**_as_judge(), "messages": []}, headers=sent)
        body = {"model": "judge", "messages": [{"role": "user", "content": "hello"}]}
        await other.client.post("/v1/chat/completions", json=body, headers=sent)
        assert (await other.records())[0]["task"] == "other"


def _as_judge() -> dict[str, Any]:
    return {"model": "judge", "messages": [{"role": "user", "content": f"my {CANARY}"}]}


def _seconds(date: str) -> int:
    return int(parsedate_to_datetime(date).timestamp())
