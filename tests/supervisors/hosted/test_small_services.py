"""TrustGate, JailbreakDetect, OpenCC, LLM Guard, detectors, SystemOne, Gemini, and a service of your own.

Guards §6.9, §8.6, §8.7, §9, GU-13; golden rows 113 to 117.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Verdict
from tests.supervisors.hosted.samples import NOTHING, body_of, build

EMPTY: dict[str, object] = {}
UNREADABLE = f"{Label.UNKNOWN}/{Cause.UNPARSABLE}"


async def judge(use: str, reply: object, **options: object) -> Verdict:
    return (await ask("s", build(use, **options), exchange("umbrella"), FakeContext(posts=[(200, reply)]))).verdict


def label(verdict: Verdict) -> str:
    return str(verdict.label) if verdict.cause is None else f"{verdict.label}/{verdict.cause}"


async def test_the_plugin_of_trustgate_whose_word_counts_can_be_named() -> None:
    rows = [{"plugin_name": name, "data": {"blocked": name == "toxicity"}} for name in ("toxicity", "other")]
    found = [label(await judge("trustgate", {"metadata": rows}, plugin=name)) for name in ("toxicity", "other", "none")]
    assert found == ["unsafe", "safe", UNREADABLE]


TRUSTGATE: list[object] = [
    {"metadata": NOTHING},  # 113
    {"metadata": [{"plugin_name": "other", "data": {"blocked": False}}]},
    {"metadata": [{"plugin_name": "neuraltrust_jailbreak", "data": EMPTY}]},
    {"metadata": [{"plugin_name": "neuraltrust_jailbreak", "data": {"blocked": "false"}}]},
]


@pytest.mark.parametrize("reply", TRUSTGATE)
async def test_trustgate_without_its_plugins_word_is_unreadable(reply: object) -> None:
    assert label(await judge("trustgate", reply)) == UNREADABLE


@pytest.mark.parametrize(
    ("reply", "expected", "score"),
    [
        ({"jailbreak": False, "score": -0.9}, "safe", 0.1),  # 117
        ({"jailbreak": True, "score": 0.8}, "unsafe", 0.8),
        ({"jailbreak": False}, "safe", 0.0),
        ({"score": -0.9}, UNREADABLE, None),
        ({"jailbreak": False, "score": 0.9}, UNREADABLE, None),
        ({"jailbreak": True, "score": -0.9}, "unsafe", 0.1),
        ({"jailbreak": False, "score": 3}, UNREADABLE, None),
        ({"jailbreak": False, "score": "low"}, UNREADABLE, None),
    ],
)
async def test_jailbreak_detect_signs_its_score(reply: object, expected: str, score: float | None) -> None:
    verdict = await judge("jailbreak_detect", reply)
    assert label(verdict) == expected
    assert verdict.score == (score if score is None else pytest.approx(score))


async def test_jailbreak_detect_decides_by_a_threshold_of_yours_or_by_perplexity() -> None:
    answer = {"jailbreak": False, "score": -0.6}
    assert (await judge("jailbreak_detect", answer, threshold=0.4)).label is Label.UNSAFE
    assert label(await judge("jailbreak_detect", {"jailbreak": False}, threshold=0.4)) == UNREADABLE
    context = FakeContext(posts=[(200, {"jailbreak": True, "length_per_perplexity": 90.1})])
    verdict = (await ask("s", build("jailbreak_detect", route="heuristics"), exchange("x"), context)).verdict
    assert (verdict.label, context.posted[0][0]) == (Label.UNSAFE, "https://guard.example/heuristics")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("allow", "safe"), ("block", "unsafe"), ("annotate", "unsafe"), ("maybe", UNREADABLE), (None, UNREADABLE)],
)
async def test_opencc_knows_three_words(word: object, expected: str) -> None:  # 116
    assert label(await judge("opencc", {"decision": word})) == expected


async def test_opencc_is_sent_its_mode() -> None:
    context = FakeContext(posts=[(200, {"decision": "allow"})])
    await ask("s", build("opencc", mode="fast"), exchange("x"), context)
    assert context.posted[0][1] == {"text": "x", "mode": "fast"}


@pytest.mark.parametrize(
    ("reply", "expected", "score"),
    [
        ({"is_valid": True, "scanners": {"Toxicity": 0.2, "Regex": -1}}, "safe", 0.2),
        ({"is_valid": False, "scanners": {"Toxicity": 0.9}}, "unsafe", 0.9),
        ({"is_valid": False}, "unsafe", 1.0),
        ({"is_valid": True}, UNREADABLE, None),
        ({"is_valid": True, "scanners": {}}, UNREADABLE, None),
        ({"is_valid": True, "scanners": {"Toxicity": 1.0}}, UNREADABLE, None),
        ({"is_valid": "true"}, UNREADABLE, None),
        ({"scanners": {}}, UNREADABLE, None),
        ({"is_valid": True, "scanners": {"Toxicity": 7}}, UNREADABLE, None),
    ],
)
async def test_llm_guard_says_whether_a_text_is_valid(reply: object, expected: str, score: float | None) -> None:
    verdict = await judge("llm_guard", reply)
    assert (label(verdict), verdict.score) == (expected, score)


async def test_llm_guard_gets_a_reply_with_its_prompt() -> None:
    context = FakeContext(posts=[(200, {"is_valid": True})])
    await ask("s", build("llm_guard"), exchange("question", stage="output", reply="answer"), context)
    assert context.posted[0][:2] == ("https://guard.example/analyze/output", {"prompt": "question", "output": "answer"})


async def test_a_detector_is_named_in_a_header_and_scores_below_the_threshold_do_not_count() -> None:
    row = {"start": 0, "end": 8, "detection": "Umbrella", "detection_type": "hate", "score": 0.4}
    context = FakeContext(posts=[(200, [[row]])])
    guard = build("detectors", params={"language": "en"})
    verdict = (await ask("s", guard, exchange("umbrella"), context)).verdict
    assert (verdict.label, verdict.score) == (Label.SAFE, 0.4)
    assert context.posted[0][1] == {"contents": ["umbrella"], "detector_params": {"language": "en"}}
    assert context.posted[0][2]["detector-id"] == "pii-detector"
    assert (await judge("detectors", [[row]], threshold=0.4)).categories == ("hate",)
    assert label(await judge("detectors", [[{**row, "score": None}]])) == UNREADABLE


async def test_systemone_must_answer_every_question() -> None:
    asked = {"violence": "It calls for violence.", "hate": "It demeans people."}
    answers: dict[str, object] = {"violence": {"noul": 0.2}, "hate": {"noul": 0.7}}
    verdict = await judge("systemone", {"answers": answers}, questions=asked)
    assert (verdict.label, verdict.categories, verdict.score) == (Label.UNSAFE, ("hate",), 0.7)
    assert label(await judge("systemone", {"answers": {"violence": {"noul": 0.2}}}, questions=asked)) == UNREADABLE
    context = FakeContext(posts=[(200, {"answers": answers})])
    await ask("s", build("systemone", questions=asked), exchange("x"), context)
    assert body_of(context.posted[0][1])["questions"]["hate"] == {"type": "noul", "instructions": "It demeans people."}


GEMINI: list[tuple[object, str]] = [
    ({"promptFeedback": {"blockReason": "SAFETY"}}, "unsafe"),  # 114
    ({}, UNREADABLE),  # 115
    ({"promptFeedback": EMPTY}, UNREADABLE),
    ({"candidates": NOTHING}, UNREADABLE),
    ({"candidates": [{"finishReason": "STOP"}]}, "safe"),
    ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, "safe"),
    ({"candidates": [{"finishReason": "SAFETY"}]}, "unsafe"),
    ({"candidates": [{"finishReason": "SPII"}]}, "unsafe"),
    ({"candidates": [{"finishReason": "SOMETHING_NEW"}]}, UNREADABLE),
    ({"candidates": [{"finishReason": "STOP", "safetyRatings": [{"category": "x", "blocked": True}]}]}, "unsafe"),
    ({"candidates": [EMPTY]}, UNREADABLE),
]


@pytest.mark.parametrize(("reply", "expected"), GEMINI)
async def test_gemini_says_what_it_blocks(reply: object, expected: str) -> None:
    assert label(await judge("gemini_safety", reply)) == expected


async def test_gemini_names_what_it_blocked_for_and_how_likely_it_is() -> None:
    rating = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "MEDIUM", "blocked": True}
    verdict = await judge("gemini_safety", {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [rating]}})
    assert verdict.categories == ("harassment",)
    assert verdict.extras["scores"] == {"HARM_CATEGORY_HARASSMENT": 0.66}
    assert (await judge("gemini_safety", {"candidates": [{"finishReason": "RECITATION"}]})).categories == ("ip",)


GENERIC: dict[str, object] = {
    "body": {"inputs": [{"content": "{text}"}], "keep": "literal {text} inside", "n": 1},
    "verdict": "/result/0/verdict~1final",
    "unsafe": ["1", "true", "toxic"],
    "safe": ["0", "false"],
    "score": "/score",
    "categories": "/kinds",
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [(1, "unsafe"), (0, "safe"), (True, "unsafe"), (False, "safe"), (" Toxic ", "unsafe"), ("nontoxic", UNREADABLE),
     (2, UNREADABLE), (None, UNREADABLE), ([0], UNREADABLE)],
)  # fmt: skip
async def test_a_service_of_your_own_is_read_by_your_words(word: object, expected: str) -> None:
    reply = {"result": [{"verdict/final": word}], "score": 0.3, "kinds": ["hate", "house"]}
    verdict = await judge("http_guard", reply, **GENERIC)
    assert label(verdict) == expected
    assert verdict.categories == (("hate", "other") if expected == "unsafe" else ())


async def test_a_service_of_your_own_is_sent_your_body_and_your_key() -> None:
    context = FakeContext(posts=[(200, {"result": [], "score": 0.1})])
    guard = build("http_guard", **GENERIC, api_key_header="X-Key", headers={"x-team": "rain"})
    verdict = (await ask("s", guard, exchange('a "quoted" {brace}'), context)).verdict
    assert label(verdict) == UNREADABLE
    _, body, headers = context.posted[0]
    assert body == {"inputs": [{"content": 'a "quoted" {brace}'}], "keep": "literal {text} inside", "n": 1}
    assert (headers["x-team"], headers["x-key"]) == ("rain", "k-violet-umbrella")
    missing = await judge("http_guard", {"result": [{"verdict/final": 0}]}, **GENERIC)
    assert label(missing) == UNREADABLE  # a score that was asked for


@pytest.mark.parametrize("options", [{"body": {"x": "y"}}, {"safe": ["BAD"]}, {"verdict": "verdict"}, {"body": {}}])
def test_a_description_that_cannot_work_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="validation error"):
        build("http_guard", **options)
