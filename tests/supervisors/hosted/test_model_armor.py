"""Google Model Armor (guards §8.5; golden rows 111 and 112)."""

from __future__ import annotations

import pytest

from supervisors.ask import ask
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Verdict
from tests.supervisors.hosted.samples import armor, body_of, build

OK = {"executionState": "EXECUTION_SUCCESS"}
NOTHING = "NO_MATCH_FOUND"


async def judge(reply: object) -> Verdict:
    return (
        await ask("m", build("model_armor"), exchange("violet umbrella"), FakeContext(posts=[(200, reply)]))
    ).verdict


@pytest.mark.parametrize("invocation", ["PARTIAL", "FAILURE", "INVOCATION_RESULT_UNSPECIFIED"])
async def test_an_invocation_that_did_not_succeed_is_not_safe(invocation: str) -> None:  # 111
    verdict = await judge(armor(NOTHING, invocationResult=invocation))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.ERROR)


async def test_filters_may_come_as_a_list() -> None:  # 112
    rai = {"raiFilterResult": {**OK, "matchState": "MATCH_FOUND"}}
    verdict = await judge(armor(NOTHING, filterResults=[rai]))
    assert verdict.label is Label.UNSAFE


async def test_the_types_of_the_responsible_ai_filter_are_the_categories_and_confidence_is_the_score() -> None:
    types = {
        "dangerous": {"matchState": "MATCH_FOUND", "confidenceLevel": "MEDIUM_AND_ABOVE"},
        "hate_speech": {"matchState": "MATCH_FOUND", "confidenceLevel": "LOW_AND_ABOVE"},
        "harassment": {"matchState": NOTHING},
    }
    member = {**OK, "matchState": "MATCH_FOUND", "confidenceLevel": "MEDIUM_AND_ABOVE", "raiFilterTypeResults": types}
    verdict = await judge(armor("MATCH_FOUND", filterResults={"rai": {"raiFilterResult": member}}))
    assert (verdict.categories, verdict.score) == (("other", "hate"), 0.66)
    assert verdict.extras["raw_categories"] == ["dangerous", "hate_speech"]


@pytest.mark.parametrize(
    ("name", "member", "category"),
    [
        ("malicious_uris", "maliciousUriFilterResult", "url"),
        ("csam", "csamFilterFilterResult", "minors"),
        ("virus_scan", "virusScanFilterResult", "cyber"),
        ("pi_and_jailbreak", "piAndJailbreakFilterResult", "injection"),
    ],
)
async def test_a_match_of_any_filter_counts_although_the_whole_denies_it(name: str, member: str, category: str) -> None:
    hit = {name: {member: {**OK, "matchState": "MATCH_FOUND"}}}
    verdict = await judge(armor(NOTHING, filterResults=hit))
    assert (verdict.label, verdict.categories) == (Label.UNSAFE, (category,))


async def test_personal_data_that_the_template_masks_is_privacy_with_the_masked_text() -> None:
    data = {**OK, "matchState": "MATCH_FOUND", "data": {"text": "mail [EMAIL]"}}
    verdict = await judge(armor("MATCH_FOUND", filterResults={"sdp": {"sdpFilterResult": {"deidentifyResult": data}}}))
    assert (verdict.categories, verdict.extras["masked_text"]) == (("privacy",), "mail [EMAIL]")


@pytest.mark.parametrize(
    ("message", "cause"), [("the text exceeds the token limit", Cause.OVER_LIMIT), ("language not known", Cause.ERROR)]
)
async def test_a_filter_that_was_skipped_is_not_safe(message: str, cause: Cause) -> None:
    member = {"executionState": "EXECUTION_SKIPPED", "messageItems": [{"message": message}]}
    verdict = await judge(armor(NOTHING, filterResults={"rai": {"raiFilterResult": member}}))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, cause)


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"sanitizationResult": {}},
        armor("MAYBE"),
        armor(NOTHING, filterResults="none"),
        armor(NOTHING, filterResults=None),
        armor(NOTHING, filterResults={}),
        armor(NOTHING, filterResults=[]),
        armor(NOTHING, filterResults={"rai": {"raiFilterResult": {}}}),
        armor(NOTHING, filterResults={"rai": {"raiFilterResult": OK}}),
        armor(NOTHING, filterResults={"rai": {"raiFilterResult": {**OK, "matchState": None}}}),
        armor(NOTHING, filterResults={"rai": []}),
        armor(NOTHING, filterResults={"rai": {"raiFilterResult": {**OK, "matchState": "PERHAPS"}}}),
    ],
)
async def test_a_state_that_is_missing_or_unknown_is_unreadable(reply: object) -> None:
    assert (await judge(reply)).cause is Cause.UNPARSABLE


async def test_a_reply_is_sent_as_a_models_response() -> None:
    context = FakeContext(posts=[(200, armor(NOTHING))])
    verdict = (await ask("m", build("model_armor"), exchange("q", stage="output", reply="answer"), context)).verdict
    url, body, headers = context.posted[0]
    assert verdict.label is Label.SAFE
    assert url.endswith("/templates/strict:sanitizeModelResponse")
    assert body_of(body) == {"modelResponseData": {"text": "answer"}}
    assert headers["authorization"].startswith("Bearer ")
