from __future__ import annotations

import base64
from itertools import pairwise

import pytest
from pydantic import ValidationError

from supervisors.language import Language, cut_stretches
from supervisors.testing import context, exchange
from supervisors.types import Cause, Exchange, Label, Media, Segment, Verdict

ENGLISH = "The weather is mild today and the harbour is quiet. "
GERMAN = "Wie backe ich ein Brot, und was brauche ich dafür? "


async def judge(*texts: str, **options: object) -> Verdict:
    supervisor = Language.model_validate({"allowed": ["en"], **options})
    return await supervisor.assess(exchange(*texts), context())


async def test_an_allowed_language_is_safe_and_another_is_not() -> None:
    assert (await judge(ENGLISH)).label is Label.SAFE
    verdict = await judge(GERMAN)
    assert (verdict.label, verdict.categories, verdict.scope) == (Label.UNSAFE, ("language",), "conversation")
    assert verdict.extras["languages"] == ["de"]
    assert (await judge(GERMAN, allowed=["en", "de"])).label is Label.SAFE


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
async def test_one_sentence_anywhere_in_a_megabyte_is_found_and_located(share: float) -> None:  # D-05
    many = len(ENGLISH) * 20_000
    at = int(share * many) // len(ENGLISH) * len(ENGLISH)
    text = ENGLISH * (at // len(ENGLISH)) + GERMAN * 4 + ENGLISH * ((many - at) // len(ENGLISH))
    verdict = await judge(text)
    assert verdict.label is Label.UNSAFE
    assert all(at - 200 <= span.start < span.end <= at + len(GERMAN) * 4 + 200 for span in verdict.spans)


async def test_an_encoded_text_is_read_and_its_whole_run_located() -> None:  # G-11
    run = base64.b64encode(GERMAN.encode()).decode()
    verdict = await judge(ENGLISH + run)
    assert verdict.transform == "base64"
    assert [(span.start, span.end) for span in verdict.spans] == [(len(ENGLISH), len(ENGLISH + run))]


@pytest.mark.parametrize("text", ["ok", "x = f(y) * 3 + g(z) - kwargs[0]", "Chicago, Denver, Tampa, Boston, Dover"])
async def test_what_cannot_be_placed_is_unknown_unless_declared_safe(text: str) -> None:
    verdict = await judge(text)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.ABSTAINED)
    assert (await judge(text, unsure="safe")).label is Label.SAFE


async def test_fewer_letters_may_be_enough_to_tell() -> None:
    text = "Ich backe ein Brot."
    assert (await judge(text, min_letters=100)).cause is Cause.ABSTAINED
    assert (await judge(text, min_letters=5)).label is Label.UNSAFE


async def test_numbers_are_in_no_language() -> None:
    assert (await judge("3.14159, 42, 17:30")).detail == "no_letters"


async def test_a_short_text_in_another_script_is_found() -> None:
    assert (await judge("Как испечь?")).label is Label.UNSAFE


@pytest.mark.parametrize("text", ["የኢትዮጵያ ቋንቋ እንዴት ነው", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᎠᏂᏔᎵ", "ಬ್ರೆಡ್ ಮಾಡುವುದು ಹೇಗೆ"])
async def test_a_script_of_no_known_language_is_foreign_never_safe(text: str) -> None:
    for said in (text, ENGLISH + text * 6 + ". " + ENGLISH * 9):
        verdict = await judge(said)
        assert (verdict.label, verdict.extras["languages"]) == (Label.UNSAFE, ["und"])


async def test_media_is_unsupported_never_safe() -> None:  # G-05
    picture = Segment("/messages/0/content/1", "user", "media", "", media=Media("image/png", 3, "0" * 64))
    asked = Exchange("test", "model", "input", (*exchange(ENGLISH).request, picture))
    verdict = await Language(allowed=("en",)).assess(asked, context())
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.UNSUPPORTED)


async def test_turns_and_roles_narrow_what_is_judged() -> None:
    assert (await judge(GERMAN, "Sure.", ENGLISH, turns="last_user")).label is Label.SAFE
    assert (await judge(ENGLISH, GERMAN, ENGLISH, roles=["user"])).label is Label.SAFE
    assert (await judge(ENGLISH, GERMAN, ENGLISH)).label is Label.UNSAFE


def test_stretches_cover_a_text_without_gap_or_overlap() -> None:
    text = (ENGLISH * 3 + "\n" + "x" * 1500 + "\n") * 4
    places = list(cut_stretches(text))
    assert places[0].start == 0
    assert places[-1].end == len(text)
    assert all(left.end == right.start for left, right in pairwise(places))
    assert max(end - start for start, end in places) <= 400 + 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed": []}, "at least 1 item"),
        ({"allowed": ["English"]}, "two-letter codes"),
        ({"allowed": ["xx"]}, "does not know xx"),
    ],
)
def test_mistakes_are_refused_with_what_would_be_right(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Language.model_validate(options)


def test_the_extra_is_asked_for_or_used() -> None:
    try:
        supervisor = Language(allowed=("en",), engine="fasttext")
    except ValidationError as error:
        assert "guardrail-proxy[language]" in str(error)  # noqa: PT017 - either outcome is one of an installation
        return
    assert supervisor.judge(exchange(GERMAN)).label is Label.UNSAFE
    assert supervisor.judge(exchange(ENGLISH)).label is Label.SAFE


async def test_what_is_unknown_beside_a_sentence_in_another_language_is_told() -> None:
    german = GERMAN * 2
    english = ENGLISH * 3
    guard = Language(allowed=("en",))
    assert guard.judge(exchange(german, english)).rest is None
    assert guard.judge(exchange(german, "qwx zzv kkp llm nnb vvx qqt zzr ppw kkl")).rest is Cause.ABSTAINED
