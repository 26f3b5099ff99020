"""The language of what a guard judges (embedded LX-04)."""

from __future__ import annotations

from typing import Any

import pytest

from supervisors.ask import ask
from supervisors.foreign import find_language, mind_language
from supervisors.guard import Guard
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Supervisor, Verdict, safe, unsafe

ENGLISH = "The weather is mild today and the harbour is quiet, so we could walk down there."
GERMAN = "Wie backe ich ein Brot, und was brauche ich dafür, wenn es morgen fertig sein soll?"


async def mind(mode: Any, languages: tuple[str, ...], text: str, verdict: Verdict) -> Verdict:
    async def judge() -> Verdict:
        return verdict

    return await mind_language(mode, languages, exchange(text), judge)


@pytest.mark.parametrize(
    ("text", "language"),
    [(ENGLISH, "en"), (GERMAN, "de"), ("እንዴት ነው " * 4, "und"), ("ok", None), ("x = f(y) * 3", None)],
)
def test_only_a_text_that_is_clear_has_a_language(text: str, language: str | None) -> None:
    assert find_language(exchange(text)) == language


def test_a_long_text_costs_no_more_than_its_beginning() -> None:
    assert find_language(exchange(ENGLISH * 100 + GERMAN * 10_000)) == "en"


async def test_the_language_is_a_fact_and_a_foreign_one_a_detail() -> None:
    own = await mind("judge", ("en",), ENGLISH, safe())
    assert (own.label, own.detail, own.extras["language"]) == (Label.SAFE, None, "en")
    foreign = await mind("judge", ("en",), GERMAN, unsafe("hate", score=0.9))
    assert (foreign.label, foreign.detail, foreign.extras["language"]) == (Label.UNSAFE, "language", "de")
    assert (await mind("judge", ("en",), GERMAN, safe(detail="kept"))).detail == "kept"
    assert (await mind("judge", ("en", "de"), GERMAN, safe())).detail is None


async def test_under_abstain_a_foreign_text_is_not_judged() -> None:
    verdict = await mind("abstain", ("en",), GERMAN, safe())
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.ABSTAINED, "language")
    assert (await mind("abstain", ("en",), ENGLISH, safe())).label is Label.SAFE


@pytest.mark.parametrize("languages", [(), ("119 languages",), ("en", "ms"), ("multilingual",)])
async def test_languages_that_cannot_all_be_told_apart_say_nothing(languages: tuple[str, ...]) -> None:
    verdict = await mind("abstain", languages, GERMAN, safe())
    assert (verdict.label, verdict.detail, dict(verdict.extras)) == (Label.SAFE, None, {})


def build(**options: object) -> Supervisor:
    return Guard.model_validate({"use": "guard", **options})


async def test_a_guard_model_says_so_or_abstains_without_a_call() -> None:
    entry = {"card": "md-judge-0.1", "url": "http://127.0.0.1:9/v1", "judge": "prompt"}
    context = FakeContext(["safe"])
    verdict = (await ask("g", build(**entry), exchange(GERMAN), context)).verdict
    assert (verdict.label, verdict.detail, verdict.extras["language"]) == (Label.SAFE, "language", "de")
    context = FakeContext()
    verdict = (await ask("g", build(**entry, on_language="abstain"), exchange(GERMAN), context)).verdict
    assert (verdict.cause, verdict.detail) == (Cause.ABSTAINED, "language")


async def test_a_classifier_says_so_or_abstains_without_a_call() -> None:
    entry = {"card": "protectai-injection-v2", "route": "predict", "url": "http://127.0.0.1:9"}
    labels = [{"label": "SAFE", "score": 0.9}, {"label": "INJECTION", "score": 0.1}]
    verdict = (await ask("c", build(**entry), exchange(GERMAN), FakeContext(posts=[(200, labels)]))).verdict
    assert (verdict.label, verdict.detail) == (Label.SAFE, "language")
    assert (await ask("c", build(**entry, on_language="abstain"), exchange(GERMAN), FakeContext())).verdict.cause is (
        Cause.ABSTAINED
    )


async def test_the_embedded_guard_looks_only_when_it_may_abstain() -> None:
    plain = (await ask("e", build(card="embedded"), exchange(GERMAN), FakeContext())).verdict
    assert (plain.label, plain.detail, "language" in plain.extras) == (Label.SAFE, None, False)
    careful = build(card="embedded", on_language="abstain")
    assert (await ask("e", careful, exchange(GERMAN), FakeContext())).verdict.cause is Cause.ABSTAINED
    assert (await ask("e", careful, exchange(ENGLISH), FakeContext())).verdict.label is Label.SAFE
