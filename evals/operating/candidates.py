"""What tuning may choose from: one supervisor at a threshold, several of which one suffices, and banded cascades."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from evals.operating.combine import Decided, p95
from evals.operating.scores import Judged
from evals.operating.thresholds import flag_at
from evals.statistics.curves import operating_point, to_curve

Shape = Literal["threshold", "any", "cascade"]
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How the FPR budget is divided between the first member and the others."""
_MISSES = (0.0, 0.02, 0.05, 0.1)
"""Shares of harmful items that the first step of a cascade may call safe on its own."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a choice must keep.

    Args:
        max_fpr: false positive rate.
        max_p95: seconds, None without limit.
        max_cost: US dollars for a thousand items, None without limit.
    """

    max_fpr: float
    max_p95: float | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to decide.

    Args:
        shape: a threshold on one supervisor; any of two, each at its own; a cascade of which the first step decides
            outside its band and the second inside it.
        members: supervisors with their stage.
        thresholds: of each member; +∞ never flags.
        low: of a cascade's first step: below it nothing more is asked.
    """

    shape: Shape
    members: tuple[str, ...]
    thresholds: tuple[float, ...]
    low: float | None = None

    def decide(self, one: Judged) -> Decided:
        """Return what this way of deciding says of one item, in what time, at what cost."""
        if self.shape == "cascade":
            return self._decide_in_turn(one)
        flags = [flag_at(one, name, t) for name, t in zip(self.members, self.thresholds, strict=True)]
        flag = True if True in flags else None if None in flags else False
        seconds, cost = [_seconds(one, name) for name in self.members], [_cost(one, name) for name in self.members]
        return Decided(flag, _most(seconds), _sum(cost))

    def _decide_in_turn(self, one: Judged) -> Decided:
        first, second = self.members
        score = one.scored(first).score
        if score is not None and math.isfinite(score):
            if score >= self.thresholds[0]:
                return Decided(True, _seconds(one, first), _cost(one, first))
            if self.low is not None and score < self.low:
                return Decided(False, _seconds(one, first), _cost(one, first))
        flag = flag_at(one, second, self.thresholds[1])
        seconds = [_seconds(one, first), _seconds(one, second)]
        return Decided(flag, _sum(seconds), _sum([_cost(one, first), _cost(one, second)]))


def _seconds(one: Judged, name: str) -> float | None:
    said = one.said.get(name)
    return said.seconds if said else None


def _cost(one: Judged, name: str) -> float | None:
    said = one.said.get(name)
    return said.cost if said else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _most(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


@dataclass(frozen=True, slots=True)
class Rated:
    """A candidate and what it does on some items."""

    candidate: Candidate
    detection: float
    false_positives: float
    p95_s: float | None
    cost: float | None


def rate_candidate(candidate: Candidate, judged: Sequence[Judged]) -> Rated:
    """Return what a candidate does on items; an unknown is no detection, and an alarm on a benign item."""
    decided = [candidate.decide(one) for one in judged]
    pairs = list(zip(judged, decided, strict=True))
    hits = sum([each.flag is True for one, each in pairs if one.harmful])
    alarms = sum([each.flag is not False for one, each in pairs if not one.harmful])
    harmful = sum([one.harmful for one in judged])
    benign = len(judged) - harmful
    costs = _sum([each.cost for each in decided])
    return Rated(
        candidate,
        hits / harmful if harmful else 0.0,
        alarms / benign if benign else 1.0,
        p95([each.seconds for each in decided]),
        None if costs is None or not decided else 1000 * costs / len(decided),
    )


def choose_best(judged: Sequence[Judged], names: Sequence[str], budget: Budget) -> Rated | None:
    """Return the candidate with the largest detection rate within the budget, the quicker and simpler one on ties.

    Returns:
        None when nothing keeps the budget and flags anything.
    """
    rated = [rate_candidate(one, judged) for one in propose(judged, names, budget.max_fpr)]
    kept = [one for one in rated if _keeps(one, budget)]
    return max(kept, key=_rank, default=None)


def _keeps(one: Rated, budget: Budget) -> bool:
    slow = budget.max_p95 is not None and (one.p95_s is None or one.p95_s > budget.max_p95)
    dear = budget.max_cost is not None and (one.cost is None or one.cost > budget.max_cost)
    return one.false_positives <= budget.max_fpr and not slow and not dear and one.detection > 0


def _rank(one: Rated) -> tuple[float, float, int]:
    return one.detection, -(one.p95_s if one.p95_s is not None else math.inf), -len(one.candidate.members)


def propose(judged: Sequence[Judged], names: Sequence[str], max_fpr: float) -> Iterator[Candidate]:
    """Yield candidates whose thresholds are set on these items under the budget."""
    points = {name: _points(judged, name, max_fpr) for name in names}
    for name in names:
        yield Candidate("threshold", (name,), (points[name][1.0],))
    for first, second in permutations(names, 2):
        for share in _SHARES[1:-1]:
            thresholds = (points[first][share], points[second][1 - share])
            yield Candidate("any", (first, second), thresholds)
        for share in _SHARES:
            for low in _lows(judged, first):
                high = points[first][share]
                inside = _at_rest(judged, (first, second), high, low, max_fpr) if low < high else math.inf
                if math.isfinite(inside):
                    yield Candidate("cascade", (first, second), (high, inside), low)


def _points(judged: Sequence[Judged], name: str, max_fpr: float) -> Mapping[float, float]:
    """Return the threshold of a supervisor at each share of the budget."""
    curve = to_curve([one.scored(name) for one in judged])
    if curve.negatives == 0:
        return dict.fromkeys(_SHARES, math.inf)
    return {share: operating_point(curve, share * max_fpr).threshold for share in _SHARES}


def _lows(judged: Sequence[Judged], name: str) -> list[float]:
    """Return scores below which few harmful items lie."""
    scores = sorted([score for one in judged if one.harmful and (score := one.scored(name).score) is not None])
    return sorted({scores[int(share * len(scores))] for share in _MISSES}) if scores else []


def _at_rest(judged: Sequence[Judged], pair: tuple[str, str], high: float, low: float, max_fpr: float) -> float:
    """Return the threshold of the second step: what the first step flags has used its part of the budget."""
    first, second = pair
    benign = [one for one in judged if not one.harmful]
    used = sum([_at_least(one, first, high) for one in benign])
    inside = [one for one in judged if not _at_least(one, first, high) and not _below(one, first, low)]
    curve = to_curve([one.scored(second) for one in inside])
    left = max_fpr * len(benign) - used
    if curve.negatives == 0:
        return curve.steps[-1].threshold if left >= 0 and curve.steps else math.inf
    return operating_point(curve, min(1.0, max(0.0, left / curve.negatives))).threshold


def _at_least(one: Judged, name: str, threshold: float) -> bool:
    score = one.scored(name).score
    return score is not None and score >= threshold


def _below(one: Judged, name: str, threshold: float) -> bool:
    score = one.scored(name).score
    return score is not None and score < threshold
