"""`/readyz` tells a proxy that would block everything from one that decides without a failing part (O-08, F-05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.judge import Judge
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import policy, serving, tree


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
