"""Content modes: what of an exchange's text reaches its record (O-25, L-03)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.cli import main
from supervisors.testing import Always, Finds
from supervisors.types import Label, Verdict
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply
from tests.e2e.serving import policy, serving, tree

QUOTES = Always(Verdict(Label.SAFE, extras={"reply": "the judge quotes a violet umbrella", "prompt_sha256": "ab"}))


async def record_of(folder: Path, mode: str, **rules: Any) -> dict[str, Any]:
    supervisors = {"words": Finds("violet umbrella"), "judge": QUOTES}
    stage = {"forced": ["words", "judge"], **rules}
    journal = {"path": folder / "journal.sqlite3", "input": mode, "output": mode}
    config = tree("", folder, supervisors=supervisors, policies=policy(stage, stage), journal=journal)
    async with FakeUpstream() as up:
        config["upstreams"] = {"main": {"base_url": up.url}}
        async with serving(config) as proxy:
            up.script(Answer(json=chat_reply("take a violet umbrella along")))
            await proxy.chat("my violet umbrella is wet")
            return (await proxy.wait_records())[0]


@pytest.mark.parametrize("mode", ["off", "hashed"])
async def test_no_text_is_kept_without_mode_full(tmp_path: Path, mode: str) -> None:
    record = await record_of(tmp_path, mode, on_unsafe="log")
    assert b"umbrella" not in orjson.dumps(record)
    assert (record["view"]["input_hmac"] is None) == (mode == "off")
    assert record["verdicts"][1]["prompt_sha256"] == "ab"


ODD_BODIES: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "x", "my violet umbrella pw": 1}]},
    {"messages": [{"role": "user", "content": "x"}], "violet umbrella": {"a violet umbrella": ["violet umbrella"]}},
    {"model": {"name": "violet umbrella"}},
    {"model": "a violet umbrella"},
    {"model": ["violet umbrella"], "messages": []},
]
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
ODD_REPLIES: list[dict[str, Any]] = [
    {"choices": [{**CHOICE, "finish_reason": "violet umbrella"}]},
    {"choices": [{**CHOICE, "finish_reason": {"violet umbrella": 1}}]},
    {
        "choices": [
            {**CHOICE, "message": {"content": "x", "violet umbrella": {"my violet umbrella": "violet umbrella"}}}
        ]
    },
    {"choices": [CHOICE], "model": "violet umbrella"},
    {"choices": [CHOICE], "usage": {"violet umbrella": 1, "total_tokens": 2, "service_tier": "violet umbrella"}},
]


@pytest.mark.parametrize("mode", ["off", "hashed", "full"])
@pytest.mark.parametrize("action", ["log", "block"])
async def test_no_name_that_somebody_chose_is_kept_in_the_clear(tmp_path: Path, mode: str, action: str) -> None:
    stage = {"forced": ["words"], "on_unsafe": action}
    journal = {"path": tmp_path / "journal.sqlite3", "input": mode, "output": mode}
    parts = {"supervisors": {"words": Finds("violet umbrella")}, "policies": policy(stage, stage), "journal": journal}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, **parts)) as proxy:
        for body in ODD_BODIES:
            await proxy.client.post("/v1/chat/completions", json={"model": "gpt", **body})
        for reply in ODD_REPLIES:
            up.script(Answer(json={**chat_reply("fine"), **reply}))
            await proxy.chat()
        records = await proxy.records(len(ODD_BODIES) + len(ODD_REPLIES))
    assert len(records) == len(ODD_BODIES) + len(ODD_REPLIES)
    assert b"umbrella" not in orjson.dumps(records)
    paths = [span[0] for record in records for verdict in record["verdicts"] for span in verdict["spans"]]
    assert any(path.startswith("/messages/0/") and path.endswith("#key") for path in paths)
    assert "/choices/0/finish_reason" in paths
    assert await asyncio.to_thread(main, ["verify", "--journal", str(journal["path"])]) == 0


async def test_mode_full_keeps_text_after_redaction_and_what_judges_said(tmp_path: Path) -> None:
    record = await record_of(tmp_path, "full", on_unsafe="redact")
    content = orjson.dumps(record["content"]).decode()
    assert "my [REDACTED:canary] is wet" in content
    assert "take a [REDACTED:canary] along" in content
    assert "the judge quotes" in content
    assert "my violet" not in content
