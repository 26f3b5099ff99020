"""The provider's filters through the whole proxy: whole replies, streams, shadow, and refusals (guards §9, GU-25)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from supervisors.provider import Provider
from supervisors.vote import Vote
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import policy, serving, tree

CALM = {"hate": {"filtered": False, "severity": "safe"}}
DETECTED = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"filtered": False, "detected": True}}


def reports(prompt: dict[str, Any], reply: dict[str, Any] | None) -> dict[str, Any]:
    extra = {} if reply is None else {"content_filter_results": reply}
    return {**chat_reply("fine", **extra), "prompt_filter_results": [{"content_filter_results": prompt}]}


def config(up: FakeUpstream, folder: Path, *, mode: str = "blocking", **output: Any) -> dict[str, Any]:
    rules = policy(output={"forced": ["azure"], "mode": mode, "stream": {"mode": "hold"}, **output})
    return tree(up.url, folder, supervisors={"azure": Provider(always_reports=True)}, policies=rules)


@pytest.mark.parametrize(
    ("prompt", "reply", "passes"),
    [
        (CALM, CALM, True),
        (DETECTED, CALM, False),
        (CALM, {"hate": {"filtered": True, "severity": "high"}}, False),
        (CALM, None, False),  # no report is not a safe report
    ],
)
async def test_a_whole_reply_is_judged_by_its_report(
    tmp_path: Path, prompt: dict[str, Any], reply: dict[str, Any] | None, passes: bool
) -> None:
    async with FakeUpstream() as up, serving(config(up, tmp_path)) as proxy:
        up.script(Answer(json=reports(prompt, reply)))
        choice = (await proxy.chat()).json()["choices"][0]
        assert choice["finish_reason"] == ("stop" if passes else "content_filter")
        assert (choice["message"]["content"] == "fine") == passes


@pytest.mark.parametrize(("results", "passes"), [(CALM, True), (DETECTED, False)])
async def test_a_stream_is_held_until_the_report_is_in(tmp_path: Path, results: dict[str, Any], passes: bool) -> None:
    chunks = chat_chunks("fi", "ne")
    for chunk in chunks:
        chunk["choices"][0]["content_filter_results"] = CALM
    first = {**chunks[0], "choices": [], "prompt_filter_results": [{"content_filter_results": results}]}
    frames = sse(first, *chunks)
    async with FakeUpstream() as up, serving(config(up, tmp_path)) as proxy:
        up.script(Answer(frames=frames, headers={"content-type": "text/event-stream"}))
        text = (await proxy.chat(stream=True)).text
        assert ('"fi"' in text) == passes
        assert ("content policy" in text) == (not passes)


async def test_a_member_of_a_vote_and_a_shadow_stage_see_the_report_too(tmp_path: Path) -> None:
    panel = Vote.model_validate({"strategy": "any", "members": {"azure": Provider(), "other": Provider()}})
    async with FakeUpstream() as up:
        settings = config(up, tmp_path, mode="shadow") | {"supervisors": {"azure": panel}}
        async with serving(settings) as proxy:
            up.script(Answer(json=reports(DETECTED, CALM)))
            assert (await proxy.chat()).json()["choices"][0]["message"]["content"] == "fine"
            row = next(row for row in (await proxy.wait_records())[0]["verdicts"] if row["supervisor"] == "azure")
            assert row["label"] == "unsafe"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "content_filter", "message": "filtered", "innererror": {"content_filter_result": {}}}},
        {"error": "Content violates usage guidelines."},
        {"errors": [{"code": 2016, "message": "Prompt blocked"}]},
    ],
)
async def test_a_request_that_the_provider_refuses_is_recorded_as_filtered(tmp_path: Path, body: object) -> None:
    async with FakeUpstream() as up, serving(config(up, tmp_path)) as proxy:
        up.script(Answer(status=400, body=orjson.dumps(body), headers={"content-type": "application/json"}))
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_filter")
        record = (await proxy.records())[0]
        assert record["outcome"] == "upstream_error"
        assert record["upstream_call"]["filtered"] is True
