"""Two systems on the same items: exact McNemar, Bonett-Price, and sign flips over clusters (Q-15 to Q-17, Q-20)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from evals.statistics.clusters import ClusterSum, ratio, ratio_variance, t_interval
from evals.statistics.distributions import two_sided_z
from evals.statistics.power import minimum_detectable_difference
from evals.statistics.rates import Observation, Rate, rate_of
from supervisors.light import light_dataclass

TOO_FEW_DISCORDANT = "cannot reach p < .05 whatever the split"
_DRAWS = 100_000
_EXACT_CLUSTERS = 20
_EXACT_WORK = 2_000_000


@light_dataclass(frozen=True, slots=True)
class Pair:
    """One item judged under both systems; None where a side has no label of safe or unsafe.

    Args:
        cluster: id of the root item.
        a_wrong: system A got it wrong (missed a harmful one, flagged a benign one, gave an unsafe answer).
        b_wrong: the same for system B.
    """

    cluster: str
    a_wrong: bool | None
    b_wrong: bool | None


@dataclass(frozen=True, slots=True)
class Difference:
    """An effect with its standard error and interval.

    Args:
        raw: (b − c)/n.
        d: the estimate the interval is centred on.
        se: its standard error.
        lo: lower end, at least -1: a difference of two rates is in -1..1, and so is what an interval may say of it.
        hi: upper end, at most 1.
    """

    raw: float
    d: float
    se: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class PValue:
    """A p value and where it comes from; `draws` is None when it was enumerated exactly."""

    p: float
    name: str
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two systems differ by on the items both have a label for.

    Args:
        n: items in the test.
        planned: items given.
        dropped: items missing on a side: in the bounds, not in the test.
        b: items only A gets wrong.
        c: items only B gets wrong.
        test: the test used; exact McNemar, or sign flips when a cluster has several items.
        mid_p: McNemar mid-p, never the decision; None with clusters or without a discordant item.
        difference: (b − c)/n with its interval; None when nothing is left to compare.
        bound_lo: worst case of the difference over all planned items.
        bound_hi: best case.
        clusters: number of clusters when the comparison is clustered, else None.
        mde: smallest difference this comparison would find with 80 % power; None without a discordant item.
        notes: sentences to print with it.
    """

    n: int
    planned: int
    dropped: int
    b: int
    c: int
    test: PValue | None
    mid_p: float | None
    difference: Difference | None
    bound_lo: float | None
    bound_hi: float | None
    clusters: int | None = None
    mde: float | None = None
    notes: tuple[str, ...] = ()


def mcnemar_exact(b: int, c: int) -> float:
    """Return the two-sided exact p value that b and c discordant items fall like coin tosses.

    Source: McNemar (1947), exact conditional form.
    """
    _check_discordant(b, c)
    total = b + c
    tail = sum([math.comb(total, i) for i in range(min(b, c) + 1)])
    return min(1.0, 2 * tail / (1 << total))


def mcnemar_mid_p(b: int, c: int) -> float | None:
    """Return the mid-p value, None when b + c = 0.

    Source: Fagerland, Lydersen & Laake (2013), BMC Med Res Methodol 13:91.
    """
    _check_discordant(b, c)
    total = b + c
    if total == 0:
        return None
    if b == c:
        return 1.0
    least = min(b, c)
    twice = 2 * sum([math.comb(total, i) for i in range(least)]) + math.comb(total, least)
    return twice / (1 << total)


def _check_discordant(b: int, c: int) -> None:
    if b < 0 or c < 0:
        msg = f"discordant counts must not be negative, got b {b!r}, c {c!r}"
        raise ValueError(msg)


def bonett_price(b: int, c: int, n: int, level: float = 0.95) -> Difference:
    """Return the Bonett-Price interval of the paired difference (b − c)/n.

    Raises:
        ValueError: n is below 1 or below b + c.

    Source: Bonett & Price (2012), J Educ Behav Stat 37(4), 479-488; cut at -1 and 1, which takes no possible
    difference away.
    """
    _check_discordant(b, c)
    if n < max(1, b + c):
        msg = f"n {n!r} is smaller than the {b + c} discordant items or than 1"
        raise ValueError(msg)
    p12, p21 = (b + 1) / (n + 2), (c + 1) / (n + 2)
    d = p12 - p21
    se = math.sqrt((p12 + p21 - d * d) / (n + 2))
    half = two_sided_z(level) * se
    return Difference((b - c) / n, d, se, max(-1.0, d - half), min(1.0, d + half))


def sign_flip(sums: Sequence[int], seed: int = 0) -> PValue:
    """Return the two-sided sign-flip permutation test of the summed differences of clusters.

    Enumerated exactly for up to 20 clusters, and beyond that whenever the distinct sums are few enough to count;
    otherwise from 100,000 draws with p = (hits + 1)/(draws + 1).

    Args:
        sums: D_g, the signed sum of differences of each cluster.
        seed: seed of the draws.
    """
    observed = abs(sum(sums))
    groups = Counter([abs(value) for value in sums if value])
    work = sum(groups.elements()) * max(1, sum(groups.values()))
    if len(sums) <= _EXACT_CLUSTERS or work <= _EXACT_WORK:
        return PValue(_flip_share(groups, observed), "sign_flip_exact")
    random = Random(seed)  # noqa: S311 - a reproducible simulation, not a secret
    magnitudes = sorted(groups.items())  # the order of the clusters must not change the draws
    hits = 0
    for _ in range(_DRAWS):
        drawn = sum([size * (2 * random.getrandbits(count).bit_count() - count) for size, count in magnitudes])
        hits += abs(drawn) >= observed
    return PValue((hits + 1) / (_DRAWS + 1), "sign_flip_draws", _DRAWS)


def _flip_share(groups: Counter[int], observed: int) -> float:
    """Count the sign patterns with |sum| >= observed; clusters of equal size flip together as one binomial."""
    ways: dict[int, int] = {0: 1}
    for size, count in groups.items():
        step: Counter[int] = Counter()
        for total, number in ways.items():
            for positive in range(count + 1):
                step[total + size * (2 * positive - count)] += number * math.comb(count, positive)
        ways = step
    extreme = sum([number for total, number in ways.items() if abs(total) >= observed])
    return extreme / (1 << sum(groups.values()))


def clustered_difference(clusters: Sequence[ClusterSum], level: float = 0.95) -> Difference | None:
    """Return the ratio estimate of the mean difference, its t interval cut at -1 and 1; None for a single cluster."""
    raw, variance = ratio(clusters), ratio_variance(clusters)
    interval = t_interval(raw, variance, len(clusters), level)
    if variance is None or interval is None:
        return None
    return Difference(raw, raw, math.sqrt(variance), max(-1.0, interval.lo), min(1.0, interval.hi))


def compare_paired(pairs: Iterable[Pair], *, level: float = 0.95, seed: int = 0) -> Comparison:
    """Compare two systems item by item; positive differences mean that A is wrong more often.

    Args:
        pairs: one per planned item.
        level: confidence of the interval.
        seed: seed of the permutation draws, used only when the sums are too many to enumerate.
    """
    return compare_counted(((pair, 1) for pair in pairs), level=level, seed=seed)


def compare_counted(pairs: Iterable[tuple[Pair, int]], *, level: float = 0.95, seed: int = 0) -> Comparison:
    """Do what `compare_paired` does of pairs that come with how often they are there."""
    counted = _Counted()
    for pair, times in pairs:
        counted.add(pair, times)
    n, b, c = counted.n, counted.b, counted.c
    clusters = counted.clusters()
    is_clustered = any(cluster.size > 1 for cluster in clusters)
    lo, hi = counted.bounds()
    test, difference = _effect(clusters, (b, c), is_clustered, level, seed) if n else (None, None)
    return Comparison(
        n=n,
        planned=counted.planned,
        dropped=counted.planned - n,
        b=b,
        c=c,
        test=test,
        mid_p=None if is_clustered else mcnemar_mid_p(b, c),
        difference=difference,
        bound_lo=lo,
        bound_hi=hi,
        clusters=len(clusters) if is_clustered else None,
        mde=_detectable(clusters, b, c, n) if n else None,
        notes=(TOO_FEW_DISCORDANT,) if sum([cluster.total != 0 for cluster in clusters]) <= 5 else (),
    )


def _effect(
    clusters: Sequence[ClusterSum], discordant: tuple[int, int], is_clustered: bool, level: float, seed: int
) -> tuple[PValue, Difference | None]:
    b, c = discordant
    if is_clustered:
        test = sign_flip([round(cluster.total) for cluster in clusters], seed)
        return test, clustered_difference(clusters, level)
    return PValue(mcnemar_exact(b, c), "mcnemar_exact"), bonett_price(b, c, len(clusters), level)


class _Counted:
    """Pairs counted by cluster, none of them kept."""

    def __init__(self) -> None:
        self.planned = self.n = self.b = self.c = 0
        self._least = self._most = 0
        self._clusters: dict[str, list[int]] = {}

    def add(self, pair: Pair, times: int) -> None:
        """Count a pair so many times."""
        a, b = pair.a_wrong, pair.b_wrong
        self.planned += times
        self._least += times * (_wrong(a, 0) - _wrong(b, 1))
        self._most += times * (_wrong(a, 1) - _wrong(b, 0))
        if a is None or b is None:
            return
        value = int(a) - int(b)
        self.n += times
        self.b += times * (value > 0)
        self.c += times * (value < 0)
        sums = self._clusters.setdefault(pair.cluster, [0, 0])
        sums[0] += times * value
        sums[1] += times

    def clusters(self) -> Sequence[ClusterSum]:
        """Return the signed sum of each cluster, ordered by content as `sum_by_cluster` does."""
        sums = [ClusterSum(float(total), size) for total, size in self._clusters.values()]
        return sorted(sums, key=lambda cluster: (cluster.size, cluster.total))

    def bounds(self) -> tuple[float | None, float | None]:
        """Return the smallest and largest difference any labels of the missing sides could give (Q-03)."""
        if not self.planned:
            return None, None
        return self._least / self.planned, self._most / self.planned


def _wrong(value: bool | None, if_missing: int) -> int:
    return if_missing if value is None else int(value)


def _detectable(clusters: Sequence[ClusterSum], b: int, c: int, n: int) -> float | None:
    """Return the minimum detectable difference at the discordance seen, n shrunk by the design effect (Q-24)."""
    share = (b + c) / n
    if share == 0:
        return None
    independent = (share - ((b - c) / n) ** 2) / n
    variance = ratio_variance(clusters)
    is_clustered = len(clusters) < n
    deff = variance / independent if is_clustered and variance and independent > 0 else 1.0
    return minimum_detectable_difference(n / max(1.0, deff), share)


def flip_rate(first: Sequence[Observation], second: Sequence[Observation]) -> Rate:
    """Return the share of trials whose label differs between two runs; trials missing in one run are unscored.

    Args:
        first: outcomes of one run.
        second: outcomes of the other, in the same order of trials.

    Raises:
        ValueError: the runs have different lengths or another order of clusters.
    """
    if [one.cluster for one in first] != [one.cluster for one in second]:
        msg = f"the runs do not hold the same trials in the same order ({len(first)} and {len(second)} trials)"
        raise ValueError(msg)
    return rate_of([_flip(one, two) for one, two in zip(first, second, strict=True)])


def _flip(one: Observation, two: Observation) -> Observation:
    if one.hit is None or two.hit is None:
        return Observation(one.cluster, None, error=one.error or two.error)
    return Observation(one.cluster, one.hit != two.hit)
