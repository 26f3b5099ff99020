"""ApplyGuardrail (guards §8.4; golden rows 108 to 110)."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.plugins import build_supervisor
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Exchange, Label, Span, Verdict
from tests.supervisors.hosted.samples import SAMPLES, body_of, build, secret

TEXT = "write to a@b.example, then to a@b.example again"


def intervened(*assessments: object, **members: object) -> dict[str, object]:
    return {"action": "GUARDRAIL_INTERVENED", "assessments": list(assessments), "outputs": [], **members}


def private(action: str = "ANONYMIZED", match: str = "a@b.example") -> dict[str, object]:
    entry = {"type": "EMAIL", "action": action, "match": match}
    return {"sensitiveInformationPolicy": {"piiEntities": [entry], "regexes": []}}


def content(kind: str, confidence: str, action: str = "BLOCKED") -> dict[str, object]:
    return {"contentPolicy": {"filters": [{"type": kind, "confidence": confidence, "action": action}]}}


async def judge(reply: object, found: Exchange | None = None, **options: object) -> Verdict:
    context = FakeContext(posts=[(200, reply)])
    return (await ask("b", build("bedrock", **options), found or exchange(TEXT), context)).verdict


async def test_no_action_is_safe() -> None:  # 108
    assert (await judge({"action": "NONE"})).label is Label.SAFE


async def test_what_is_to_be_masked_has_its_places_and_the_masked_text() -> None:  # 109
    verdict = await judge(intervened(private(), outputs=[{"text": "write to {EMAIL}"}]))
    path = "/messages/0/content"
    assert (verdict.label, verdict.categories) == (Label.UNSAFE, ("privacy",))
    assert verdict.spans == (Span(path, 9, 20, "privacy"), Span(path, 30, 41, "privacy"))
    assert verdict.extras["masked_text"] == "write to {EMAIL}"
    older = await judge({"action": "INTERVENED", "assessments": [private()], "output": [{"text": "masked"}]})
    assert older.extras["masked_text"] == "masked"


@pytest.mark.parametrize(
    "reply",
    [
        {},  # 110
        {"action": None},
        {"action": "ALLOWED"},
        {"action": "none"},
        {"assessments": []},
        {"action": "NONE", "assessments": "none"},
        {"action": "NONE", "assessments": [content("HATE", "HIGH")]},
        intervened({"contentPolicy": []}),
    ],
)
async def test_an_action_that_is_missing_unknown_or_contradicted_is_unreadable(reply: object) -> None:
    verdict = await judge(reply)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.UNPARSABLE)


@pytest.mark.parametrize(
    ("assessment", "categories", "score"),
    [
        (content("PROMPT_ATTACK", "HIGH"), ("injection",), 1.0),
        (content("VIOLENCE", "MEDIUM"), ("violence",), 0.66),
        (content("INSULTS", "LOW"), ("harassment",), 0.33),
        ({"topicPolicy": {"topics": [{"name": "rain", "action": "BLOCKED"}]}}, ("other",), 1.0),
        ({"wordPolicy": {"managedWordLists": [{"match": "x", "action": "BLOCKED"}]}}, ("other",), 1.0),
        (
            {"contextualGroundingPolicy": {"filters": [{"type": "GROUNDING", "action": "BLOCKED"}]}},
            ("ungrounded",),
            1.0,
        ),
    ],
)
async def test_what_blocks_names_its_categories(assessment: object, categories: tuple[str, ...], score: float) -> None:
    verdict = await judge(intervened(assessment))
    assert (verdict.label, verdict.categories, verdict.score) == (Label.UNSAFE, categories, score)


async def test_masking_is_no_way_out_if_something_else_blocks_or_a_match_has_no_place() -> None:
    assert (await judge(intervened(private(), content("HATE", "HIGH")))).spans == ()
    assert (await judge(intervened(private(match="elsewhere@b.example")))).spans == ()
    assert (await judge(intervened(private(match="")))).spans == ()


async def test_an_intervention_without_an_entry_is_unsafe_and_says_so() -> None:
    verdict = await judge(intervened())
    assert (verdict.label, verdict.detail, verdict.score) == (Label.UNSAFE, "missing_field", 1.0)


async def test_text_the_guardrail_did_not_look_at_is_not_safe() -> None:
    def covered(guarded: int) -> dict[str, object]:
        counts = {"textCharacters": {"guarded": guarded, "total": 47}}
        return {"action": "NONE", "assessments": [{"invocationMetrics": {"guardrailCoverage": counts}}]}

    assert (await judge(covered(47))).label is Label.SAFE
    assert (await judge(covered(46))).cause is Cause.OVER_LIMIT


async def test_the_request_names_stage_guardrail_and_scope_and_is_signed() -> None:
    arn = "arn:aws:bedrock:eu-west-1:123456789012:guardrail/gr1"
    context = FakeContext(posts=[(200, {"action": "NONE"})])
    guard = build("bedrock", guardrail_id=arn, session_token=secret("S", "session-1"), output_scope="FULL")
    await ask("b", guard, exchange("question", stage="output", reply="answer"), context)
    url, body, headers = context.posted[0]
    encoded = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aguardrail%2Fgr1"
    assert url == f"https://guard.example/guardrail/{encoded}/version/3/apply"
    assert body_of(body) == {"source": "OUTPUT", "content": [{"text": {"text": "answer"}}], "outputScope": "FULL"}
    assert headers["x-amz-security-token"] == "session-1"
    assert re.fullmatch(r"\d{8}T\d{6}Z", headers["x-amz-date"])
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token," in headers["authorization"]


async def test_without_an_address_of_its_own_it_calls_the_region() -> None:
    entry = SAMPLES["bedrock"].entry("bedrock", "")
    context = FakeContext(posts=[(200, {"action": "NONE"})])
    await ask(
        "b", build_supervisor({key: value for key, value in entry.items() if key != "url"}), exchange("x"), context
    )
    assert context.posted[0][0].startswith("https://bedrock-runtime.eu-west-1.amazonaws.com/guardrail/gr1/")


@pytest.mark.parametrize("options", [{"region": "eu west"}, {"guardrail_version": "latest"}, {"output_scope": "SOME"}])
def test_a_wrong_region_version_or_scope_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="validation error"):
        build("bedrock", **options)
