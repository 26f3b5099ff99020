"""Shadows are invisible to callers and kept in the journal; a block names the policies that blocked."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from supervisors.testing import Finds
from supervisors.types import Exchange, Verdict, safe
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, frames_of, guarded, serving

WORDS = {"words": Finds(CANARY), "watcher": Finds(CANARY), "other": Finds("paper lantern")}
ENFORCED = {"forced": ["words"]}
SHADOW = {"forced": ["watcher", "words"], "mode": "shadow"}
OTHER = {"forced": ["other"]}
POLICIES = {
    "other": {"input": OTHER, "output": OTHER},
    "secret": {"input": SHADOW, "output": SHADOW},
    "visible": {"input": ENFORCED, "output": ENFORCED, "on_block": {"message": "no: {policy}"}},
}


@dataclass(frozen=True, slots=True)
class Listens:
    """Keep the request that it sees around a reply."""

    heard: list[str] = field(default_factory=list[str])

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Say safe."""
        self.heard.extend([segment.text for segment in exchange.request])
        return safe()


async def test_a_shadow_sees_around_the_reply_what_the_model_saw(tmp_path: Path) -> None:  # G-38
    listener = Listens()
    judges = {"words": Finds(CANARY), "listener": listener}
    redacting = {"input": {"forced": ["words"], "on_unsafe": "redact"}}
    watching = {"output": {"forced": ["listener"], "mode": "shadow"}}
    policies = {"redacting": redacting, "watching": watching}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judges, policies=policies)) as proxy:
        await proxy.chat(f"a {CANARY}")
        await proxy.wait_records()
        assert up.received[0].json["messages"][0]["content"] == "a [REDACTED:canary]"
        assert listener.heard == ["a [REDACTED:canary]"]


def shadowed(up: FakeUpstream, folder: Path, **parts: Any) -> dict[str, Any]:
    return guarded(up, folder, supervisors=WORDS, policies=POLICIES, **parts)


async def test_a_shadow_never_shows_and_is_recorded(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(shadowed(up, tmp_path)) as proxy:
        reply = await proxy.chat()
        assert reply.headers["x-guardrail-policy"] == "other,visible"
        assert reply.headers["x-guardrail-applied"] == "other,words"
        listed = (await proxy.client.get("/v1/guardrails")).json()["data"]
        assert [row["name"] for row in listed] == ["other", "words"]
        (record,) = await proxy.wait_records()
        assert record["policy"]["names"] == ["other", "secret", "visible"]
        assert "watcher" in {row["supervisor"] for row in record["verdicts"]}


async def test_a_block_names_the_policy_that_blocked(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(shadowed(up, tmp_path)) as proxy:
        error = (await proxy.chat(CANARY)).json()["error"]
        assert error["guardrail"]["policy"] == "visible"
        assert error["message"] == "no: visible"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_reply_names_the_policy_that_blocked(tmp_path: Path, stream: bool) -> None:
    async with FakeUpstream() as up, serving(shadowed(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks(CANARY))) if stream else Answer(json=chat_reply(CANARY)))
        reply = await proxy.chat(stream=stream)
        assert "no: visible" in str(frames_of(reply) if stream else reply.json())
        assert "secret" not in reply.text


async def test_a_check_shows_shadows_to_the_operator_only(tmp_path: Path) -> None:
    keys = {name: {"sha256": sha256(name.encode() * 20).hexdigest(), "admin": name == "ops"} for name in ("app", "ops")}
    async with FakeUpstream() as up, serving(shadowed(up, tmp_path, keys=keys)) as proxy:
        for name, dry_run in (("app", False), ("app", True), ("ops", False), ("ops", True)):
            headers = {"authorization": f"Bearer {name * 20}"}
            body = {"input": CANARY, "stage": "input", "dry_run": dry_run}
            shown = await proxy.client.post("/v1/guardrails/check", json=body, headers=headers)
            assert ("secret" in shown.json()["policy"]["names"]) is (name == "ops")
            assert ("watcher" in shown.text) is (name == "ops")
