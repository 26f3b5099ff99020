"""The one form in which a rate exists: with its counts, its interval and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evals.statistics.clusters import Clusters, ClusterSum, describe_clusters
from evals.statistics.distributions import two_sided_z
from evals.statistics.proportions import Interval, Method, interval_of
from supervisors.light import light_dataclass

Decision = Literal["pass", "fail", "inconclusive"]


@light_dataclass(frozen=True, slots=True)
class Observation:
    """One planned trial as a rate sees it.

    Args:
        cluster: id of the root item it derives from.
        hit: whether it counts in the numerator; None when it has no label of safe or unsafe.
        error: it has no label because something broke (error, time-out, overloaded, unparsable), not because a judge
            abstained.
    """

    cluster: str
    hit: bool | None
    error: bool = False

    def __post_init__(self) -> None:
        if self.error and self.hit is not None:
            msg = f"observation of cluster {self.cluster!r} is scored and an error at once"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Rate:
    """k of n scored trials, never without n.

    Args:
        k: trials in the numerator.
        n: scored trials, those with a label of safe or unsafe; unknown ones are in neither k nor n.
        planned: all trials that should have been scored.
        unscored: planned − n.
        errors: those of the unscored where something broke.
        estimate: k/n, None when n is 0.
        lo: lower end of the printed interval, None when there is none.
        hi: upper end.
        method: how the interval was made: ``wilson``, ``clopper_pearson``, with suffix ``_clusters``, or ``none``.
        bound_lo: rate if no unscored trial were a hit; None when nothing was planned.
        bound_hi: rate if every unscored trial were a hit.
        clusters: design effect and t interval when a cluster has several scored trials, else None.
        level: confidence of the interval.
    """

    k: int
    n: int
    planned: int
    unscored: int
    errors: int
    estimate: float | None
    lo: float | None
    hi: float | None
    method: str
    bound_lo: float | None
    bound_hi: float | None
    clusters: Clusters | None = None
    level: float = 0.95

    @property
    def n_eff(self) -> float:
        """Return the number of independent trials the rate is worth."""
        return self.clusters.n_eff if self.clusters else float(self.n)

    @property
    def variance(self) -> float | None:
        """Return the squared standard error: cluster-robust with clusters, else p(1−p)/n; None when undefined."""
        if self.estimate is None:
            return None
        if self.clusters:
            return None if self.clusters.se is None else self.clusters.se**2
        return self.estimate * (1 - self.estimate) / self.n

    def __str__(self) -> str:
        missing = f", {self.unscored} of {self.planned} unscored" if self.unscored else ""
        if self.estimate is None:
            return f"n/a (0 scored{missing})"
        interval = "no interval" if self.lo is None or self.hi is None else f"{self.lo:.5f} – {self.hi:.5f}"
        return f"{self.estimate:.5f} ({self.k}/{self.n}, {self.level:.0%} {interval}{missing})"


@dataclass(frozen=True, slots=True)
class Options:
    """How the interval of a rate is made."""

    method: Method = "wilson"
    level: float = 0.95


_DEFAULT = Options()


def rate(k: int, n: int, *, planned: int | None = None, errors: int = 0, options: Options = _DEFAULT) -> Rate:
    """Return the rate of independent trials.

    Args:
        k: trials in the numerator.
        n: scored trials.
        planned: all trials, default `n`.
        errors: unscored trials where something broke; at most planned − n.
        options: method and level of the interval.

    Raises:
        ValueError: the counts do not satisfy 0 <= k <= n <= planned and 0 <= errors <= planned − n.
    """
    return _build(k, n, _planned(n, planned), errors, options)


def clustered_rate(
    clusters: Sequence[ClusterSum], *, planned: int | None = None, errors: int = 0, options: Options = _DEFAULT
) -> Rate:
    """Return the rate over clusters; with one scored trial each it is the independent one (Q-11).

    Raises:
        ValueError: as `rate`, or totals that are no whole numbers of hits.
    """
    k = sum([round(cluster.total) for cluster in clusters])
    n = sum([cluster.size for cluster in clusters])
    if any(cluster.total != round(cluster.total) for cluster in clusters):
        msg = "a cluster's total is not a whole number of hits"
        raise ValueError(msg)
    if all(cluster.size == 1 for cluster in clusters):
        return _build(k, n, _planned(n, planned), errors, options)
    return _build(k, n, _planned(n, planned), errors, options, describe_clusters(clusters, options.level))


def rate_of(observations: Iterable[Observation], options: Options = _DEFAULT) -> Rate:
    """Return the rate of observations, cluster-aware if and only if a cluster has several scored trials."""
    counted = RateCount()
    for one in observations:
        counted.add(one)
    return counted.rate(options)


def count_rate(observations: Iterable[tuple[Observation, int]], options: Options = _DEFAULT) -> Rate:
    """Return the rate of observations that come with how often they are there."""
    counted = RateCount()
    for one, times in observations:
        counted.add(one, times)
    return counted.rate(options)


class RateCount:
    """Counts observations by cluster, as many as there are, and keeps none of them."""

    def __init__(self) -> None:
        self._clusters: dict[str, list[int]] = {}
        self._planned = 0
        self._errors = 0

    def add(self, one: Observation, times: int = 1) -> None:
        """Count an observation, once or several times."""
        self._planned += times
        self._errors += times * one.error
        if one.hit is not None:
            sums = self._clusters.setdefault(one.cluster, [0, 0])
            sums[0] += times * one.hit
            sums[1] += times

    def rate(self, options: Options = _DEFAULT) -> Rate:
        """Return the rate of what was counted, cluster-aware if and only if a cluster has several scored trials."""
        sums = [ClusterSum(float(hits), size) for hits, size in self._clusters.values()]
        sums.sort(key=lambda cluster: (cluster.size, cluster.total))  # by content, as `sum_by_cluster`
        return clustered_rate(sums, planned=self._planned, errors=self._errors, options=options)


def _planned(n: int, planned: int | None) -> int:
    return n if planned is None else planned


def _build(k: int, n: int, planned: int, errors: int, options: Options, clusters: Clusters | None = None) -> Rate:
    if not (0 <= k <= n <= planned and 0 <= errors <= planned - n):
        msg = (
            f"need 0 <= k <= n <= planned and 0 <= errors <= planned - n, "
            f"got k {k!r}, n {n!r}, planned {planned!r}, errors {errors!r}"
        )
        raise ValueError(msg)
    interval = _interval(k, n, options, clusters)
    return Rate(
        k=k,
        n=n,
        planned=planned,
        unscored=planned - n,
        errors=errors,
        estimate=k / n if n else None,
        lo=interval.lo if interval else None,
        hi=interval.hi if interval else None,
        method=_method_name(options.method, clusters) if interval else "none",
        bound_lo=k / planned if planned else None,
        bound_hi=(k + planned - n) / planned if planned else None,
        clusters=clusters,
        level=options.level,
    )


def _method_name(method: Method, clusters: Clusters | None) -> str:
    return f"{method}_clusters" if clusters else method


def _interval(k: int, n: int, options: Options, clusters: Clusters | None) -> Interval | None:
    if n == 0 or (clusters and clusters.count == 1):
        return None
    if clusters is None:
        return interval_of(k, n, options.method, options.level)
    size = clusters.n_eff
    # k == n keeps its exact closed end: k/n·size could round to just below size.
    return interval_of(size if k == n else k / n * size, size, options.method, options.level)


def decide(estimate: Rate, limit: float, keep: Literal["at_most", "at_least"]) -> Decision:
    """Hold a rate against a limit with its worst-case bounds (Q-04).

    Returns:
        ``inconclusive`` when the unscored trials could tip it, or nothing was planned, whatever the estimate says.
    """
    if estimate.bound_lo is None or estimate.bound_hi is None:
        return "inconclusive"
    if keep == "at_most":
        good, bad = estimate.bound_hi <= limit, estimate.bound_lo > limit
    else:
        good, bad = estimate.bound_lo >= limit, estimate.bound_hi < limit
    if good:
        return "pass"
    return "fail" if bad else "inconclusive"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that says over how many values and what was left out.

    Args:
        estimate: mean of the usable values, None when there is none.
        n: usable values.
        missing: cause → count of values left out.
        lo: lower end of an interval where one is defined.
        hi: upper end.
    """

    estimate: float | None
    n: int
    missing: Mapping[str, int] = field(default_factory=dict[str, int])
    lo: float | None = None
    hi: float | None = None


def mean_of(values: Iterable[object]) -> Mean:
    """Average the finite numbers among `values`; the rest is counted by cause and poisons nothing (Q-06)."""
    usable: list[float] = []
    missing: Counter[str] = Counter()
    for value in values:
        cause = _missing_cause(value)
        if cause is None and isinstance(value, int | float):
            usable.append(float(value))
        elif cause is not None:
            missing[cause] += 1
    estimate = math.fsum(usable) / len(usable) if usable else None
    return Mean(estimate, len(usable), dict(sorted(missing.items())))


def _missing_cause(value: object) -> str | None:
    if value is None:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not_a_number"
    if math.isnan(value):
        return "nan"
    return "infinite" if math.isinf(value) else None


def macro_average(rates: Sequence[Rate], level: float = 0.95) -> Mean:
    """Average rates over data sets with equal weight (Q-07); sets without a scored trial are counted as missing.

    The interval treats the sets as independent strata, each with its effective number of trials and a shrunken share,
    so that sets without a single hit are not taken for certain. That of one set is its own; None when one has none.

    Source: Agresti and Coull, "Approximate is better than exact", The American Statistician 52 (1998): (k + 2)/(n + 4).
    """
    mean = mean_of([one.estimate for one in rates])
    scored = [one for one in rates if one.estimate is not None]
    if mean.estimate is None or any(one.lo is None for one in scored):
        return mean
    if len(scored) == 1:
        return Mean(mean.estimate, 1, mean.missing, scored[0].lo, scored[0].hi)
    half = two_sided_z(level) * math.sqrt(math.fsum([_shrunken_variance(one) for one in scored])) / len(scored)
    lo, hi = max(0.0, mean.estimate - half), min(1.0, mean.estimate + half)
    return Mean(mean.estimate, mean.n, mean.missing, lo, hi)


def _shrunken_variance(one: Rate) -> float:
    n = one.n_eff + 4
    share = ((one.estimate or 0.0) * one.n_eff + 2) / n
    return share * (1 - share) / n
