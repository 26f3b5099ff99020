"""The panel: its early exit, its reserve, its deadline, and what it refuses at load."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.cascade import Cascade
from supervisors.errors import ChatUnavailable
from supervisors.judge import Judge
from supervisors.plugins import build_supervisor, flatten_errors
from supervisors.testing import Always, Fails, FakeContext, Finds, Sleeps, context, exchange
from supervisors.types import (
    Assessment,
    Cause,
    Exchange,
    Label,
    Passing,
    Scope,
    Span,
    Supervisor,
    Tokens,
    Verdict,
    safe,
    unknown,
    unsafe,
)
from supervisors.vote import Vote, advise
from tests.timing import HANGS_S, PATIENCE_S

ANSWERS: dict[str, Verdict] = {"s": safe(), "u": unsafe("canary"), "k": unknown(Cause.ERROR)}


@dataclass(slots=True)
class Counting:
    """A remote member that answers after a few turns of the loop and counts its calls."""

    verdict: Verdict
    turns: int = 0
    asked: int = 0
    finished: int = 0

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        self.asked += 1
        for _ in range(self.turns):
            await asyncio.sleep(0)
        self.finished += 1
        return self.verdict


@dataclass(frozen=True, slots=True)
class CancelsItself:
    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        raise asyncio.CancelledError


@dataclass(slots=True)
class Exhaustive(FakeContext):
    exhaustive: bool = field(default=True)


def panel(*members: Supervisor, **options: Any) -> Vote:
    return Vote.model_validate({"members": dict(zip("abcdefgh", members, strict=False)), **options})


async def vote_on(vote: Vote, seconds: float = 5.0) -> Verdict:
    return (await ask("panel", vote, exchange("violet umbrella"), context(seconds=seconds))).verdict


def labels(verdict: Verdict) -> list[str]:
    return [str(member.verdict.cause or member.verdict.label) for member in verdict.members]


@pytest.mark.parametrize("start", ["all", "lazy"])
@pytest.mark.parametrize("strategy", ["any", "all", "majority", "first_available", "weighted"])
async def test_the_label_is_the_same_with_and_without_early_exit(
    strategy: str, start: Literal["all", "lazy"]
) -> None:  # G-28, H-152
    for votes in product("suk", repeat=3):
        for delays in ((0, 3, 6), (6, 3, 0), (3, 0, 6)):
            members = [Counting(ANSWERS[vote], turns) for vote, turns in zip(votes, delays, strict=True)]
            early = await vote_on(panel(*members, strategy=strategy, start=start))
            full = await vote_on(panel(*members, strategy=strategy, start=start, exhaustive=True))
            assert early.label is full.label, (votes, delays)


async def test_one_unsafe_one_safe_one_hung_is_a_tie_before_the_deadline() -> None:  # D-18, F-12
    verdict = await vote_on(panel(Always(unsafe()), Always(safe()), Sleeps(30)), seconds=0.2)
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.ABSTAINED, "tie")
    assert labels(verdict) == ["unsafe", "safe", "timeout"]
    assert verdict.extras["tie"] is True


async def test_a_hung_member_does_not_delay_a_decided_panel() -> None:  # G-49, F-12
    members = panel(Sleeps(0.0, unsafe("canary")), Sleeps(HANGS_S), Sleeps(0.0, unsafe()))
    async with asyncio.timeout(PATIENCE_S):
        verdict = await vote_on(members, seconds=HANGS_S)
    assert verdict.label is Label.UNSAFE
    assert labels(verdict) == ["unsafe", "skipped", "unsafe"]


async def test_an_evaluation_run_waits_for_everybody() -> None:  # H-134
    slow = Counting(safe(), turns=20)
    vote = panel(Always(unsafe()), Always(unsafe()), slow)
    await vote_on(vote)
    assert slow.asked == 0  # local members had decided already
    verdict = await vote.assess(exchange("x"), Exhaustive())
    assert (slow.finished, verdict.label) == (1, Label.UNSAFE)
    assert labels(verdict) == ["unsafe", "unsafe", "safe"]


async def test_lazy_asks_a_third_judge_only_on_disagreement() -> None:  # G-28
    for votes, calls in (("ss", 2), ("uu", 2), ("us", 3), ("uk", 3)):
        third = Counting(safe())
        members = [Counting(ANSWERS[vote]) for vote in votes]
        await vote_on(panel(*members, third, start="lazy"))
        assert 2 + third.asked == calls, votes


async def test_lazy_starts_five_judges_as_they_are_needed() -> None:
    members = [Counting(ANSWERS[vote]) for vote in "uusus"]
    verdict = await vote_on(panel(*members, start="lazy"))
    assert [member.asked for member in members] == [1, 1, 1, 1, 0]
    assert verdict.label is Label.UNSAFE


async def test_a_hedge_starts_the_next_member_when_one_is_slow() -> None:  # G-28
    verdict = await vote_on(panel(Sleeps(30), Counting(safe()), Counting(safe()), start="lazy", hedge_s=0.01))
    assert (verdict.label, labels(verdict)) == (Label.SAFE, ["skipped", "safe", "safe"])


async def test_a_reserve_judge_breaks_a_tie() -> None:  # G-26, H-147
    reserve = Counting(unsafe("canary"))
    vote = panel(Always(unsafe()), Always(safe()), Fails(RuntimeError("bug")), reserve, reserve=["d"])
    verdict = await vote_on(vote)
    assert (verdict.label, verdict.extras["replacements_used"], verdict.extras["tie"]) == (Label.UNSAFE, 1, True)
    assert verdict.extras["judges_configured"] == 3
    assert verdict.extras["judges_succeeded"] == 3
    assert verdict.extras["judges_failed"] == 1


async def test_reserves_are_asked_one_by_one_and_only_if_needed() -> None:  # G-26
    first, second = Counting(safe()), Counting(safe())
    agreed = panel(Always(safe()), Always(safe()), Always(unsafe()), first, second, reserve=["d", "e"])
    await vote_on(agreed)
    assert (first.asked, second.asked) == (0, 0)
    missed = panel(Always(safe()), Fails(OSError()), Fails(OSError()), first, second, reserve=["d", "e"])
    verdict = await vote_on(missed)  # 2 of 4 is below the minimum of 3, 3 of 5 is not
    assert (first.asked, second.asked, verdict.label) == (1, 1, Label.SAFE)


async def test_a_resolved_tie_asks_no_reserve_and_stays_marked() -> None:  # G-25, J-02
    reserve = Counting(safe())
    vote = panel(Always(unsafe()), Always(safe()), reserve, reserve=["c"], on_tie="unsafe", min_answers=2)
    verdict = await vote_on(vote)
    assert (verdict.label, verdict.detail, reserve.asked) == (Label.UNSAFE, "tie", 0)


async def test_early_exit_waits_for_votes_that_a_reserve_could_turn() -> None:  # G-26, G-28
    late = Counting(unsafe(), turns=5)
    vote = panel(Always(unknown(Cause.REFUSED)), Always(unknown(Cause.REFUSED)), late, Always(unsafe()), reserve=["d"])
    verdict = await vote_on(vote)
    assert (late.finished, verdict.detail) == (1, "quorum_miss")


async def test_members_come_in_config_order_with_score_categories_and_totals() -> None:  # G-29
    a = replace(unsafe("x", "y", score=0.9), tokens=Tokens(10, 2), cost=0.5)
    b = replace(unsafe("y", "z", score=0.6), tokens=Tokens(5, 1), cost=0.25)
    verdict = await vote_on(panel(Sleeps(0.002, a), Sleeps(0.001, b), Always(safe(score=0.0)), exhaustive=True))
    assert [member.supervisor for member in verdict.members] == ["a", "b", "c"]
    assert verdict.score == 0.5
    assert verdict.categories == ("x", "y", "z")
    assert (verdict.tokens, verdict.cost) == (Tokens(15, 3), 0.75)
    assert verdict.extras["labels"] == {"a": "unsafe", "b": "unsafe", "c": "safe"}
    assert verdict.extras["agreement"] == 1 / 3


async def test_a_decision_says_how_many_judges_there_were_and_what_became_of_them() -> None:  # J-05
    verdict = await vote_on(panel(Always(unsafe()), Always(unsafe()), Fails(RuntimeError("down")), exhaustive=True))
    extras = verdict.extras
    counted = [extras[name] for name in ("judges_configured", "judges_succeeded", "judges_failed", "replacements_used")]
    assert counted == [3, 2, 1, 0]
    assert extras["tie"] is False
    causes = [member.verdict.cause for member in verdict.members]
    assert (causes[0], causes[2]) == (None, Cause.ERROR)
    assert all(member.seconds >= 0 for member in verdict.members)


async def test_a_cost_that_is_partly_unknown_is_unknown() -> None:  # H-133
    a, b = replace(safe(), tokens=Tokens(1, 1), cost=0.5), replace(safe(), tokens=Tokens(1, 1))
    assert (await vote_on(panel(Always(a), Always(b)))).cost is None


@dataclass(slots=True)
class Redacts(FakeContext):
    let_through: Mapping[Scope, Passing] = field(default_factory=lambda: {"conversation": "redact"})


DOWN = Fails(ChatUnavailable("down"))
UNREAD = replace(unsafe("canary", spans=(Span("/x", 0, 1, "canary"),)), rest=Cause.OVER_LIMIT)
REST: list[tuple[dict[str, Any], Any, int, Cause | None]] = [
    ({"strategy": "any"}, Always(safe()), 1, None),
    ({"strategy": "any"}, Always(unsafe("elsewhere")), 0, None),
    ({"strategy": "any"}, DOWN, 1, Cause.ERROR),  # nobody has judged the rest
    ({"strategy": "any"}, Always(UNREAD), 2, Cause.OVER_LIMIT),
    ({"strategy": "any"}, Finds("umbrella"), 2, None),
    ({"strategy": "quorum", "count": 1, "min_answers": 1}, DOWN, 1, Cause.ERROR),
    ({"strategy": "first_available"}, DOWN, 1, None),  # the first decides alone
]


@pytest.mark.parametrize(("options", "other", "spans", "rest"), REST)
async def test_a_redaction_leaves_what_the_whole_panel_judges(
    options: dict[str, Any], other: Any, spans: int, rest: Cause | None
) -> None:
    finds = Finds("violet")
    verdict = await panel(finds, other, **options).assess(exchange("violet umbrella"), Redacts())
    assert (verdict.label, len(verdict.spans), verdict.rest) == (Label.UNSAFE, spans, rest)


async def test_where_nothing_is_masked_the_first_finding_ends_the_round() -> None:
    remote = Counting(safe())
    await panel(Finds("violet"), remote, strategy="any").assess(exchange("violet"), context())
    assert remote.asked == 0
    await panel(Finds("violet"), remote, strategy="any").assess(exchange("violet"), Redacts())
    assert remote.asked == 1


async def test_two_of_three_who_say_where_need_no_third() -> None:
    remote = Counting(safe())
    three = panel(Finds("violet"), Finds("umbrella"), remote)
    verdict = await three.assess(exchange("violet umbrella"), Redacts())
    assert (len(verdict.spans), remote.asked) == (2, 0)


async def test_spans_are_joined_only_if_everybody_who_objects_can_say_where() -> None:  # G-29, section 4
    finds = Finds("violet")
    both = await vote_on(panel(finds, Finds("umbrella"), strategy="any", exhaustive=True))
    assert [(span.start, span.end) for span in both.spans] == [(0, 6), (7, 15)]
    assert isinstance(both.spans[0], Span)
    one = await vote_on(panel(finds, Always(unsafe("elsewhere")), strategy="any", exhaustive=True))
    assert one.spans == ()  # redacting "violet" would not answer what the other one objects to


async def test_a_minority_finding_stays_out_of_a_safe_verdict() -> None:
    verdict = await vote_on(panel(Always(unsafe("canary")), Always(safe()), Always(safe())))
    assert (verdict.label, verdict.categories) == (Label.SAFE, ())
    assert verdict.members[0].verdict.categories == ("canary",)


async def test_a_member_that_cancels_itself_is_an_error_not_the_end() -> None:
    verdict = await vote_on(panel(CancelsItself(), Sleeps(0.001, safe()), Sleeps(0.001, safe()), exhaustive=True))
    assert (verdict.label, labels(verdict)) == (Label.SAFE, ["error", "safe", "safe"])


async def test_cancelling_a_vote_cancels_its_members() -> None:
    member = Counting(safe(), turns=10_000_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await panel(member, exhaustive=True).assess(exchange("x"), context())
    assert (member.asked, member.finished) == (1, 0)


async def test_a_panel_inside_a_panel_counts_its_votes_in_time() -> None:  # G-31
    inner = panel(Always(unsafe("canary")), Sleeps(30), strategy="majority", min_answers=1)
    verdict = await vote_on(panel(inner, strategy="any"), seconds=1.0)
    assert (verdict.label, labels(verdict)) == (Label.UNSAFE, ["unsafe"])


@pytest.mark.parametrize("use", ["vote", "cascade"])
async def test_a_stalled_loop_costs_no_votes_of_a_panel_inside(use: str) -> None:  # G-31
    class Stalls(Sleeps):
        async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
            await asyncio.sleep(0)
            now = asyncio.get_running_loop().time
            end = now() + 0.12  # beyond the limits of both composites
            while now() < end:
                pass
            return await super().assess(exchange, context)

    inner = panel(Always(unsafe("canary")), Stalls(HANGS_S), strategy="majority", min_answers=1)
    outer = (
        panel(inner, strategy="any") if use == "vote" else Cascade.model_validate({"steps": [{"supervisor": inner}]})
    )
    found = await ask("outer", outer, exchange("violet umbrella"), context(seconds=0.1))
    assert (found.verdict.label, labels(found.verdict)) == (Label.UNSAFE, ["unsafe"])


async def test_failures_of_all_members_name_the_gravest_cause() -> None:  # G-27, J-03
    verdict = await vote_on(panel(Fails(TimeoutError()), Fails(ValueError("x")), Always(unknown(Cause.REFUSED))))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.ERROR, "quorum_miss")
    assert (verdict.extras["judges_failed"], verdict.extras["judges_abstained"]) == (2, 1)  # J-04


def test_a_panel_is_as_able_as_its_weakest_member() -> None:
    class InputOnly(Sleeps):
        stages = frozenset({"input"})
        capability = "final"

    mixed = panel(Finds("violet umbrella"), InputOnly(0))
    assert (mixed.local, mixed.capability, mixed.stages) == (False, "final", frozenset({"input"}))
    rules = panel(Finds("violet umbrella"), Finds("cup"))
    assert (rules.local, rules.capability, rules.holdback_chars()) == (True, "incremental", 14)


def nested(depth: int) -> Supervisor:
    return Always() if depth == 0 else panel(nested(depth - 1))


def nested_entry(depth: int) -> object:
    return Always() if depth == 0 else {"use": "vote", "members": {"a": nested_entry(depth - 1)}}


@pytest.mark.parametrize("build", [nested, nested_entry])
def test_panels_nest_four_deep_and_no_deeper(build: Any) -> None:  # G-31
    assert Vote.model_validate({"members": {"a": build(3)}}).local
    with pytest.raises((ValidationError, ValueError), match="nest"):
        Vote.model_validate({"members": {"a": build(4)}})


def test_a_panel_that_contains_itself_is_refused() -> None:  # G-31
    entry: dict[str, Any] = {"use": "vote", "members": {}}
    entry["members"]["a"] = entry
    with pytest.raises(ValidationError, match="may not contain itself"):
        Vote.model_validate(entry)


MISTAKES: Sequence[tuple[dict[str, Any], str]] = [
    ({"members": {}}, "at least 1"),
    ({"strategy": "quorum"}, "needs 'count'"),
    ({"strategy": "quorum", "count": 4}, "count 4 can never be reached by 3"),
    ({"strategy": "quorum", "count": 0}, "greater than or equal to 1"),
    ({"min_answers": 4}, "min_answers 4 is more than the 3"),
    ({"strategy": "weighted", "weights": {"x": 1}}, "weights names x; members are: a, b, c"),
    ({"strategy": "weighted", "weights": {"a": 0}}, "greater than 0"),
    ({"reserve": ["x"]}, "reserve names x"),
    ({"reserve": ["a", "b", "c"]}, "leave at least one"),
    ({"reserve": ["c"], "min_answers": 3}, "more than the 2 member"),
    ({"strategy": "any", "on_tie": "safe"}, "'any' does not read 'on_tie'"),
    ({"strategy": "any", "reserve": ["c"]}, "'any' does not read 'reserve'"),
    ({"weights": {"a": 2}}, "'majority' does not read 'weights'"),
    ({"on_tie": "reserve"}, "needs 'reserve'"),
    ({"hedge_s": 1}, "needs 'start: lazy'"),
    ({"strategie": "any"}, "Extra inputs"),
    ({"strategy": "plurality"}, "Input should be"),
    ({"members": {"a/b": Always()}}, "pattern"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_a_mistake_in_the_options_says_what_would_be_right(options: dict[str, Any], message: str) -> None:
    entry = {"members": {"a": Always(), "b": Always(), "c": Always()}, **options}
    with pytest.raises(ValidationError, match=message):
        Vote.model_validate(entry)


def test_members_without_a_stage_in_common_are_refused() -> None:
    class InputOnly(Sleeps):
        stages = frozenset({"input"})

    class OutputOnly(Sleeps):
        stages = frozenset({"output"})

    with pytest.raises(ValidationError, match="no stage in common"):
        panel(InputOnly(0), OutputOnly(0))


async def test_every_answer_is_stamped_with_the_members_name() -> None:
    verdict = await vote_on(panel(Always(safe()), Always(safe())))
    assert all(isinstance(member, Assessment) for member in verdict.members)
    assert [member.supervisor for member in verdict.members] == ["a", "b"]


def test_a_config_entry_builds_the_whole_tree_and_errors_carry_the_path() -> None:
    judges: dict[str, Any] = {name: {"use": "judge", "model": name} for name in "ab"}
    steps = [{"supervisor": judges["b"]}]
    entry = {"use": "vote", "members": {"a": judges["a"], "b": {"use": "cascade", "steps": steps}}}
    assert isinstance(build_supervisor(entry), Vote)
    del steps[0]["supervisor"]["model"]
    with pytest.raises(ValidationError) as caught:
        Vote.model_validate(entry)
    assert flatten_errors(caught.value) == [("members.b.steps.0.supervisor.model", "this setting is required")]


def test_a_dump_loads_again() -> None:
    vote = Vote.model_validate({"members": {"a": {"use": "judge", "model": "a"}}, "on_tie": "unsafe"})
    assert Vote.model_validate(vote.model_dump(mode="json", exclude_none=True)) == vote


def test_the_author_of_a_panel_is_told_when_its_judges_are_one() -> None:  # J-09
    def judges(*models: str) -> Vote:
        return panel(*[Judge(model=model) for model in models])

    assert advise(judges("one", "other", "third")) == ()
    assert advise(panel(Always(), Always(), Always())) == ()
    assert "members a, c ask the same model 'one'" in advise(judges("one", "other", "one"))[0]
    assert "no second opinion" in advise(judges("one"))[0]


@pytest.mark.parametrize("options", [{}, {"strategy": "all"}, {"strategy": "quorum", "count": 2}])
async def test_an_objection_beside_members_that_are_not_applicable_does_not_pass(options: dict[str, Any]) -> None:
    # G-17, G-24: `unknown/skipped` would pass
    verdict = await vote_on(panel(Always(unsafe("canary")), Always(unknown(Cause.SKIPPED)), **options))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.ABSTAINED)
