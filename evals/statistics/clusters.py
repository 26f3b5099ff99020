"""Rates over clusters: everything derived from one root item moves together (Q-11 to Q-13).

A cluster is a root item with its transforms, translations, repeats, slot fillings or matched twin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evals.statistics.distributions import t_quantile
from evals.statistics.proportions import Interval

FEW_CLUSTERS = 10
"""Below this many clusters the interval itself is shaky and is flagged."""


@dataclass(frozen=True, slots=True)
class ClusterSum:
    """What one cluster adds: a sum of outcomes (hits, or signed differences) over `size` scored trials."""

    total: float
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            msg = f"a cluster needs at least one scored trial, got size {self.size!r}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Clusters:
    """How clustering widens a rate; stored beside every clustered rate.

    Args:
        count: clusters with a scored trial.
        se: cluster-robust standard error, None for a single cluster.
        deff: design effect, variance over that of independent trials; None when that one is 0.
        n_eff: scored trials divided by max(1, deff).
        icc: intra-cluster correlation by analysis of variance, None when undefined.
        t_lo: lower end of the t interval, which may leave 0..1.
        t_hi: upper end of the t interval.
        flags: ``few_clusters``, ``one_cluster``.
    """

    count: int
    se: float | None
    deff: float | None
    n_eff: float
    icc: float | None
    t_lo: float | None
    t_hi: float | None
    flags: tuple[str, ...] = ()


def ratio(clusters: Sequence[ClusterSum]) -> float:
    """Return Σ totals / Σ sizes."""
    return math.fsum([cluster.total for cluster in clusters]) / sum([cluster.size for cluster in clusters])


def ratio_variance(clusters: Sequence[ClusterSum]) -> float | None:
    """Return the linearised variance of the ratio estimator, None for fewer than two clusters."""
    count = len(clusters)
    if count < 2:
        return None
    p = ratio(clusters)
    n = sum([cluster.size for cluster in clusters])
    squares = math.fsum([(cluster.total - p * cluster.size) ** 2 for cluster in clusters])
    return count / (count - 1) * squares / (n * n)


def t_interval(estimate: float, variance: float | None, count: int, level: float = 0.95) -> Interval | None:
    """Return estimate ± t(count − 1)·√variance, None without a variance."""
    if variance is None:
        return None
    half = t_quantile(0.5 + level / 2, count - 1) * math.sqrt(variance)
    return Interval(estimate - half, estimate + half)


def describe_clusters(clusters: Sequence[ClusterSum], level: float = 0.95) -> Clusters:
    """Measure how much the clustering of 0/1 outcomes widens their rate.

    Raises:
        ValueError: no cluster, or a total outside 0..size.

    Source: ratio estimator with Taylor linearisation, Cochran (1977), Sampling Techniques, §6.3 and §9A.
    """
    if not clusters:
        msg = "no cluster with a scored trial"
        raise ValueError(msg)
    for cluster in clusters:
        if not 0 <= cluster.total <= cluster.size:
            msg = f"hits {cluster.total!r} are outside 0..{cluster.size}"
            raise ValueError(msg)
    p, variance = ratio(clusters), ratio_variance(clusters)
    n = sum([cluster.size for cluster in clusters])
    independent = p * (1 - p) / n
    deff = variance / independent if variance is not None and independent > 0 else None
    interval = t_interval(p, variance, len(clusters), level)
    return Clusters(
        count=len(clusters),
        se=None if variance is None else math.sqrt(variance),
        deff=deff,
        n_eff=float(len(clusters)) if independent == 0 else n / max(1.0, deff or 1.0),
        icc=intra_cluster_correlation(clusters),
        t_lo=interval.lo if interval else None,
        t_hi=interval.hi if interval else None,
        flags=_flags(len(clusters)),
    )


def _flags(count: int) -> tuple[str, ...]:
    if count == 1:
        return ("few_clusters", "one_cluster")
    return ("few_clusters",) if count < FEW_CLUSTERS else ()


def intra_cluster_correlation(clusters: Sequence[ClusterSum]) -> float | None:
    """Return ρ of 0/1 outcomes by one-way analysis of variance, None when it is undefined.

    Source: Donner & Klar (2000), Design and Analysis of Cluster Randomization Trials, §1.
    """
    count = len(clusters)
    n = sum([cluster.size for cluster in clusters])
    if count < 2 or n == count:
        return None
    p = ratio(clusters)
    shares = [(cluster.total / cluster.size, cluster.size) for cluster in clusters]
    between = math.fsum([m * (share - p) ** 2 for share, m in shares]) / (count - 1)
    within = math.fsum([m * share * (1 - share) for share, m in shares]) / (n - count)
    typical_size = (n - math.fsum([m * m for _, m in shares]) / n) / (count - 1)
    spread = between + (typical_size - 1) * within
    return (between - within) / spread if spread > 0 else None


def sum_by_cluster(outcomes: Iterable[tuple[str, float]]) -> tuple[ClusterSum, ...]:
    """Collect (cluster id, outcome) pairs of scored trials into one sum per cluster.

    The result is ordered by content, not by name, so that renaming clusters or permuting trials changes no digit.
    """
    collected: dict[str, list[float]] = {}
    for cluster, outcome in outcomes:
        collected.setdefault(cluster, []).append(outcome)
    sums = [ClusterSum(math.fsum(values), len(values)) for values in collected.values()]
    return tuple(sorted(sums, key=lambda cluster: (cluster.size, cluster.total)))
