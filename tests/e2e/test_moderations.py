"""The moderation façade over real sockets (wire §11; W-33, W-34)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.checks import check_config
from proxy.cli import main
from proxy.config import Config
from supervisors.rules import Rules
from supervisors.testing import Always, Fails, Finds, Sleeps
from supervisors.types import Cause, Supervisor, unknown, unsafe
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import CANARY, Serving, guarded, hang_up, policy, serving, tree, until

ROUTE = "/v1/moderations"


async def moderate(proxy: Serving, value: object, **fields: Any) -> httpx.Response:
    return await proxy.client.post(ROUTE, json={"input": value, **fields})


async def test_every_string_has_a_result_and_no_model_is_called(tmp_path: Path) -> None:  # W-33
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await moderate(proxy, ["fine", f"a {CANARY}", "good"])
        body = reply.json()
        assert (reply.status_code, body["model"]) == (200, "omni-moderation-latest")
        assert body["id"] == f"modr-{reply.headers['x-guardrail-id']}"
        assert [result["flagged"] for result in body["results"]] == [False, True, False]
        assert body["results"][1]["categories"]["canary"] is True
        assert body["results"][0]["category_scores"]["sexual/minors"] == 0.0
        assert up.received == []
        record = (await proxy.records())[0]
        assert (record["kind"], record["route"], record["outcome"]) == ("moderation", ROUTE, "answered")
        assert [(row["supervisor"], row["label"]) for row in record["verdicts"]] == [("words", "unsafe")]
        assert record["prescribed"] == {"input": ["words"], "output": []}


@pytest.mark.parametrize("value", [CANARY, [CANARY], [{"type": "text", "text": CANARY}]])
async def test_the_same_content_in_any_shape_is_flagged(tmp_path: Path, value: object) -> None:  # M-04
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/moderations", json={"input": value, "model": "omni-moderation-latest"})
        assert [result["flagged"] for result in reply.json()["results"]] == [True]


async def test_all_categories_are_collected_though_one_would_settle_it(tmp_path: Path) -> None:
    found: Mapping[str, Supervisor] = {
        "a": Always(unsafe("hate", score=0.5)),
        "b": Sleeps(0.05, unsafe("violence", score=0.25)),
    }
    rules = policy({"forced": ["a", "b"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=found, policies=rules)) as proxy:
        result = (await moderate(proxy, ["x", "y"])).json()["results"][1]
        assert result["category_scores"]["hate"] == 0.5
        assert result["category_scores"]["violence"] == 0.25


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        (Cause.ERROR, 503, "guardrail_unavailable"),
        (Cause.TIMEOUT, 503, "guardrail_unavailable"),
        (Cause.UNPARSABLE, 503, "guardrail_unavailable"),
        (Cause.OVER_LIMIT, 400, "content_not_judged"),
        (Cause.UNSUPPORTED, 400, "content_not_judged"),
        (Cause.REFUSED, 400, "content_not_judged"),
        (Cause.ABSTAINED, 400, "content_not_judged"),
        (Cause.SKIPPED, 400, "content_not_judged"),
    ],
)
@pytest.mark.parametrize("on_unknown", ["block", "log"])
async def test_an_unknown_verdict_is_an_error_and_never_not_flagged(
    tmp_path: Path, cause: Cause, status: int, code: str, on_unknown: str
) -> None:  # W-34
    vague: Mapping[str, Supervisor] = {"words": Always(unknown(cause))}
    rules = policy({"forced": ["words"], "on_unknown": on_unknown})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=vague, policies=rules)) as proxy:
        reply = await moderate(proxy, ["x"])
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert reply.json()["error"]["guardrail"]["cause"] == cause.value
        assert "flagged" not in reply.json()


async def test_a_picture_that_nobody_can_judge_is_not_cleared(tmp_path: Path) -> None:  # W-34, G-05
    words: Mapping[str, Supervisor] = {"words": Rules.model_validate({"use": "rules", "keywords": [CANARY]})}
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=words, policies=rules)) as proxy:
        link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        reply = await moderate(proxy, [{"type": "text", "text": "fine"}, link])
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_not_judged")


async def test_without_a_policy_to_judge_by_the_route_says_what_is_missing(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies={})) as proxy:
        error = (await moderate(proxy, "Ada")).json()["error"]
        assert (error["code"], "no policy named 'default'" in error["message"]) == ("model_not_found", True)


async def test_supervisors_cannot_be_added_and_no_silence_says_they_were(tmp_path: Path) -> None:  # wire §2.4
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for header, status in ((",", 200), ("words", 400)):
            reply = await proxy.client.post(ROUTE, json={"input": "x"}, headers={"x-guardrail-add": header})
            assert reply.status_code == status
        assert reply.json()["error"]["code"] == "invalid_guardrails"


async def test_aliases_are_policies(tmp_path: Path) -> None:  # W-34
    policies = {"a": {"input": {"forced": ["words"]}}, "b": {"input": {"forced": ["names"]}}}
    parts: dict[str, Any] = {
        "supervisors": {"words": Finds(CANARY), "names": Finds("Ada", "name")},
        "policies": policies,
        "moderations": {"aliases": {"strict": "a", "people": "b"}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await moderate(proxy, "Ada", model="people")).json()["results"][0]["flagged"] is True
        assert (await moderate(proxy, "Ada", model="strict")).json()["results"][0]["flagged"] is False
        for model in ({}, {"model": "gpt"}, {"model": 7}):
            refused = await moderate(proxy, "Ada", **model)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert [record["policy"]["names"] for record in await proxy.records(5)][-2:] == [["a"], ["b"]]


async def test_a_disconnect_is_recorded(tmp_path: Path) -> None:  # O-10
    slow: Mapping[str, Supervisor] = {"words": Sleeps(30)}
    rules = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        await hang_up(moderate(proxy, "x"), until(lambda: proxy.app.gateway.in_flight == 1))
        record = (await proxy.wait_records(1))[0]
        assert record["outcome"] == "cancelled", record


async def test_a_deadline_a_bad_field_and_a_wrong_method(tmp_path: Path) -> None:  # G-45, W-02, W-21
    slow: Mapping[str, Supervisor] = {"words": Sleeps(30)}
    parts: dict[str, Any] = {"policies": policy({"forced": ["words"]}), "limits": {"request_timeout_s": 1.0}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, **parts)) as proxy:
        late = await moderate(proxy, "x")
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
        bad = await moderate(proxy, "x", future=1)
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, "future")
        assert (await proxy.client.get(ROUTE)).headers["allow"] == "POST"


async def test_a_broken_supervisor_is_a_503_and_the_journal_holds(tmp_path: Path) -> None:  # F-01, L-01, O-11
    mixed: Mapping[str, Supervisor] = {"words": Finds(CANARY), "down": Fails(RuntimeError("bug"))}
    policies = {"default": {"input": {"forced": ["words"]}}, "both": {"input": {"forced": ["words", "down"]}}}
    aliases = {"aliases": {"omni-moderation-latest": "default", "both": "both"}}
    parts: dict[str, Any] = {"supervisors": mixed, "policies": policies, "moderations": aliases}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await moderate(proxy, ["x", CANARY])).status_code == 200
        assert (await moderate(proxy, ["x", CANARY], model="both")).status_code == 503
        assert (await moderate(proxy, 7)).status_code == 400
        assert [one["outcome"] for one in await proxy.records(3)] == ["client_error", "unavailable", "answered"]
        arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
        assert await asyncio.to_thread(main, arguments) == 0
        metrics = (await proxy.client.get("/metrics")).text
        series = 'guardrail_exchanges_total{kind="moderation",model="omni-moderation-latest",outcome="answered"} 1.0'
        assert series in metrics


def test_an_alias_must_name_a_policy_that_judges_input(tmp_path: Path) -> None:
    aliases = {"aliases": {"x": "default"}}
    rules = policy({"forced": ["words"], "mode": "shadow"})
    base = tree("http://127.0.0.1:1/v1", tmp_path, supervisors={"words": Finds(CANARY)}, moderations=aliases)
    found = check_config(Config.model_validate({**base, "policies": rules}))
    assert ("error", "moderations.aliases.x") in [(one.severity, one.path) for one in found]
    (finding,) = [one for one in check_config(Config.model_validate(base)) if one.severity == "error"]
    assert str(finding) == "error: moderations.aliases.x: unknown policy 'default'; known: none"
