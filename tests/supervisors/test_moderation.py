"""The moderation service as a supervisor (guards §8.1; golden rows 100 and 101)."""

from __future__ import annotations

from typing import cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.moderation import Limits, Moderation, read_results
from supervisors.secret import Secret
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Exchange, Label, Media, Segment, Verdict

HERE = "http://127.0.0.1:8000/v1"
NO_LIMITS = Limits(None, {})
NOTHING: dict[str, object] = {}
NO_LIST: list[object] = []


def inputs(context: FakeContext) -> list[list[str]]:
    """Return the strings of every call."""
    return [cast("dict[str, list[str]]", sent)["input"] for _, sent, _ in context.posted]


def result(*, flagged: object = False, **scores: object) -> dict[str, object]:
    names = {name.replace("__", "/"): score for name, score in scores.items()}
    over = {name: isinstance(score, float) and score >= 0.5 for name, score in names.items()}
    return {"flagged": flagged, "categories": over, "category_scores": names}


def body(*results: object) -> tuple[int, object]:
    return 200, {"id": "modr-1", "model": "omni-moderation-2024-09-26", "results": list(results)}


async def judge(*posts: tuple[int, object] | Exception, guard: Moderation | None = None, **options: object) -> Verdict:
    context = FakeContext(posts=posts)
    asked = await ask(
        "m", guard or Moderation.model_validate({"url": HERE, **options}), exchange("violet umbrella"), context
    )
    return asked.verdict


async def test_a_flagged_text_is_unsafe_with_its_categories_and_highest_score() -> None:
    verdict = await judge(body(result(flagged=True, harassment=0.57, violence=0.1)))  # 100
    assert (verdict.label, verdict.categories, verdict.score) == (Label.UNSAFE, ("harassment",), 0.57)
    assert verdict.extras["raw_categories"] == ["harassment"]
    assert verdict.extras["model_served"] == "omni-moderation-2024-09-26"


async def test_a_text_that_is_not_flagged_is_safe() -> None:
    verdict = await judge(body(result(flagged=False, hate__threatening=0.02)))
    assert (verdict.label, verdict.score, verdict.categories) == (Label.SAFE, 0.02, ())


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (body(), "missing_verdict"),  # 101
        (body(result(), result()), "missing_verdict"),
        (body({"categories": {}}), "missing_verdict"),
        (body(result(flagged="false")), "missing_verdict"),
        (body(result(flagged=None)), "missing_verdict"),
        (body(result(flagged=0)), "missing_verdict"),
        (body("flagged"), "missing_verdict"),
        ((200, NO_LIST), "missing_verdict"),
        ((200, None), "missing_verdict"),
        ((200, {"results": {"0": result()}}), "missing_verdict"),
        (body({"flagged": False, "category_scores": {"hate": 7}}), "missing_field"),
        (body({"flagged": False, "category_scores": {"hate": float("nan")}}), "missing_field"),
        (body({"flagged": False, "categories": {"hate": "no"}}), "missing_field"),
    ],
)
async def test_a_reply_without_its_decisive_member_is_unreadable(answer: tuple[int, object], detail: str) -> None:
    verdict = await judge(answer)
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.UNPARSABLE, detail)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ((401, {"error": {"message": "bad key"}}), Cause.ERROR),
        ((403, NOTHING), Cause.ERROR),
        ((404, "nothing here"), Cause.ERROR),
        (ChatTimeout("late"), Cause.TIMEOUT),
        (ChatUnavailable("reset"), Cause.ERROR),
        (ChatUnavailable("status", status=429), Cause.ERROR),
        (ChatRefused("no", status=401), Cause.ERROR),
        (ReplyError("no JSON"), Cause.UNPARSABLE),
        (RuntimeError("bug"), Cause.ERROR),
    ],
)
async def test_every_failure_is_unknown_with_its_cause(answer: tuple[int, object] | Exception, cause: Cause) -> None:
    # F-01
    verdict = await judge(answer)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, cause)


async def test_thresholds_replace_the_flag_and_single_ones_override_the_common_one() -> None:
    answer = body(result(flagged=False, harassment=0.3, hate=0.3))
    assert (await judge(answer, threshold=0.3)).categories == ("harassment", "hate")
    assert (await judge(answer, threshold=0.31)).label is Label.SAFE
    strict = await judge(answer, threshold=0.9, thresholds={"hate": 0.2})
    assert (strict.label, strict.categories) == (Label.UNSAFE, ("hate",))
    assert (await judge(body({"flagged": False}), threshold=0.3)).cause is Cause.UNPARSABLE


async def test_unset_categories_are_not_assessed() -> None:
    verdict = await judge(
        body({"flagged": False, "categories": {"illicit": None}, "category_scores": {"illicit": None}})
    )
    assert (verdict.label, verdict.score) == (Label.SAFE, 0.0)


async def test_the_request_names_model_key_and_every_text_in_batches_of_32() -> None:
    guard = Moderation(url="https://mod.example/v1/", api_key=Secret("env:K", "k-1"), max_chunks=64)
    texts = [f"text {i}" for i in range(40)]
    context = FakeContext(posts=[body(*[result()] * 32), body(*[result()] * 8)])
    verdict = await guard.assess(exchange(*texts), context)
    assert verdict.label is Label.SAFE
    assert [url for url, _, _ in context.posted] == ["https://mod.example/v1/moderations"] * 2
    bodies = [sent for _, sent, _ in context.posted]
    assert bodies == [
        {"model": "omni-moderation-latest", "input": texts[:32]},
        {"model": "omni-moderation-latest", "input": texts[32:]},
    ]
    assert context.posted[0][2] == {"authorization": "Bearer k-1"}


async def test_one_unsafe_text_among_many_decides_and_is_named() -> None:
    context = FakeContext(posts=[body(result(), result(flagged=True, violence=0.8), result())])
    verdict = await Moderation(url=HERE).assess(exchange("a", "b", "c"), context)
    assert (verdict.label, verdict.extras["chunk"], verdict.scope) == (Label.UNSAFE, 1, "conversation")


async def test_a_long_text_is_cut_and_nothing_is_left_out() -> None:
    # G-12, GU-24
    text = "".join(f"{i:05d} " for i in range(400))
    context = FakeContext(posts=[body(*[result()] * 7)])
    verdict = await Moderation(url=HERE, max_chars=600, overlap=256).assess(exchange(text), context)
    assert verdict.label is Label.SAFE
    chunks = inputs(context)[0]
    assert chunks[0] + "".join(chunk[256:] for chunk in chunks[1:]) == text
    assert max(len(chunk) for chunk in chunks) <= 600


async def test_too_many_chunks_are_over_the_limit() -> None:
    verdict = await Moderation(url=HERE, max_chars=600, max_chunks=2).assess(exchange("x" * 5_000), FakeContext())
    assert (verdict.cause, verdict.detail) == (Cause.OVER_LIMIT, "max_chunks")


async def test_a_body_the_service_finds_too_long_is_halved_once() -> None:
    # GU-24: never "not flagged"
    too_long = (400, {"error": {"message": "Input is too long"}})
    split = await judge(too_long, body(result()))
    assert split.label is Label.SAFE
    again = await judge(too_long, too_long)
    assert (again.label, again.cause) == (Label.UNKNOWN, Cause.OVER_LIMIT)
    assert (await judge((413, {}), (413, {}))).cause is Cause.OVER_LIMIT


async def test_what_is_not_text_is_unsupported_and_an_empty_exchange_is_skipped() -> None:
    # G-05
    image = Segment("/messages/0/content/0", "user", "media", "", media=Media("image/png", 1, "0" * 64))
    only = await Moderation(url=HERE).assess(Exchange("i", "m", "input", (image,)), FakeContext())
    assert (only.cause, only.detail) == (Cause.UNSUPPORTED, "media")
    text = Segment("/messages/0/content/1", "user", "text", "hello")
    both = await Moderation(url=HERE).assess(
        Exchange("i", "m", "input", (image, text)), FakeContext(posts=[body(result())])
    )
    assert (both.label, both.cause) == (Label.UNKNOWN, Cause.UNSUPPORTED)
    assert (await Moderation(url=HERE).assess(exchange("  "), FakeContext())).cause is Cause.SKIPPED


async def test_scopes_roles_and_turns_narrow_what_is_sent() -> None:
    context = FakeContext(posts=[body(result())])
    await Moderation(url=HERE, turns="last_user").assess(exchange("one", "two", "three", system="sys"), context)
    await Moderation(url=HERE, scopes=("system",)).assess(exchange("one", system="sys"), context)
    await Moderation(url=HERE, roles=frozenset({"assistant"})).assess(exchange("one", "two"), context)
    assert inputs(context) == [["three"], ["sys"], ["two"]]


def test_a_threshold_for_a_category_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError, match="no category harasment"):
        Moderation.model_validate({"use": "moderation", "thresholds": {"harasment": 0.5}})


def test_a_plain_key_is_refused_and_a_dump_shows_none() -> None:
    with pytest.raises(ValidationError, match="never as plain text"):
        Moderation.model_validate({"use": "moderation", "api_key": "sk-1"})
    dumped = Moderation(api_key=Secret("env:K", "k-1")).model_dump_json()
    assert "k-1" not in dumped
    assert '"env":"K"' in dumped


def test_inline_results_have_the_same_form() -> None:
    found = read_results({"results": [result(flagged=True, self_harm=0.9), result()]}, 2, NO_LIMITS)
    assert [verdict.label for verdict in found] == [Label.UNSAFE, Label.SAFE]


def test_at_openai_itself_a_key_is_required() -> None:  # F-05
    with pytest.raises(ValidationError, match="api_key is required"):
        Moderation.model_validate({"use": "moderation"})
