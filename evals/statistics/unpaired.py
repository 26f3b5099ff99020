"""Two systems on different items: Newcombe's hybrid interval and Fisher's exact test (Q-18)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evals.statistics.power import minimum_detectable_unpaired
from evals.statistics.proportions import Interval
from evals.statistics.rates import Rate


@dataclass(frozen=True, slots=True)
class UnpairedComparison:
    """The difference of two rates on different items; always labelled unpaired.

    Args:
        difference: rate A − rate B, None when one has no scored trial.
        lo: lower end, None when one rate has no interval.
        hi: upper end.
        p: Fisher's exact p, None for clustered rates, for which it would be wrong.
        mde: smallest difference from rate B that so many items find with 80 % power (Q-24); None when no difference
            would be found, or one rate has no scored trial.
        design: the word every report prints.
    """

    difference: float | None
    lo: float | None
    hi: float | None
    p: float | None
    mde: float | None = None
    design: str = "unpaired"


def _newcombe(p1: float, one: Interval, p2: float, two: Interval) -> Interval:
    """Return the hybrid score interval of p1 − p2 from the intervals of both.

    Source: Newcombe (1998), Statistics in Medicine 17, 873-890, method 10.
    """
    d = p1 - p2
    below = math.hypot(p1 - one.lo, two.hi - p2)
    above = math.hypot(one.hi - p1, p2 - two.lo)
    return Interval(d - below, d + above)


def fisher_exact(k1: int, n1: int, k2: int, n2: int) -> float:
    """Return the two-sided p value: all tables at most as likely as the one seen.

    Raises:
        ValueError: not 0 <= k <= n on a side.
    """
    if not (0 <= k1 <= n1 and 0 <= k2 <= n2):
        msg = f"need 0 <= k <= n on both sides, got {k1}/{n1} and {k2}/{n2}"
        raise ValueError(msg)
    hits = k1 + k2
    weights = {k: math.comb(n1, k) * math.comb(n2, hits - k) for k in range(max(0, hits - n2), min(n1, hits) + 1)}
    return sum([weight for weight in weights.values() if weight <= weights[k1]]) / math.comb(n1 + n2, hits)


def compare_unpaired(a: Rate, b: Rate) -> UnpairedComparison:
    """Compare two rates on different items; clustered rates keep their cluster-aware intervals."""
    if a.estimate is None or b.estimate is None:
        return UnpairedComparison(None, None, None, None)
    p = None if a.clusters or b.clusters else fisher_exact(a.k, a.n, b.k, b.n)
    mde = minimum_detectable_unpaired(b.estimate, b.n_eff, a.n_eff)
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return UnpairedComparison(a.estimate - b.estimate, None, None, p, mde)
    interval = _newcombe(a.estimate, Interval(a.lo, a.hi), b.estimate, Interval(b.lo, b.hi))
    return UnpairedComparison(a.estimate - b.estimate, interval.lo, interval.hi, p, mde)
