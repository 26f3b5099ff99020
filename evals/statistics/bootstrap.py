"""Intervals by resampling clusters, for what has no formula: composites, curves, agreement (Q-14, Q-42).

The one module of this package that needs numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evals.statistics.curves import Scored

Floats: TypeAlias = npt.NDArray[np.float64]
Statistic: TypeAlias = Callable[[Floats], float]
"""Maps one weight per row (how often its cluster was drawn) to a number, NaN when the draw has none."""

DRAWS = 10_000
Pattern = TypeVar("Pattern", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Row:
    """One trial to resample.

    Args:
        cluster: id of the root item.
        stratum: rows of different strata never replace each other (data set); labels are stratified by `values`.
        values: what the statistic reads; also what orders the rows, so that names change no digit.
    """

    cluster: str
    stratum: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A percentile interval.

    Args:
        lo: lower end, None when no draw had a value.
        hi: upper end.
        sd: standard deviation over draws.
        draws: draws made.
        without_value: draws in which the statistic did not exist.
        clusters: clusters resampled.
    """

    lo: float | None
    hi: float | None
    sd: float | None
    draws: int
    without_value: int
    clusters: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows in canonical order, ready to resample.

    Args:
        values: one row of numbers per trial.
        owner: index of the cluster of each trial.
        strata: indices of the clusters of each stratum.
    """

    values: Floats
    owner: npt.NDArray[np.intp]
    strata: tuple[npt.NDArray[np.intp], ...]

    @property
    def clusters(self) -> int:
        """Count the clusters."""
        return sum([len(stratum) for stratum in self.strata])


def to_sample(rows: Sequence[Row]) -> Sample:
    """Order rows by content, not by name or position, so that the same data gives the same bytes.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        msg = "nothing to resample: give at least one scored trial"
        raise ValueError(msg)
    members: dict[str, list[tuple[str, tuple[float, ...]]]] = {}
    for row in rows:
        members.setdefault(row.cluster, []).append((row.stratum, row.values))
    ordered = sorted([(sorted({name for name, _ in group}), sorted(group)) for group in members.values()])
    owner = [index for index, (_, group) in enumerate(ordered) for _ in group]
    values = [values for _, group in ordered for _, values in group]
    by_stratum: dict[tuple[str, ...], list[int]] = {}
    for index, (names, _) in enumerate(ordered):
        by_stratum.setdefault(tuple(names), []).append(index)
    strata = tuple([np.array(by_stratum[name], dtype=np.intp) for name in sorted(by_stratum)])
    return Sample(np.array(values, dtype=np.float64), np.array(owner, dtype=np.intp), strata)


def bootstrap(sample: Sample, statistic: Statistic, *, seed: int, draws: int = DRAWS, level: float = 0.95) -> Bootstrap:
    """Draw clusters with replacement within their strata, keeping all their trials.

    Args:
        sample: from `to_sample`.
        statistic: reads one weight per row of `sample.values`.
        seed: the run's random seed; the generator is PCG64.
        draws: number of resamples.
        level: confidence of the percentile interval.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    results = np.empty(draws, dtype=np.float64)
    for draw in range(draws):
        drawn = np.zeros(sample.clusters, dtype=np.float64)
        for stratum in sample.strata:
            picked = generator.integers(0, len(stratum), size=len(stratum))
            drawn[stratum] = np.bincount(picked, minlength=len(stratum))
        results[draw] = statistic(drawn[sample.owner])
    return _percentiles(results, sample.clusters, level)


def _percentiles(results: Floats, clusters: int, level: float) -> Bootstrap:
    usable = results[np.isfinite(results)]
    missing = len(results) - len(usable)
    if len(usable) == 0:
        return Bootstrap(None, None, None, len(results), missing, clusters)
    tail = (1 - level) / 2
    lo, hi = np.quantile(usable, [tail, 1 - tail])
    return Bootstrap(float(lo), float(hi), float(usable.std()), len(results), missing, clusters)


def bootstrap_patterns(
    patterns: Mapping[Pattern, int],
    statistic: Callable[[Mapping[Pattern, int]], float | None],
    *,
    seed: int,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Bootstrap:
    """Resample items that fall into few kinds, for agreement: drawing items is drawing how often each kind occurs.

    Args:
        patterns: kind of item (its ratings) → how often it occurs.
        statistic: the number of such counts, None when it does not exist.
        seed: the run's random seed.
        draws: number of resamples.
        level: confidence of the percentile interval.

    Raises:
        ValueError: no items.
    """
    kinds = sorted(patterns, key=repr)
    counts = np.array([patterns[kind] for kind in kinds], dtype=np.float64)
    items = int(counts.sum())
    if items == 0:
        msg = "nothing to resample: give at least one rated item"
        raise ValueError(msg)
    generator = np.random.Generator(np.random.PCG64(seed))
    table = generator.multinomial(items, counts / items, size=draws)
    results = np.empty(draws, dtype=np.float64)
    for draw, row in enumerate(table):
        drawn = {kind: int(count) for kind, count in zip(kinds, row, strict=True) if count}
        value = statistic(drawn)
        results[draw] = np.nan if value is None else value
    return _percentiles(results, items, level)


def score_rows(items: Sequence[tuple[str, Scored]]) -> list[Row]:
    """Return rows of (score, harmful) stratified by label, without the items that have no usable score."""
    return [
        Row(cluster, "harmful" if item.harmful else "benign", (item.score, float(item.harmful)))
        for cluster, item in items
        if item.score is not None and np.isfinite(item.score)
    ]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Weighted counts at each distinct score, from the highest down."""

    harmful: Floats
    benign: Floats


def _stepper(sample: Sample) -> Callable[[Floats], _Steps]:
    scores, harmful = sample.values[:, 0], sample.values[:, 1]
    order = np.argsort(-scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.inf))

    def steps(weights: Floats) -> _Steps:
        sorted_weights, sorted_harmful = weights[order], harmful[order]
        return _Steps(
            np.add.reduceat(sorted_weights * sorted_harmful, starts),
            np.add.reduceat(sorted_weights * (1 - sorted_harmful), starts),
        )

    return steps


def auroc_statistic(sample: Sample) -> Statistic:
    """Return the area under the ROC curve of rows from `score_rows`, ties half."""
    steps = _stepper(sample)

    def statistic(weights: Floats) -> float:
        found = steps(weights)
        pairs = found.harmful.sum() * found.benign.sum()
        above = np.cumsum(found.harmful) - found.harmful / 2
        return float((found.benign * above).sum() / pairs) if pairs else float("nan")

    return statistic


def average_precision_statistic(sample: Sample) -> Statistic:
    """Return the average precision of rows from `score_rows`."""
    steps = _stepper(sample)

    def statistic(weights: Floats) -> float:
        found = steps(weights)
        tp, fp = np.cumsum(found.harmful), np.cumsum(found.benign)
        if tp[-1] == 0 or fp[-1] == 0:
            return float("nan")
        flagged = np.maximum(tp + fp, 1)
        return float((found.harmful / tp[-1] * tp / flagged).sum())

    return statistic


def ece_statistic(sample: Sample) -> Statistic:
    """Return the expected calibration error over ten equal-width bins of rows from `score_rows`."""
    scores, harmful = sample.values[:, 0], sample.values[:, 1]
    bins = np.searchsorted(np.arange(10) / 10, scores, side="right") - 1

    def statistic(weights: Floats) -> float:
        gaps = np.bincount(bins, weights=weights * (scores - harmful), minlength=10)
        return float(np.abs(gaps).sum() / weights.sum())

    return statistic


def threshold_statistic(sample: Sample, budget: float) -> Statistic:
    """Return the operating threshold at an FPR budget of rows from `score_rows`; NaN when nothing may be flagged."""
    steps = _stepper(sample)
    distinct = np.unique(sample.values[:, 0])[::-1]

    def statistic(weights: Floats) -> float:
        found = steps(weights)
        drawn = (found.harmful + found.benign) > 0
        negatives = found.benign.sum()
        if negatives == 0:
            return float("nan")
        kept = drawn & (np.cumsum(found.benign) / negatives <= budget)
        return float(distinct[kept][-1]) if kept.any() else float("nan")

    return statistic
