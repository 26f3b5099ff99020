"""Strategies over every vote vector, and early exit against the enumeration of all completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.tally import (
    Ballot,
    Outcome,
    Rule,
    agreement,
    settled,
    tally_all,
    tally_any,
    tally_first_available,
    tally_majority,
    tally_quorum,
    tally_weighted,
)
from supervisors.types import Cause, Label

S, U, K = Ballot(Label.SAFE), Ballot(Label.UNSAFE), Ballot(Label.UNKNOWN, cause=Cause.TIMEOUT)
VOTES = (S, U, K)


def weighted_equally(ballots: Sequence[Ballot]) -> Outcome:
    return tally_weighted(ballots, weights=[1.0] * len(ballots))


def weighted_unequally(ballots: Sequence[Ballot]) -> Outcome:
    return tally_weighted(ballots, weights=[2.0**i for i in range(len(ballots))], threshold=0.4, min_weight=0.6)


RULES: dict[str, Rule] = {
    "any": tally_any,
    "all": tally_all,
    "first available": tally_first_available,
    "majority": tally_majority,
    "majority of all": lambda ballots: tally_majority(ballots, min_answers=len(ballots)),
    "majority, one answer is enough": partial(tally_majority, min_answers=1),
    "majority, ties unsafe": partial(tally_majority, on_tie="unsafe"),
    "majority, ties safe": partial(tally_majority, on_tie="safe"),
    "majority, ties by score": partial(tally_majority, on_tie="score"),
    "quorum of one": partial(tally_quorum, count=1),
    "quorum of two": partial(tally_quorum, count=2),
    "quorum of two, risky votes only": partial(tally_quorum, count=2, min_score=0.5),
    "quorum of two, missing ignored": partial(tally_quorum, count=2, missing="ignore"),
    "quorum of three, missing ignored": partial(tally_quorum, count=3, missing="ignore", min_answers=1),
    "weighted": weighted_equally,
    "weighted unequally": weighted_unequally,
}


def completions(votes: Sequence[Ballot | None], choices: Sequence[Ballot]) -> Iterator[list[Ballot]]:
    open_places = [index for index, vote in enumerate(votes) if vote is None]
    for chosen in product(choices, repeat=len(open_places)):
        filled = dict(zip(open_places, chosen, strict=True))
        yield [vote or filled[index] for index, vote in enumerate(votes)]


@pytest.mark.parametrize("name", RULES)
def test_early_exit_is_exactly_the_point_where_no_completion_matters(name: str) -> None:  # G-28, J-06
    rule = RULES[name]
    for n in range(1, 6):
        for votes in product((*VOTES, None), repeat=n):
            labels = {rule(full).label for full in completions(votes, VOTES)}
            outcome = settled(rule, votes)
            assert (outcome is not None) == (len(labels) == 1), votes
            assert outcome is None or labels == {outcome.label}, votes


NEED_EVERYBODY = [name for name in RULES if name.startswith(("any", "majority", "quorum")) and "ignored" not in name]
"""The others follow whoever answered, by definition."""


@pytest.mark.parametrize("name", NEED_EVERYBODY)
def test_an_unknown_vote_never_turns_an_unknown_or_unsafe_outcome_safe(name: str) -> None:  # G-24
    rule = RULES[name]
    for n in range(1, 6):
        for votes in product(VOTES, repeat=n):
            if rule(votes).label is Label.SAFE:
                assert rule([vote if vote is not K else S for vote in votes]).label is Label.SAFE


@pytest.mark.parametrize("name", RULES)
def test_nobody_answering_is_unknown(name: str) -> None:  # G-24
    for n in range(6):
        if n == 0 and name.startswith("quorum"):
            continue
        assert RULES[name]([K] * n).label is Label.UNKNOWN


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("first available", "weighted unequally")])
def test_the_order_of_members_does_not_matter(name: str) -> None:  # H-146, J-06
    for votes in product(VOTES, repeat=4):
        assert len({RULES[name](order) for order in permutations(votes)}) == 1


@pytest.mark.parametrize("name", RULES)
def test_turning_a_safe_vote_unsafe_never_makes_the_label_safe(name: str) -> None:
    for votes in product(VOTES, repeat=4):
        for index in [index for index, vote in enumerate(votes) if vote is S]:
            worse = [*votes[:index], U, *votes[index + 1 :]]
            assert RULES[name](worse).label is not Label.SAFE or RULES[name](votes).label is Label.SAFE


Golden = tuple[Rule, int, tuple[int, int, int], dict[str, int]]
GOLDEN: list[Golden] = [
    (tally_any, 3, (19, 1, 7), {}),
    (tally_all, 3, (1, 19, 7), {}),
    (partial(tally_majority, min_answers=2), 3, (7, 7, 13), {"tie": 6, "quorum_miss": 7}),
    (partial(tally_majority, min_answers=3), 4, (21, 21, 39), {"tie": 6, "quorum_miss": 33}),
    (partial(tally_majority, min_answers=3), 5, (81, 81, 81), {"tie": 30, "quorum_miss": 51}),
    (partial(tally_quorum, count=2, min_answers=2), 3, (7, 7, 13), {"pivotal": 6, "quorum_miss": 7}),
    (partial(tally_quorum, count=2, min_answers=3), 4, (33, 9, 39), {"pivotal": 12, "quorum_miss": 27}),
    (partial(tally_quorum, count=3, min_answers=3), 5, (51, 51, 141), {"pivotal": 90, "quorum_miss": 51}),
]
"""Counts over all 3^n vectors: (unsafe, safe, unknown) and the details of the unknown ones. Source: guarding §6."""


@pytest.mark.parametrize(("rule", "n", "counts", "details"), GOLDEN)
def test_golden_counts(rule: Rule, n: int, counts: tuple[int, int, int], details: dict[str, int]) -> None:  # G-24
    outcomes = [rule(votes) for votes in product(VOTES, repeat=n)]
    found = Counter(outcome.label for outcome in outcomes)
    assert (found[Label.UNSAFE], found[Label.SAFE], found[Label.UNKNOWN]) == counts
    assert Counter(outcome.detail for outcome in outcomes if outcome.detail) == details


@pytest.mark.parametrize(("n", "minimum"), [(3, 2), (4, 3), (5, 3)])
def test_the_default_minimum_is_the_one_of_the_golden_counts(n: int, minimum: int) -> None:
    for votes in product(VOTES, repeat=n):
        assert tally_majority(votes) == tally_majority(votes, min_answers=minimum)
        assert tally_quorum(votes, count=2) == tally_quorum(votes, count=2, min_answers=minimum)


def test_one_unsafe_one_safe_one_timeout_is_a_tie() -> None:  # D-18, J-02
    assert tally_majority([U, S, K]) == Outcome(Label.UNKNOWN, Cause.ABSTAINED, "tie")


def test_sixty_four_vectors_of_four_votes() -> None:  # J-07, H-146
    abstain, error = Ballot(Label.UNKNOWN, cause=Cause.ABSTAINED), Ballot(Label.UNKNOWN, cause=Cause.ERROR)
    outcomes = [tally_majority(votes) for votes in product((U, S, abstain, error), repeat=3)]
    assert Counter(outcome.label for outcome in outcomes) == {Label.UNSAFE: 10, Label.SAFE: 10, Label.UNKNOWN: 44}
    assert Counter(outcome.detail for outcome in outcomes if outcome.detail) == {"tie": 12, "quorum_miss": 32}


def test_nine_of_twenty_seven_vectors_are_decided_after_two_answers() -> None:
    vectors = list(product(VOTES, repeat=3))
    after_two = [votes for votes in vectors if settled(tally_majority, [*votes[:2], None])]
    after_one = [votes for votes in vectors if settled(tally_majority, [votes[0], None, None])]
    assert len(after_two) == 9
    assert all(one is other for one, other, _ in after_two)
    assert after_one == []


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([Cause.ABSTAINED, Cause.ERROR], Cause.ERROR),
        ([Cause.REFUSED, Cause.TIMEOUT], Cause.TIMEOUT),
        ([Cause.SKIPPED, Cause.ABSTAINED], Cause.ABSTAINED),
        ([Cause.OVER_LIMIT, Cause.UNPARSABLE], Cause.UNPARSABLE),
    ],
)
def test_the_cause_of_a_panel_is_the_gravest_of_its_members(causes: list[Cause], expected: Cause) -> None:  # G-27
    missing = [Ballot(Label.UNKNOWN, cause=cause) for cause in causes]
    assert tally_majority([S, *missing]).cause is expected


EVERY_BALLOT = (S, U, *[Ballot(Label.UNKNOWN, cause=cause) for cause in Cause])


@pytest.mark.parametrize("name", RULES)
def test_an_objection_or_a_failure_is_never_only_skipped(name: str) -> None:  # G-17, G-24: skipped passes
    rule = RULES[name]
    for votes in chain.from_iterable(product(EVERY_BALLOT, repeat=n) for n in range(1, 5)):
        heard = any(vote.label is Label.UNSAFE or vote.cause not in (None, Cause.SKIPPED) for vote in votes)
        outcome = rule(votes)
        assert not heard or outcome.cause is not Cause.SKIPPED, votes
        assert (outcome.cause is None) == (outcome.label is not Label.UNKNOWN)


@pytest.mark.parametrize("name", RULES)
def test_a_panel_nobody_of_which_is_applicable_is_skipped(name: str) -> None:  # G-17
    assert RULES[name]([Ballot(Label.UNKNOWN, cause=Cause.SKIPPED)] * 3).cause is Cause.SKIPPED


def test_first_available_takes_the_cause_of_the_last() -> None:
    votes = [Ballot(Label.UNKNOWN, cause=Cause.ERROR), Ballot(Label.UNKNOWN, cause=Cause.REFUSED)]
    assert tally_first_available(votes).cause is Cause.REFUSED
    assert tally_first_available([*votes, U, S]) == Outcome(Label.UNSAFE)


@pytest.mark.parametrize(
    ("scores", "label"),
    [((0.9, 0.1), Label.UNSAFE), ((0.8, 0.1), Label.SAFE), ((0.9, None), Label.UNKNOWN), ((None, None), Label.UNKNOWN)],
)
def test_a_tie_can_be_broken_by_the_mean_score(scores: tuple[float | None, ...], label: Label) -> None:  # G-25
    votes = [Ballot(Label.UNSAFE, scores[0]), Ballot(Label.SAFE, scores[1]), K]
    outcome = tally_majority(votes, on_tie="score")
    assert (outcome.label, outcome.tied) == (label, True)


def test_a_quorum_counts_only_votes_that_are_risky_enough() -> None:
    mild = Ballot(Label.UNSAFE, 0.4)
    assert tally_quorum([mild, U, S], count=2, min_score=0.5).label is Label.SAFE
    assert tally_quorum([mild, U, S], count=2, min_score=0.4).label is Label.UNSAFE
    assert tally_quorum([U, U, S], count=2, min_score=0.9).label is Label.UNSAFE  # without a score a vote counts


def test_ignoring_missing_votes_scales_the_quorum() -> None:  # G-24
    assert tally_quorum([S, S, S, K, K], count=3).detail is None
    assert tally_quorum([U, U, S, K, K], count=3).detail == "pivotal"
    assert tally_quorum([U, U, S, K, K], count=3, missing="ignore").label is Label.UNSAFE  # ⌈3·3/5⌉ = 2
    assert tally_quorum([U, S, S, K, K], count=3, missing="ignore").label is Label.SAFE
    assert tally_quorum([U, K, K, K, K], count=3, missing="ignore").detail == "quorum_miss"


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ([U, S, S], Label.UNSAFE),  # 3 of 6: the threshold is inclusive
        ([S, U, U], Label.UNSAFE),
        ([S, U, S], Label.SAFE),
        ([K, U, S], Label.UNSAFE),  # 2 of 3 answered, half of the weight answered
        ([K, K, U], Label.UNKNOWN),
    ],
)
def test_weights_decide(votes: list[Ballot], label: Label) -> None:
    assert tally_weighted(votes, weights=[3.0, 2.0, 1.0]).label is label


def test_weighted_scores_replace_labels() -> None:
    votes = [Ballot(Label.UNSAFE, 0.6), Ballot(Label.SAFE, 0.3), S]
    assert tally_weighted(votes, weights=[1, 1, 1], use_scores=True).label is Label.SAFE
    assert tally_weighted(votes, weights=[1, 1, 1], use_scores=True, threshold=0.3).label is Label.UNSAFE


def test_rounding_does_not_miss_an_inclusive_threshold() -> None:
    assert tally_weighted([U, U, S, S], weights=[0.1, 0.2, 0.3, 0.0001], threshold=0.5).label is Label.SAFE
    assert tally_weighted([S, S, U], weights=[0.1, 0.2, 0.3], threshold=0.5).label is Label.UNSAFE


scored = st.builds(Ballot, st.sampled_from([Label.SAFE, Label.UNSAFE]), st.none() | st.floats(0, 1)) | st.just(K)


@given(st.lists(st.none() | scored, min_size=1, max_size=4), st.lists(scored, min_size=4, max_size=4), st.data())
def test_early_exit_holds_for_votes_with_scores(
    votes: list[Ballot | None], late: list[Ballot], data: st.DataObject
) -> None:  # G-28
    by_score: Rule = partial(tally_weighted, weights=[1.0, 2.0, 3.0, 4.0][: len(votes)], use_scores=True)
    rules = [*RULES.values(), by_score]
    rule = data.draw(st.sampled_from(rules))
    outcome = settled(rule, votes)
    if outcome is not None:
        assert rule([vote or late[index] for index, vote in enumerate(votes)]).label is outcome.label


def test_agreement_is_the_share_of_answered_pairs() -> None:  # G-32
    labels = [Label.SAFE, Label.SAFE, Label.UNSAFE, Label.UNKNOWN]
    assert agreement(labels) == 1 / 3
    assert agreement([Label.SAFE, Label.UNKNOWN]) is None
