"""Whether scores mean what they say (Q-41)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evals.statistics.curves import Scored
from evals.statistics.rates import Rate, rate

WIDTH_BINS = 10
MASS_BINS = 5
STABLE_ITEMS = 100
"""Below this many items an expected calibration error is flagged ``unstable``."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability diagram: mean score against the share that is harmful."""

    mean_score: float
    harmful: Rate

    @property
    def gap(self) -> float:
        """Return |mean score − share harmful|."""
        return abs(self.mean_score - (self.harmful.estimate or 0.0))


@dataclass(frozen=True, slots=True)
class Calibration:
    """How scores and outcomes fit.

    Args:
        n: items with a finite score.
        unscored: items without one.
        brier: mean squared error of the score, None when scores are no probabilities.
        ece: expected calibration error over 10 bins of equal width.
        ece_equal_mass: the same over 5 bins of equal mass.
        max_gap: largest gap of an equal-width bin.
        bins: non-empty equal-width bins in ascending order.
        flags: ``unstable`` below 100 items.
        reason: ``not_a_probability`` or ``no_scores`` when the numbers are None.
    """

    n: int
    unscored: int
    brier: float | None = None
    ece: float | None = None
    ece_equal_mass: float | None = None
    max_gap: float | None = None
    bins: tuple[Bin, ...] = ()
    flags: tuple[str, ...] = ()
    reason: str | None = None


def calibrate(items: Iterable[Scored]) -> Calibration:
    """Measure calibration; scores outside 0..1 give numbers of None with the reason."""
    listed = list(items)
    usable = sorted([(i.score, i.harmful) for i in listed if i.score is not None and math.isfinite(i.score)])
    unscored = len(listed) - len(usable)
    if not usable:
        return Calibration(0, unscored, reason="no_scores")
    if usable[0][0] < 0 or usable[-1][0] > 1:
        return Calibration(len(usable), unscored, reason="not_a_probability")
    bins = _bins(usable, [_width_bin(score) for score, _ in usable])
    return Calibration(
        n=len(usable),
        unscored=unscored,
        brier=math.fsum([(score - harmful) ** 2 for score, harmful in usable]) / len(usable),
        ece=_expected_error(bins),
        ece_equal_mass=_expected_error(_bins(usable, _mass_bins([score for score, _ in usable]))),
        max_gap=max([one.gap for one in bins]),
        bins=tuple(bins),
        flags=("unstable",) if len(usable) < STABLE_ITEMS else (),
    )


_EDGES = [i / WIDTH_BINS for i in range(WIDTH_BINS)]


def _width_bin(score: float) -> int:
    """Return i with score in [i/10, (i + 1)/10), the last closed; edges are compared, not multiplied out."""
    return bisect_right(_EDGES, score) - 1


def _mass_bins(ascending: Sequence[float]) -> list[int]:
    """Cut ranks into equal parts; equal scores share the bin of their first rank, so that order never matters."""
    first_rank: dict[float, int] = {}
    for rank, score in enumerate(ascending):
        first_rank.setdefault(score, rank)
    return [first_rank[score] * MASS_BINS // len(ascending) for score in ascending]


def _bins(items: Sequence[tuple[float, bool]], indices: Sequence[int]) -> list[Bin]:
    grouped: dict[int, list[tuple[float, bool]]] = {}
    for item, index in zip(items, indices, strict=True):
        grouped.setdefault(index, []).append(item)
    return [_bin(grouped[index]) for index in sorted(grouped)]


def _bin(items: Sequence[tuple[float, bool]]) -> Bin:
    mean = math.fsum([score for score, _ in items]) / len(items)
    return Bin(mean, rate(sum([harmful for _, harmful in items]), len(items)))


def _expected_error(bins: Sequence[Bin]) -> float:
    n = sum([one.harmful.n for one in bins])
    return math.fsum([one.harmful.n * one.gap for one in bins]) / n
