"""The provider's own filters as a supervisor (guards §9, GU-25)."""

from __future__ import annotations

import pytest

from supervisors.ask import ask, is_local, judged_stages, stream_capability
from supervisors.provider import Provider
from supervisors.signals import Signal, read_signals
from supervisors.testing import context
from supervisors.types import Cause, Exchange, Label, Segment, Verdict

REPLY = (Segment("/choices/0/message/content", "assistant", "text", "fine", 1, 0),)
CALM_PROMPT = Signal("azure", "prompt", "hate", "none", None, 0.0)
CALM_REPLY = Signal("azure", "response", "hate", "none", 0, 0.33)


async def judge(*signals: Signal, choice: int = 0, **options: object) -> Verdict:
    exchange = Exchange("i", "m", "output", (), REPLY, choice, signals=signals)
    return (await ask("p", Provider.model_validate(options), exchange, context())).verdict


async def test_what_the_provider_cut_out_is_unsafe_with_its_side_and_category() -> None:
    verdict = await judge(Signal("azure", "prompt", "self_harm", "filtered", None, 0.66), CALM_REPLY)
    assert (verdict.label, verdict.score, verdict.categories) == (Label.UNSAFE, 0.66, ("self_harm",))
    assert (verdict.extras["sides"], verdict.extras["sources"]) == (["prompt"], ["azure"])


async def test_what_it_found_and_let_pass_is_as_you_say() -> None:
    found = Signal("azure", "prompt", "jailbreak", "detected")
    assert (await judge(found)).categories == ("jailbreak",)
    assert (await judge(found, CALM_REPLY, detected="safe", always_reports=True)).label is Label.SAFE


async def test_no_report_is_not_a_safe_report() -> None:
    assert (await judge()).detail == "no_signal"
    assert (await judge(CALM_PROMPT, CALM_REPLY)).cause is Cause.UNSUPPORTED
    assert (await judge(CALM_PROMPT, always_reports=True)).cause is Cause.UNSUPPORTED
    assert (await judge(CALM_REPLY, always_reports=True)).cause is Cause.UNSUPPORTED
    safe = await judge(CALM_PROMPT, CALM_REPLY, always_reports=True)
    assert (safe.label, safe.score) == (Label.SAFE, 0.33)


async def test_a_filter_that_failed_is_an_error_unless_another_found_something() -> None:
    failed = Signal("azure", "response", "error", "failed", 0)
    verdict = await judge(CALM_PROMPT, CALM_REPLY, failed, always_reports=True)
    assert (verdict.cause, verdict.detail) == (Cause.ERROR, "filter_failed")
    assert (await judge(failed, Signal("gemini", "response", "SPII", "filtered"))).categories == ("privacy",)


async def test_a_refusal_of_the_model_is_a_fact_unless_you_say_otherwise() -> None:
    refused = Signal("anthropic", "response", "refusal", "refused")
    calm = await judge(refused, CALM_PROMPT, CALM_REPLY, always_reports=True)
    assert (calm.label, calm.extras["refusal"]) == (Label.SAFE, True)
    assert (await judge(refused)).label is Label.UNKNOWN
    counted = await judge(refused, refusal_is="unsafe")
    assert (counted.label, counted.categories) == (Label.UNSAFE, ())


async def test_another_choices_report_is_not_this_ones() -> None:
    hit = Signal("azure", "response", "hate", "filtered", 1)
    assert (await judge(hit, choice=0)).label is Label.UNKNOWN
    assert (await judge(hit, choice=1)).label is Label.UNSAFE


@pytest.mark.parametrize(
    ("reply", "category"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "other"),
        ({"candidates": [{"finishReason": "RECITATION"}]}, "ip"),
        ({"choices": [{"index": 0, "finish_reason": "content_filter"}]}, "other"),
        ({"moderation": {"output": {"results": [{"flagged": True, "categories": {"sexual/minors": True}}]}}}, "minors"),
    ],
)
async def test_each_providers_words_have_their_category(reply: dict[str, object], category: str) -> None:
    assert (await judge(*read_signals(reply))).categories == (category,)


async def test_it_judges_replies_alone_at_the_end_and_without_a_call() -> None:
    guard = Provider()
    assert judged_stages(guard) == {"output"}
    assert stream_capability(guard) == "final"
    assert is_local(guard)
    found = await ask("p", guard, Exchange("i", "m", "input", REPLY), context())
    assert found.verdict.cause is Cause.UNSUPPORTED
