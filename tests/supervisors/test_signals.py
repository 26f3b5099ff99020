"""What providers say of their own filters, read from replies and errors (guards §9)."""

from __future__ import annotations

import pytest

from supervisors.signals import Signal, is_filtered, read_signals

NOTHING: dict[str, object] = {}


def azure(**categories: object) -> dict[str, object]:
    return {
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": categories}],
        "choices": [{"index": 1, "finish_reason": "stop", "content_filter_results": categories}],
    }


def test_azure_reports_each_category_of_prompt_and_choice() -> None:
    found = read_signals(
        azure(
            hate={"filtered": True, "severity": "high"},
            violence={"filtered": False, "severity": "low"},
            jailbreak={"filtered": False, "detected": True},
        )
    )
    assert found[:3] == (
        Signal("azure", "prompt", "hate", "filtered", None, 1.0),
        Signal("azure", "prompt", "violence", "none", None, 0.33),
        Signal("azure", "prompt", "jailbreak", "detected", None, None),
    )
    assert [(signal.side, signal.choice) for signal in found[3:]] == [("response", 1)] * 3


def test_a_filter_that_could_not_run_or_says_nothing_has_failed() -> None:
    broken = azure(error={"code": "content_filter_error", "message": "not filtered"}, hate={"severity": "safe"})
    assert [signal.effect for signal in read_signals(broken)] == ["failed"] * 4


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "guardrail_intervened", "recitation"])
def test_a_finish_reason_that_names_a_filter_is_a_signal(reason: str) -> None:
    found = read_signals({"choices": [{"index": 2, "finish_reason": reason}]})
    assert [(signal.side, signal.effect, signal.choice) for signal in found] == [("response", "filtered", 2)]


def test_a_refusal_of_the_model_is_another_fact() -> None:
    spoken = read_signals({"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]})
    assert [(signal.source, signal.effect) for signal in spoken] == [("openai", "refused")]
    stopped = read_signals({"type": "message", "stop_reason": "refusal"})
    assert [(signal.source, signal.effect) for signal in stopped] == [("anthropic", "refused")]


def test_the_inline_moderation_of_openai() -> None:
    hit = {"flagged": True, "categories": {"hate": True, "sexual": False}, "category_scores": {"hate": 0.7}}
    calm = {"flagged": False, "categories": {"hate": False}, "category_scores": {"hate": 0.1}}
    member = {
        "input": {"type": "moderation_results", "results": [calm]},
        "output": {"type": "moderation_results", "results": [calm, hit]},
    }
    assert read_signals({"moderation": member}) == (
        Signal("openai", "prompt", "moderation", "none", None, 0.1),
        Signal("openai", "response", "moderation", "none", 0, 0.1),
        Signal("openai", "response", "hate", "detected", 1, 0.7),
    )
    error = {"input": {"type": "error", "code": "x"}, "output": {"type": "moderation_results", "results": [NOTHING]}}
    assert [signal.effect for signal in read_signals({"moderation": error})] == ["failed", "failed"]


def test_gemini_blocks_prompts_and_candidates_and_rates_them() -> None:
    rating = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "MEDIUM", "blocked": True}
    found = read_signals({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [rating]}})
    assert found == (
        Signal("gemini", "prompt", "HARM_CATEGORY_HARASSMENT", "filtered", None, 0.66),
        Signal("gemini", "prompt", "SAFETY", "filtered"),
    )
    ended = read_signals({"candidates": [{"finishReason": "STOP"}, {"finishReason": "SPII"}]})
    assert ended == (Signal("gemini", "response", "SPII", "filtered", 1),)


def test_bedrock_says_it_in_the_stop_reason_and_in_the_trace() -> None:
    entry = {
        "contentPolicy": {"filters": [{"type": "HATE", "action": "BLOCKED"}, {"type": "SEXUAL", "action": "NONE"}]}
    }
    private = {"sensitiveInformationPolicy": {"piiEntities": [{"type": "EMAIL", "action": "ANONYMIZED"}]}}
    trace = {"guardrail": {"inputAssessment": {"gr1": entry}, "outputAssessments": {"gr1": [private]}}}
    assert read_signals({"stopReason": "guardrail_intervened", "trace": trace}) == (
        Signal("bedrock", "response", "guardrail", "filtered"),
        Signal("bedrock", "prompt", "HATE", "filtered"),
        Signal("bedrock", "response", "PII", "filtered"),
    )


@pytest.mark.parametrize(
    "reply",
    [
        NOTHING,
        {"choices": "no"},
        {"choices": [None]},
        {"prompt_filter_results": [7]},
        {"candidates": {}},
        {"trace": []},
    ],
)
def test_what_cannot_be_read_is_no_signal(reply: dict[str, object]) -> None:
    assert read_signals(reply) == ()


@pytest.mark.parametrize(
    ("body", "filtered"),
    [
        ({"error": {"code": "content_filter", "message": "x"}}, True),
        ({"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, True),
        ({"error": "Content violates usage guidelines. Team: x"}, True),
        ({"error": {"message": "… Content violates usage guidelines …", "code": "400"}}, True),
        ({"errors": [{"code": 2016, "message": "Prompt blocked"}], "success": False}, True),
        ({"error": [{"code": 2017, "message": "Response blocked"}]}, True),
        ({"error": {"code": "context_length_exceeded"}}, False),
        ({"errors": [{"code": 2001}]}, False),
        ("content_filter", False),
        (None, False),
    ],
)
def test_an_error_that_is_a_filters_is_known_in_every_providers_words(body: object, filtered: bool) -> None:
    assert is_filtered(body) is filtered
