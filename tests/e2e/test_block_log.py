"""A block leaves one line in the log, with ids and configured names, and nothing else leaves one (O-23)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from proxy.logs import JsonFormatter
from supervisors.testing import Always
from supervisors.types import Cause, unknown
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, WORDS, chat_body, guarded, policy, serving


def blocks(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [vars(line) for line in caplog.records if line.getMessage() == "exchange blocked"]
    names = ("status", "stages", "policies", "supervisors", "reasons", "causes")
    formatter = JsonFormatter()
    assert not any(CANARY in formatter.format(line) for line in caplog.records)
    return [{name: line[name] for name in names} for line in found]


async def test_each_block_is_one_line_and_a_pass_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        assert (await proxy.chat("hello")).status_code == 200
        assert blocks(caplog) == []
        assert (await proxy.chat(CANARY)).status_code == 400
        up.script(Answer(json=chat_reply(CANARY)), Answer(frames=sse(*chat_chunks(CANARY))))
        assert (await proxy.chat("hello")).status_code == 200
        assert (await proxy.chat("hello", stream=True)).status_code == 200
        await proxy.client.post("/v1/guardrails/check", json={**chat_body(CANARY), "stage": "input"})
        records = await proxy.records(9)
    common = {"policies": ["default"], "supervisors": ["words"], "reasons": ["unsafe"], "causes": []}
    assert blocks(caplog) == [
        {**common, "status": 400, "stages": ["input"]},
        {**common, "status": 200, "stages": ["output"]},
        {**common, "status": 200, "stages": ["output"]},
    ]
    ids = [vars(line)["id"] for line in caplog.records if line.getMessage() == "exchange blocked"]
    assert ids == [row["id"] for row in reversed(records) if row["kind"] == "exchange"][1:]


async def test_a_supervisor_that_is_down_is_told_from_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    supervisors = {**WORDS, "down": Always(unknown(Cause.TIMEOUT, reason=CANARY))}
    rules = {**policy({"forced": ["down"]}), "shadow": {"input": {"forced": ["words"], "mode": "shadow"}}}
    parts: dict[str, Any] = {"supervisors": supervisors, "policies": rules}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await proxy.chat(CANARY)).status_code == 503
        await proxy.wait_records(1)
    assert blocks(caplog) == [
        {
            "status": 503,
            "stages": ["input"],
            "policies": ["default"],
            "supervisors": ["down"],
            "reasons": ["unknown"],
            "causes": ["timeout"],
        }
    ]
