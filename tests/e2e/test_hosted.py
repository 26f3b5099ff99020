"""Hosted guards through the whole proxy: redaction by what a service locates, blocks, readiness (guards §8, F-05)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import policy, serving, tree
from tests.supervisors.hosted.samples import build

MASK = {
    "sensitiveInformationPolicy": {"piiEntities": [{"type": "EMAIL", "action": "ANONYMIZED", "match": "a@b.example"}]}
}
BLOCK = {"contentPolicy": {"filters": [{"type": "HATE", "confidence": "HIGH", "action": "BLOCKED"}]}}


def intervened(*assessments: Mapping[str, object]) -> Answer:
    found = {
        "action": "GUARDRAIL_INTERVENED",
        "outputs": [{"text": "masked {EMAIL}"}],
        "assessments": list(assessments),
    }
    return Answer(json=found)


def config(up: FakeUpstream, service: FakeUpstream, folder: Path) -> dict[str, Any]:
    guard = build("bedrock", service.url.removesuffix("/v1"))
    rules = policy({"forced": ["bedrock"], "on_unsafe": "redact"})
    return tree(up.url, folder, supervisors={"bedrock": guard}, policies=rules)


async def test_what_a_service_would_mask_is_redacted_before_the_model_sees_it(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as service, serving(config(up, service, tmp_path)) as proxy:
        service.script(intervened(MASK))
        reply = await proxy.chat("mail a@b.example or a@b.example")
        assert reply.status_code == 200
        assert up.received[0].json["messages"][0]["content"] == "mail [REDACTED:privacy] or [REDACTED:privacy]"
        record = (await proxy.records())[0]
        assert (record["verdicts"][0]["label"], record["decisions"][0]["redacted"]) == ("unsafe", True)
        assert "a@b.example" not in str(record)
        assert "masked {EMAIL}" not in str(record)  # texts follow the content mode


async def test_what_it_blocks_is_blocked_although_something_could_be_masked(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as service, serving(config(up, service, tmp_path)) as proxy:
        service.script(intervened(MASK, BLOCK))
        reply = await proxy.chat("mail a@b.example")
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_filter")
        assert up.received == []


async def test_wrong_credentials_block_and_are_seen_in_readiness(tmp_path: Path) -> None:
    async with FakeUpstream() as up, FakeUpstream() as service, serving(config(up, service, tmp_path)) as proxy:
        service.script(Answer(status=403, json={"message": "The security token is invalid."}))
        reply = await proxy.chat("hello")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "guardrail_unavailable")
        assert up.received == []
        assert (await proxy.client.get("/readyz")).json()["degraded"] == ["bedrock"]
