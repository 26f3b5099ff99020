"""Scores that are weighted sums of independent rates (Q-43), and prices (Q-45)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evals.statistics.distributions import two_sided_z
from evals.statistics.rates import Rate


@dataclass(frozen=True, slots=True)
class Term:
    """One weighted rate of a composite; the weight may be negative."""

    weight: float
    rate: Rate


@dataclass(frozen=True, slots=True)
class Composite:
    """A weighted sum of independent rates; all None when a term has no scored trial.

    Args:
        estimate: constant + Σ weight·rate.
        se: delta-method standard error.
        lo: lower end of the normal interval.
        hi: upper end.
    """

    estimate: float | None
    se: float | None
    lo: float | None
    hi: float | None


def combine_rates(terms: Sequence[Term], constant: float = 0.0, level: float = 0.95) -> Composite:
    """Return the composite of rates over disjoint items."""
    estimates = [(term.weight, term.rate.estimate, term.rate.variance) for term in terms]
    if any(estimate is None for _, estimate, _ in estimates):
        return Composite(None, None, None, None)
    value = constant + math.fsum([weight * (estimate or 0.0) for weight, estimate, _ in estimates])
    if any(variance is None for _, _, variance in estimates):
        return Composite(value, None, None, None)
    se = math.sqrt(math.fsum([weight**2 * (variance or 0.0) for weight, _, variance in estimates]))
    half = two_sided_z(level) * se
    return Composite(value, se, value - half, value + half)


def price(cost: float, gained: int) -> float | None:
    """Return the cost of one prevented unsafe answer, None if none was prevented."""
    return cost / gained if gained > 0 else None
