# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from evals.statistics.clusters import ClusterSum, describe_clusters, sum_by_cluster, t_interval
from evals.statistics.distributions import t_quantile
from evals.statistics.power import design_effect
from evals.statistics.rates import clustered_rate, rate

_EQUAL = [ClusterSum(k, 5) for k in (0, 0, 5, 1, 4, 2)]
_UNEQUAL = [ClusterSum(k, m) for k, m in zip((1, 3, 0, 6, 2, 0, 4, 1), (3, 4, 2, 6, 5, 3, 4, 5), strict=True)]


#
def test_equal_clusters_have_the_printed_digits() -> None:
    found, printed = describe_clusters(_EQUAL), clustered_rate(_EQUAL)
    assert printed.estimate == pytest.approx(0.4, abs=1e-12)
    values = (found.se, found.deff, found.n_eff, found.icc, found.t_lo, found.t_hi)
    assert values == pytest.approx((0.171270, 3.666667, 8.18182, 0.566832, -0.04026, 0.84026), abs=1e-5)
    assert (printed.lo, printed.hi) == pytest.approx((0.15320, 0.71070), abs=1e-5)
    assert math.sqrt(0.24 / 30) == pytest.approx(0.089443, abs=1e-6)
    assert found.flags == ("few_clusters",)


def test_unequal_clusters_have_the_printed_digits() -> None:
    found, printed = describe_clusters(_UNEQUAL), clustered_rate(_UNEQUAL)
    assert printed.estimate == pytest.approx(0.53125, abs=1e-12)
    assert (found.se, found.deff) == pytest.approx((0.147095, 2.780392), abs=1e-5)
    assert (found.t_lo, found.t_hi) == pytest.approx((0.18343, 0.87907), abs=1e-5)
    assert (printed.lo, printed.hi) == pytest.approx((0.27367, 0.77319), abs=1e-5)


def test_clusters_of_one_are_independent_up_to_the_small_sample_factor() -> None:
    singles = [ClusterSum(k, 1) for k in (1, 0, 0, 1, 1, 0, 0, 0, 0, 1)]
    found = describe_clusters(singles)
    assert found.se is not None
    assert found.se**2 == pytest.approx(0.4 * 0.6 / 10 * 10 / 9, abs=1e-15)
    assert clustered_rate(singles) == rate(4, 10)


def test_nothing_unsafe_in_sixty_clusters_counts_as_sixty_trials() -> None:
    printed = clustered_rate([ClusterSum(0, 5)] * 60)
    assert printed.lo == 0.0
    assert printed.hi == pytest.approx(0.06017, abs=1e-5)
    assert clustered_rate([ClusterSum(5, 5)] * 60).hi == 1.0


def test_a_single_cluster_has_no_interval() -> None:
    alone = clustered_rate([ClusterSum(2, 5)])
    assert (alone.estimate, alone.lo, alone.hi, alone.method) == (0.4, None, None, "none")
    assert alone.clusters is not None
    assert alone.clusters.flags == ("few_clusters", "one_cluster")
    assert alone.clusters.se is None


def test_ten_clusters_are_not_flagged() -> None:
    assert describe_clusters([ClusterSum(i % 3, 2 + i % 2) for i in range(10)]).flags == ()


def test_the_exact_bootstrap_has_the_printed_digits() -> None:
    means = np.array([sum(drawn) / 30 for drawn in itertools.product((0, 0, 5, 1, 4, 2), repeat=6)])
    assert len(means) == 46_656
    assert means.mean() == pytest.approx(0.4, abs=1e-12)
    assert means.std() == pytest.approx(0.156347, abs=1e-6)
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([0.1, 0.7], abs=1e-12)
    assert np.mean(means == 0) == pytest.approx(0.0013717, abs=1e-7)


def test_design_effect_has_the_printed_digits() -> None:
    assert design_effect(5, 0.8) == pytest.approx(4.2)
    assert math.sqrt(design_effect(5, 0.8)) == pytest.approx(2.04939, abs=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "independent", "robust"),
    [(0.4, 1.6, (0.785, 0.815), (0.93, 0.965)), (0.1, 0.4, (0.665, 0.715), (0.93, 0.965))],
)
def test_only_the_clustered_interval_covers_the_truth(
    a: float, b: float, independent: tuple[float, float], robust: tuple[float, float]
) -> None:
    generator = np.random.Generator(np.random.PCG64(7))
    hits = generator.binomial(5, generator.beta(a, b, size=(4000, 60)))
    p = hits.mean(axis=1) / 5
    plain = 1.959963984540054 * np.sqrt(p * (1 - p) / 300)
    spread = 60 / 59 * ((hits - 5 * p[:, None]) ** 2).sum(axis=1) / 300**2
    clustered = t_quantile(0.975, 59) * np.sqrt(spread)
    truth = a / (a + b)
    assert independent[0] < np.mean(np.abs(p - truth) <= plain) < independent[1]
    assert robust[0] < np.mean(np.abs(p - truth) <= clustered) < robust[1]


def test_sums_are_ordered_by_content_and_refuse_nonsense() -> None:
    assert sum_by_cluster([("b", 1), ("a", 0), ("b", 1)]) == (ClusterSum(0, 1), ClusterSum(2, 2))
    assert t_interval(0.5, None, 1) is None
    with pytest.raises(ValueError, match="at least one scored trial"):
        ClusterSum(0, 0)
    with pytest.raises(ValueError, match=r"outside 0\.\.2"):
        describe_clusters([ClusterSum(3, 2)])
    with pytest.raises(ValueError, match="no cluster"):
        describe_clusters([])
