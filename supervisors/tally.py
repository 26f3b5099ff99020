"""Count votes: pure strategies over ballots. A missing vote never counts as safe (G-24).

Notation as in the tables of the specification: n ballots, U unsafe, S safe, K unknown, a = U + S answered,
m = `min_answers`, default ⌊n/2⌋ + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, fsum
from typing import Literal

from supervisors.types import Cause, Label, join_causes

OnTie = Literal["unknown", "unsafe", "safe", "score", "reserve"]
_ROUNDING = 1e-12
"""Sums of weights such as 0.1 + 0.2 may miss an inclusive threshold by less than this."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One member's vote.

    Args:
        label: what it said.
        score: risk in 0..1 or None.
        cause: why it is unknown; None counts as abstained.
    """

    label: Label
    score: float | None = None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy makes of the ballots.

    Args:
        label: safe, unsafe or unknown.
        cause: set if and only if unknown.
        detail: ``tie``, ``quorum_miss``, ``pivotal`` or None.
    """

    label: Label
    cause: Cause | None = None
    detail: str | None = None

    @property
    def tied(self) -> bool:
        """Say whether as many members said safe as said unsafe, however it was resolved (G-25)."""
        return self.detail == "tie"


Rule = Callable[[Sequence[Ballot]], Outcome]
_UNSAFE = Outcome(Label.UNSAFE)
_SAFE = Outcome(Label.SAFE)
_TIE = Outcome(Label.UNKNOWN, Cause.ABSTAINED, "tie")


def _count(ballots: Sequence[Ballot], label: Label) -> int:
    return sum([ballot.label is label for ballot in ballots])


def _missing(ballots: Sequence[Ballot], detail: str | None = None) -> Outcome:
    """Return unknown with the gravest cause; with a vote of unsafe it is never ``skipped``, which would pass (G-17)."""
    causes = [_cause(ballot) for ballot in ballots if ballot.label is Label.UNKNOWN]
    if _count(ballots, Label.UNSAFE):
        causes.append(Cause.ABSTAINED)
    return Outcome(Label.UNKNOWN, join_causes(causes or [Cause.SKIPPED]), detail)


def _cause(ballot: Ballot) -> Cause:
    return ballot.cause or Cause.ABSTAINED


def default_min_answers(n: int) -> int:
    """Return ⌊n/2⌋ + 1: more than half of the members have to answer."""
    return n // 2 + 1


def tally_any(ballots: Sequence[Ballot]) -> Outcome:
    """Let one unsafe vote decide; safe only if everybody said safe (deny wins)."""
    if _count(ballots, Label.UNSAFE):
        return _UNSAFE
    return _SAFE if ballots and _count(ballots, Label.SAFE) == len(ballots) else _missing(ballots)


def tally_all(ballots: Sequence[Ballot]) -> Outcome:
    """Call it unsafe only if everybody says so; one safe vote decides."""
    if _count(ballots, Label.SAFE):
        return _SAFE
    return _UNSAFE if ballots and _count(ballots, Label.UNSAFE) == len(ballots) else _missing(ballots)


def tally_majority(ballots: Sequence[Ballot], *, min_answers: int | None = None, on_tie: OnTie = "unknown") -> Outcome:
    """Follow the majority of those who answered, if enough did.

    Args:
        ballots: one a member.
        min_answers: m; None takes ⌊n/2⌋ + 1.
        on_tie: what U = S means; ``reserve`` is unknown here, the caller asks further members.
    """
    unsafe, safe = _count(ballots, Label.UNSAFE), _count(ballots, Label.SAFE)
    if unsafe + safe < max(1, default_min_answers(len(ballots)) if min_answers is None else min_answers):
        return _missing(ballots, "quorum_miss")
    if unsafe == safe:
        return _break_tie(ballots, on_tie)
    return _UNSAFE if unsafe > safe else _SAFE


def _break_tie(ballots: Sequence[Ballot], on_tie: OnTie) -> Outcome:
    match on_tie:
        case "unsafe" | "safe":
            return Outcome(Label(on_tie), detail="tie")
        case "score":
            scores = [ballot.score for ballot in ballots if ballot.label is not Label.UNKNOWN]
            known = [score for score in scores if score is not None]
            if len(known) < len(scores):
                return _TIE
            risky = fsum(known) >= 0.5 * len(known) - _ROUNDING
            return Outcome(Label.UNSAFE if risky else Label.SAFE, detail="tie")
        case "unknown" | "reserve":
            return _TIE


def tally_quorum(
    ballots: Sequence[Ballot],
    *,
    count: int,
    min_score: float | None = None,
    min_answers: int | None = None,
    missing: Literal["count", "ignore"] = "count",
) -> Outcome:
    """Call it unsafe if `count` members do; safe only if the missing votes could not have changed that.

    Args:
        ballots: one a member.
        count: k, 1..n.
        min_score: unsafe votes with a lower score do not count towards k; votes without a score do.
        min_answers: m; None takes ⌊n/2⌋ + 1.
        missing: ``ignore`` scales k to those who answered, ⌈k·a/n⌉, once m of them did.
    """
    votes = sum([_counts_towards(ballot, min_score) for ballot in ballots])
    unanswered = _count(ballots, Label.UNKNOWN)
    answered = len(ballots) - unanswered
    if votes >= count:
        return _UNSAFE
    if answered < max(1, default_min_answers(len(ballots)) if min_answers is None else min_answers):
        return _missing(ballots, "quorum_miss")
    if missing == "ignore":
        return _UNSAFE if votes >= ceil(count * answered / len(ballots)) else _SAFE
    return _SAFE if votes + unanswered < count else _missing(ballots, "pivotal")


def _counts_towards(ballot: Ballot, min_score: float | None) -> bool:
    if ballot.label is not Label.UNSAFE:
        return False
    return min_score is None or ballot.score is None or ballot.score >= min_score


def tally_weighted(
    ballots: Sequence[Ballot],
    *,
    weights: Sequence[float],
    threshold: float = 0.5,
    min_weight: float = 0.5,
    use_scores: bool = False,
) -> Outcome:
    """Compare the weighted share of unsafe votes with a threshold, if enough weight answered.

    Args:
        ballots: one a member.
        weights: one a ballot, each above 0.
        threshold: inclusive, in 0..1.
        min_weight: share of the total weight that has to answer, in 0..1.
        use_scores: weigh scores instead of labels; a vote without a score counts as 1 (unsafe) or 0 (safe).
    """
    cast = [(weight, ballot) for weight, ballot in zip(weights, ballots, strict=True)]
    answered = fsum([weight for weight, ballot in cast if ballot.label is not Label.UNKNOWN])
    if answered <= 0.0 or answered < min_weight * fsum(weights) - _ROUNDING:
        return _missing(ballots, "quorum_miss")
    risk = fsum([weight * _risk(ballot, use_scores=use_scores) for weight, ballot in cast])
    return _UNSAFE if risk >= threshold * answered - _ROUNDING else _SAFE


def _risk(ballot: Ballot, *, use_scores: bool) -> float:
    if use_scores and ballot.label is not Label.UNKNOWN and ballot.score is not None:
        return ballot.score
    return 1.0 if ballot.label is Label.UNSAFE else 0.0


def tally_first_available(ballots: Sequence[Ballot]) -> Outcome:
    """Follow the first member, in order, that knows; if nobody does, take the cause of the last that was asked."""
    for ballot in ballots:
        if ballot.label is not Label.UNKNOWN:
            return Outcome(ballot.label)
    return _missing([ballot for ballot in ballots if _cause(ballot) is not Cause.SKIPPED][-1:])


def settled(rule: Rule, ballots: Sequence[Ballot | None]) -> Outcome | None:
    """Return the outcome if no completion of the outstanding votes can change the label, else None (G-28).

    Three completions stand for all: everybody outstanding says safe, or unsafe, or unknown. They are the extremes of
    every strategy here, because turning a safe vote into an unsafe one never makes a label safer and an unknown vote
    only takes answers away; a test compares this with the enumeration of all completions.

    Args:
        rule: strategy with its options bound.
        ballots: one a member, None while outstanding.
    """
    outcomes = [rule([ballot or Ballot(label) for ballot in ballots]) for label in reversed(Label)]
    if len({outcome.label for outcome in outcomes}) > 1:
        return None
    return outcomes[0]


def agreement(labels: Sequence[Label]) -> float | None:
    """Return the share of pairs of answered votes that agree; None with fewer than two answers (G-32)."""
    pairs = list(combinations([label for label in labels if label is not Label.UNKNOWN], 2))
    return sum([one is other for one, other in pairs]) / len(pairs) if pairs else None
