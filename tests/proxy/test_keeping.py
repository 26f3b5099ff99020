"""Content modes: what of an exchange's text reaches its record (O-25, L-03)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

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


async def test_mode_full_keeps_text_after_redaction_and_what_judges_said(tmp_path: Path) -> None:
    record = await record_of(tmp_path, "full", on_unsafe="redact")
    content = orjson.dumps(record["content"]).decode()
    assert "my [REDACTED:canary] is wet" in content
    assert "take a [REDACTED:canary] along" in content
    assert "the judge quotes" in content
    assert "my violet" not in content
