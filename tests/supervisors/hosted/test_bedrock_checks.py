"""InvokeGuardrailChecks (guards §8.4)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Span, Verdict
from tests.supervisors.hosted.samples import body_of, build

CHECKS = ["contentFilter", "promptAttack", "sensitiveInformation"]


def reply(violence: object = 0.0, attack: object = 0.0, *found: object, truncated: bool = False) -> dict[str, object]:
    return {
        "results": {
            "contentFilter": {"results": [{"category": "VIOLENCE", "severityScore": violence}]},
            "promptAttack": {"results": [{"category": "PROMPT_LEAKAGE", "severityScore": attack}]},
            "sensitiveInformation": {"results": list(found), "truncated": truncated},
        }
    }


def email(confidence: float = 0.9) -> dict[str, object]:
    return {"type": "EMAIL", "confidenceScore": confidence, "beginOffset": 5, "endOffset": 16, "messageIndex": 0}


async def judge(answer: object, **options: object) -> Verdict:
    context = FakeContext(posts=[(200, answer)])
    options = {"checks": CHECKS, "entities": ["EMAIL"], **options}
    return (await ask("b", build("bedrock_checks", **options), exchange("mail a@b.example"), context)).verdict


async def test_a_score_at_the_threshold_of_its_check_is_unsafe() -> None:
    assert (await judge(reply(0.4, 0.4))).label is Label.SAFE
    verdict = await judge(reply(0.6, 0.2))
    assert (verdict.label, verdict.categories, verdict.score) == (Label.UNSAFE, ("violence",), 0.6)
    strict = await judge(reply(0.4, 0.2), thresholds={"promptAttack": 0.2})
    assert strict.categories == ("prompt_leak",)


async def test_personal_data_has_its_place_and_a_cut_search_is_not_safe() -> None:
    assert (await judge(reply(0.0, 0.0, email()))).spans == (Span("/messages/0/content", 5, 16, "privacy"),)
    assert (await judge(reply(0.0, 0.8, email()))).spans == ()
    assert (await judge(reply(0.0, 0.0, email(), truncated=True))).spans == ()
    assert (await judge(reply(truncated=True))).cause is Cause.OVER_LIMIT


@pytest.mark.parametrize("check", CHECKS)
async def test_a_check_that_was_asked_for_and_is_missing_makes_it_unreadable(check: str) -> None:
    results = {name: value for name, value in body_of(reply()["results"]).items() if name != check}
    assert (await judge({"results": results})).cause is Cause.UNPARSABLE


@pytest.mark.parametrize("row", [{"severityScore": 0.0}, {"category": 7, "severityScore": 0.0}])
async def test_a_score_of_nothing_makes_it_unreadable(row: object) -> None:
    results = {**body_of(reply()["results"]), "contentFilter": {"results": [row]}}
    assert (await judge({"results": results})).cause is Cause.UNPARSABLE


@pytest.mark.parametrize(
    "broken", [reply(10**400), reply(None), reply("0.1"), reply(1.2), reply(float("nan")), reply(True)]
)
async def test_a_score_that_is_no_number_in_range_makes_it_unreadable(broken: object) -> None:
    assert (await judge(broken)).cause is Cause.UNPARSABLE


async def test_the_request_holds_the_checks_and_one_message() -> None:
    context = FakeContext(posts=[(200, reply())])
    await ask("b", build("bedrock_checks", checks=CHECKS, entities=["EMAIL"]), exchange("hello"), context)
    body = body_of(context.posted[0][1])
    assert body["messages"] == [{"role": "user", "content": [{"text": "hello"}]}]
    assert body["checks"]["sensitiveInformation"] == {"entities": [{"type": "EMAIL"}]}
    assert [entry["category"] for entry in body["checks"]["promptAttack"]["categories"]] == [
        "JAILBREAK",
        "PROMPT_INJECTION",
        "PROMPT_LEAKAGE",
    ]


@pytest.mark.parametrize(
    "options",
    [{"checks": CHECKS}, {"entities": ["EMAIL"]}, {"thresholds": {"sensitiveInformation": 0.5}}, {"checks": []}],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="validation error"):
        build("bedrock_checks", **options)
