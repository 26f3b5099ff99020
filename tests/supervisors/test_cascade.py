"""The cascade: which label ends it, and that a failure is never safe by silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.cascade import Cascade
from supervisors.errors import ChatUnavailable
from supervisors.nesting import walk
from supervisors.testing import Always, Fails, FakeContext, Finds, Sleeps, context, exchange
from supervisors.types import Cause, Label, Passing, Scope, Span, Verdict, safe, unknown, unsafe
from supervisors.vote import Vote

ANSWERS: dict[str, Verdict] = {
    "s": safe(),
    "u": unsafe("canary"),
    "k": unknown(Cause.ERROR),
    "t": unknown(Cause.TIMEOUT),
    "-": unknown(Cause.SKIPPED),
}


@dataclass(slots=True)
class Exhaustive(FakeContext):
    exhaustive: bool = field(default=True)


def cascade(votes: str, *options: dict[str, Any], **top: Any) -> Cascade:
    padded = [*options, *[{}] * len(votes)]
    steps = [{"supervisor": Always(ANSWERS[vote]), **padded[index]} for index, vote in enumerate(votes)]
    return Cascade.model_validate({"steps": steps, **top})


def scored(verdict: Verdict, **options: Any) -> dict[str, Any]:
    return {"supervisor": Always(verdict), **options}


async def run(supervisor: Cascade, seconds: float = 5.0) -> Verdict:
    return (await ask("cascade", supervisor, exchange("x"), context(seconds=seconds))).verdict


@pytest.mark.parametrize(
    ("votes", "label", "cause", "asked"),
    [
        ("s", Label.SAFE, None, 1),
        ("u", Label.UNSAFE, None, 1),
        ("k", Label.UNKNOWN, Cause.ERROR, 1),
        ("us", Label.UNSAFE, None, 1),  # the first certain label ends it
        ("ss", Label.SAFE, None, 2),
        ("su", Label.UNSAFE, None, 2),
        ("ks", Label.SAFE, None, 2),  # a later label resolves the unknown
        ("ku", Label.UNSAFE, None, 2),
        ("sk", Label.UNKNOWN, Cause.ERROR, 2),  # nothing resolves it: an earlier safe does not
        ("kt", Label.UNKNOWN, Cause.TIMEOUT, 2),
        ("skt", Label.UNKNOWN, Cause.TIMEOUT, 3),
        ("s-", Label.SAFE, None, 1),  # a gate that is not applicable neither decides nor fails
        ("k-", Label.UNKNOWN, Cause.ERROR, 1),
        ("--", Label.UNKNOWN, Cause.SKIPPED, 0),
    ],
)
async def test_default_steps(votes: str, label: Label, cause: Cause | None, asked: int) -> None:  # G-30
    verdict = await run(cascade(votes))
    assert (verdict.label, verdict.cause, verdict.extras["steps_asked"]) == (label, cause, asked)


@pytest.mark.parametrize("where", ["on_safe", "on_unsafe", "on_unknown"])
@pytest.mark.parametrize("action", ["safe", "unsafe", "unknown"])
async def test_each_action_ends_the_cascade_with_its_label(where: str, action: str) -> None:  # G-30
    vote = {"on_safe": "s", "on_unsafe": "u", "on_unknown": "k"}[where]
    verdict = await run(cascade(vote + "s", {where: action}))
    assert verdict.label == action
    assert [str(member.verdict.cause) for member in verdict.members][1] == "skipped"


@pytest.mark.parametrize("vote", "suk")
async def test_next_goes_on(vote: str) -> None:
    everything = {"on_safe": "next", "on_unsafe": "next", "on_unknown": "next"}
    assert (await run(cascade(vote + "s", everything))).label is Label.SAFE
    assert (await run(cascade(vote + "u", everything))).label is Label.UNSAFE


async def test_a_changed_label_drops_the_findings_and_says_who_set_it() -> None:
    verdict = await run(cascade("u", {"on_unsafe": "safe", "name": "gate"}))
    assert (verdict.label, verdict.categories, verdict.detail) == (Label.SAFE, (), "set_by_gate")
    assert verdict.members[0].verdict.categories == ("canary",)


@pytest.mark.parametrize(
    ("score", "label"), [(0.1, Label.SAFE), (0.2, Label.SAFE), (0.5, Label.UNKNOWN), (0.8, Label.UNSAFE)]
)
async def test_a_band_passes_on_what_is_not_certain(score: float, label: Label) -> None:  # G-30
    first = scored(unsafe("canary", score=score), low=0.2, high=0.8)
    verdict = await run(Cascade.model_validate({"steps": [first, scored(unknown(Cause.REFUSED))]}))
    assert verdict.label is label


async def test_a_banded_step_without_a_score_is_not_certain() -> None:
    steps = [scored(safe(), low=0.2), scored(unsafe("canary"))]
    assert (await run(Cascade.model_validate({"steps": steps}))).label is Label.UNSAFE


async def test_the_label_of_a_banded_last_step_decides_when_the_score_does_not() -> None:
    steps = [scored(unsafe("canary", score=0.5), low=0.2, high=0.8)]
    assert (await run(Cascade.model_validate({"steps": steps}))).label is Label.UNSAFE


async def test_findings_come_from_the_step_that_decides() -> None:
    steps = [{"supervisor": Always(safe(score=0.1))}, {"supervisor": Finds("x")}, {"supervisor": Always()}]
    verdict = await run(Cascade.model_validate({"steps": steps}))
    assert (verdict.categories, verdict.score, len(verdict.spans)) == (("canary",), 1.0, 1)
    assert [member.supervisor for member in verdict.members] == ["step1", "step2", "step3"]


@dataclass(slots=True)
class Redacts(FakeContext):
    let_through: Mapping[Scope, Passing] = field(default_factory=lambda: {"conversation": "redact"})


LATER: list[tuple[Any, list[str], Cause | None]] = [
    (Always(safe()), ["violet"], None),
    (Always(unsafe("elsewhere")), [], None),  # says not where
    (Finds("umbrella"), ["violet", "umbrella"], None),
    (Fails(ChatUnavailable("down")), ["violet"], Cause.ERROR),  # nobody has judged the rest
    (Always(unknown(Cause.ABSTAINED)), ["violet"], Cause.ABSTAINED),
    (Always(unknown(Cause.SKIPPED)), ["violet"], None),  # not applicable is no failure
]


@pytest.mark.parametrize(("later", "masked", "rest"), LATER)
async def test_what_is_left_beside_a_redacted_finding_is_judged_by_the_later_steps(
    later: Any, masked: list[str], rest: Cause | None
) -> None:
    steps = [{"supervisor": Finds("violet")}, {"supervisor": later}]
    text = "violet umbrella"
    verdict = await Cascade.model_validate({"steps": steps}).assess(exchange(text), Redacts())
    assert (verdict.label, verdict.categories[0], verdict.rest) == (Label.UNSAFE, "canary", rest)
    assert [text[span.start : span.end] for span in verdict.spans] == masked
    plain = await Cascade.model_validate({"steps": steps}).assess(exchange(text), context())
    assert (len(plain.spans), plain.rest, plain.extras["steps_asked"]) == (1, Cause.SKIPPED, 1)  # nothing is masked


@pytest.mark.parametrize(("later", "rest"), [(Always(safe()), None), (Always(unknown(Cause.SKIPPED)), Cause.TIMEOUT)])
async def test_a_later_label_resolves_what_a_finding_left_unread(later: Any, rest: Cause | None) -> None:
    found = replace(unsafe("canary", spans=(Span("/x", 0, 1, "canary"),)), rest=Cause.TIMEOUT)
    steps = [{"supervisor": Always(found)}, {"supervisor": later}]
    verdict = await Cascade.model_validate({"steps": steps}).assess(exchange("x"), Redacts())
    assert (len(verdict.spans), verdict.rest) == (1, rest)


async def test_a_certain_step_ends_what_is_asked_of_the_rest() -> None:
    steps = [
        {"supervisor": Finds("violet")},
        {"supervisor": Always(safe()), "on_safe": "safe"},
        {"supervisor": Fails(ChatUnavailable("down"))},
    ]
    verdict = await Cascade.model_validate({"steps": steps}).assess(exchange("violet"), Redacts())
    assert (len(verdict.spans), verdict.extras["steps_asked"]) == (1, 2)
    last = await Cascade.model_validate({"steps": steps[:1]}).assess(exchange("violet"), Redacts())
    assert len(last.spans) == 1


async def test_a_hung_step_is_a_timeout_that_the_step_may_turn_unsafe() -> None:  # F-12
    steps: list[dict[str, Any]] = [{"supervisor": Sleeps(30), "on_unknown": "unsafe"}, {"supervisor": Always()}]
    verdict = await run(Cascade.model_validate({"steps": steps}), seconds=0.1)
    assert (verdict.label, verdict.members[0].verdict.cause) == (Label.UNSAFE, Cause.TIMEOUT)
    steps[0]["on_unknown"] = "next"
    verdict = await run(Cascade.model_validate({"steps": steps}), seconds=0.1)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.TIMEOUT)


async def test_an_evaluation_run_asks_every_step_and_keeps_the_label() -> None:  # H-134
    verdict = await cascade("us").assess(exchange("x"), Exhaustive())
    assert (verdict.label, verdict.extras["steps_asked"]) == (Label.UNSAFE, 2)


async def test_a_step_that_raises_is_unknown() -> None:
    steps = [{"supervisor": Fails(RuntimeError("bug"))}]
    assert (await run(Cascade.model_validate({"steps": steps}))).cause is Cause.ERROR


def test_a_cascade_is_as_able_as_its_weakest_step() -> None:
    steps = [{"supervisor": Finds("violet umbrella")}, {"supervisor": Always()}]
    built = Cascade.model_validate({"steps": steps})
    assert (built.local, built.capability, built.holdback_chars()) == (True, "windowed", 14)
    assert built.stages == frozenset({"input", "output"})


def test_the_tree_can_be_walked_with_names() -> None:
    vote = Vote.model_validate({"members": {"a": Always(), "b": Cascade.model_validate({"steps": [scored(safe())]})}})
    assert [name for name, _ in walk("panel", vote)] == ["panel", "panel/a", "panel/b", "panel/b/step1"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"steps": []}, "at least 1"),
        ({"steps": [scored(safe(), low=0.5, high=0.5)]}, "must be below"),
        ({"steps": [scored(safe(), low=0.5, on_safe="unsafe")]}, "no effect"),
        ({"steps": [scored(safe(), high=7)]}, "less than or equal to 1"),
        ({"steps": [scored(safe(), name="a"), scored(safe(), name="a")]}, "name of its own"),
        ({"steps": [scored(safe(), on_safe="pass")]}, "Input should be"),
        ({"steps": [scored(safe(), on_fail="next")]}, "Extra inputs"),
    ],
)
def test_mistakes_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Cascade.model_validate(entry)


def test_a_cascade_that_contains_itself_is_refused() -> None:  # G-31
    entry: dict[str, Any] = {"use": "cascade", "steps": [{}]}
    entry["steps"][0]["supervisor"] = entry
    with pytest.raises(ValidationError, match="may not contain itself"):
        Cascade.model_validate(entry)
