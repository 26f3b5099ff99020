"""Azure analyze text (guards §8.3; golden rows 104 and 105)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.plugins import build_supervisor
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Label, Span, Verdict
from tests.supervisors.hosted.samples import body_of, build, secret

ALL = ("Hate", "SelfHarm", "Sexual", "Violence")


def reply(*severities: object, blocklist: tuple[str, ...] = ()) -> dict[str, object]:
    rows = [{"category": name, "severity": value} for name, value in zip(ALL, severities, strict=False)]
    listed = [{"blocklistName": "house", "blocklistItemId": "1", "blocklistItemText": text} for text in blocklist]
    return {"categoriesAnalysis": rows, "blocklistsMatch": listed}


async def judge(answer: object, **options: object) -> Verdict:
    context = FakeContext(posts=[(200, answer)])
    return (await ask("a", build("azure_text", **options), exchange("a violet umbrella"), context)).verdict


async def test_the_threshold_is_the_one_of_the_config() -> None:  # 104, and a defect seen elsewhere (guards §13)
    found = await judge(reply(0, 2, 0, 0))
    assert (found.label, found.categories) == (Label.UNSAFE, ("self_harm",))
    assert found.score == pytest.approx(0.3333, abs=5e-5)
    assert (await judge(reply(0, 2, 0, 0), severity_threshold=4)).label is Label.SAFE
    strict = await judge(reply(0, 4, 0, 4), severity_threshold=6, severity_thresholds={"Violence": 4})
    assert (strict.label, strict.categories) == (Label.UNSAFE, ("violence",))


async def test_eight_levels_have_a_scale_of_their_own() -> None:
    found = await judge(reply(0, 0, 0, 7), levels=8)
    assert (found.label, found.score) == (Label.UNSAFE, 1.0)
    context = FakeContext(posts=[(200, reply(0, 0, 0, 0))])
    await ask("a", build("azure_text", levels=8), exchange("x"), context)
    assert body_of(context.posted[0][1])["outputType"] == "EightSeverityLevels"


@pytest.mark.parametrize(
    "answer", [reply(0, 0, 0), reply(0, 0, None, 0), reply(0, 0, 0, 9), reply(0, 0, 0, "2"), reply(0, 0, 0, True), {}]
)
async def test_a_category_that_was_asked_for_and_is_missing_makes_it_unreadable(answer: object) -> None:  # 105
    verdict = await judge(answer)
    assert (verdict.cause, verdict.detail) == (Cause.UNPARSABLE, "missing_verdict")


async def test_a_blocklist_match_is_unsafe_with_its_place() -> None:
    verdict = await judge(reply(0, 0, 0, 0, blocklist=("violet",)), blocklists=["house"])
    assert (verdict.label, verdict.score, verdict.spans) == (
        Label.UNSAFE, 1.0, (Span("/messages/0/content", 2, 8, "other"),),
    )  # fmt: skip
    halted = {"blocklistsMatch": reply(blocklist=("violet",))["blocklistsMatch"]}
    found = await judge(halted, blocklists=["house"], halt_on_blocklist_hit=True)
    assert (found.label, found.spans) == (Label.UNSAFE, ())
    both = await judge(reply(0, 0, 0, 4, blocklist=("violet",)), blocklists=["house"])
    assert both.spans == ()


async def test_the_request_is_the_services_own() -> None:
    context = FakeContext(posts=[(200, reply(0, 0, 0, 0))])
    await ask("a", build("azure_text", blocklists=["house"]), exchange("x"), context)
    url, body, headers = context.posted[0]
    assert url == "https://guard.example/contentsafety/text:analyze?api-version=2024-09-01"
    assert body == {
        "text": "x",
        "categories": list(ALL),
        "haltOnBlocklistHit": False,
        "outputType": "FourSeverityLevels",
        "blocklistNames": ["house"],
    }
    assert set(headers) == {"ocp-apim-subscription-key"}


@pytest.mark.parametrize(
    "options",
    [
        {"severity_threshold": 7},
        {"severity_threshold": 0},
        {"severity_thresholds": {"Hate": 2}, "categories": ["Sexual"]},
        {"halt_on_blocklist_hit": True},
        {"token": secret()},
        {"max_chars": 20_000},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="validation error"):
        build("azure_text", **options)


async def test_an_entra_token_is_a_bearer() -> None:
    entry = {"use": "azure_text", "url": "https://guard.example/", "token": secret("T", "t-1")}
    context = FakeContext(posts=[(200, reply(0, 0, 0, 0))])
    await ask("a", build_supervisor(entry), exchange("x"), context)
    assert context.posted[0][2] == {"authorization": "Bearer t-1"}
