"""Lakera Guard (guards §8.2; golden rows 102 and 103)."""

from __future__ import annotations

import pytest

from supervisors.ask import ask
from supervisors.hosted.lakera import Lakera
from supervisors.plugins import build_supervisor
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Span, Verdict
from tests.supervisors.hosted.samples import body_of, build, secret


async def judge(reply: object, text: str = "my mail is a@b.example", **options: object) -> Verdict:
    context = FakeContext(posts=[(200, reply)])
    return (await ask("l", build("lakera", **options), exchange(text), context)).verdict


def entry(kind: str, result: str | None = None, *, detected: bool = True) -> dict[str, object]:
    return {"detector_type": kind, "detected": detected, **({"result": result} if result else {})}


async def test_a_flag_is_unsafe_with_the_highest_level_and_the_categories_that_fired() -> None:
    fired = [
        entry("prompt_attack", "l2_very_likely"),
        entry("pii/email", "l4_less_likely"),
        entry("moderated_content/hate"),
    ]
    verdict = await judge({"flagged": True, "breakdown": [*fired, entry("unknown_links", detected=False)]})
    assert (verdict.label, verdict.score) == (Label.UNSAFE, 0.8)
    assert verdict.categories == ("injection", "privacy", "hate")
    assert verdict.extras["raw_categories"] == ["prompt_attack", "pii/email", "moderated_content/hate"]


@pytest.mark.parametrize(
    ("row", "score"),
    [
        ({"result": "l1_confident"}, 1.0),
        ({"result": "l3_likely"}, 0.6),
        ({"result": "l5_unlikely"}, 0.2),
        ({"result": "no_level"}, 0.0),
        ({"confidence": "L4"}, 0.4),
        ({}, 1.0),
    ],
)
async def test_levels_become_scores(row: dict[str, object], score: float) -> None:
    verdict = await judge({"flagged": True, "breakdown": [{"detector_type": "pii/email", "detected": True, **row}]})
    assert (verdict.score, verdict.categories) == (score, ("privacy",))


@pytest.mark.parametrize("reply", [{"breakdown": []}, {"flagged": "false"}, {"flagged": None}, {"flagged": 0}, []])
async def test_a_missing_flag_is_no_flag(reply: object) -> None:  # 103
    verdict = await judge(reply)
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.UNPARSABLE, "missing_verdict")


async def test_a_detector_that_fired_without_a_flag_is_a_fact_beside_safe() -> None:
    verdict = await judge({"flagged": False, "breakdown": [entry("prompt_attack", "l4_less_likely")]})
    assert (verdict.label, verdict.categories) == (Label.SAFE, ())
    assert verdict.extras["raw_categories"] == ["prompt_attack"]


def payload(start: int, end: int, **more: object) -> dict[str, object]:
    return {"start": start, "end": end, "detector_type": "pii/email", "labels": ["email"], **more}


async def test_matches_are_spans_by_text_or_by_offsets() -> None:
    expected = (Span("/messages/0/content", 11, 22, "privacy"),)
    fired = {"flagged": True, "breakdown": [entry("pii/email")]}
    assert (await judge({**fired, "payload": [payload(0, 0, text="a@b.example")]})).spans == expected
    assert (await judge({**fired, "payload": [payload(11, 22)]})).spans == expected
    assert (await judge({**fired, "payload": [payload(11, 21)]}, end_inclusive=True)).spans == expected


async def test_there_are_no_spans_if_a_detector_gave_no_match() -> None:
    reply = {"flagged": True, "breakdown": [entry("pii/email"), entry("prompt_attack")], "payload": [payload(11, 22)]}
    assert (await judge(reply)).spans == ()


async def test_each_turn_is_sent_last_after_the_turns_before_it() -> None:
    # GU-16: only the last interaction is screened
    context = FakeContext(posts=[(200, {"flagged": False})])
    guard = build("lakera", parallel=1, project_id="project-1", scopes=["conversation", "system"])
    await ask("l", guard, exchange("one", "two", "three", system="sys"), context)
    bodies = [body_of(body) for _, body, _ in context.posted]
    assert [[m["content"] for m in body["messages"]] for body in bodies] == [
        ["one"],
        ["one", "two"],
        ["one", "two", "three"],
        ["sys"],
    ]
    assert [body["messages"][-1]["role"] for body in bodies] == ["user", "assistant", "user", "system"]
    assert {(body["project_id"], body["breakdown"], body["payload"]) for body in bodies} == {("project-1", True, True)}


def test_at_lakera_itself_a_key_is_required() -> None:
    with pytest.raises(ValueError, match="problem"):
        build_supervisor({"use": "lakera"})
    assert isinstance(build_supervisor({"use": "lakera", "api_key": secret()}), Lakera)
    assert isinstance(build_supervisor({"use": "lakera", "url": "http://127.0.0.1:8000/v2"}), Lakera)
