# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.clusters import ClusterSum
from evals.statistics.rates import clustered_rate, rate
from evals.statistics.unpaired import compare_unpaired, fisher_exact


#
@pytest.mark.parametrize(
    ("counts", "lo", "hi"),
    [
        ((56, 70, 48, 80), 0.05243, 0.33387),
        ((5, 100, 1, 100), -0.01281, 0.10230),
        ((0, 50, 0, 60), -0.06017, 0.07135),
    ],
)
def test_the_interval_of_newcombe_has_the_printed_digits(
    counts: tuple[int, int, int, int], lo: float, hi: float
) -> None:
    found = compare_unpaired(rate(*counts[:2]), rate(*counts[2:]))
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=1e-5)


def test_fisher_has_the_printed_digits_and_agrees_with_scipy() -> None:
    assert fisher_exact(5, 100, 1, 100) == pytest.approx(0.21165, abs=1e-5)
    assert fisher_exact(0, 50, 0, 60) == 1.0
    stats = pytest.importorskip("scipy.stats")
    for k1, n1, k2, n2 in [(3, 10, 9, 12), (40, 200, 61, 190), (0, 5, 5, 5)]:
        expected = float(stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue)
        assert fisher_exact(k1, n1, k2, n2) == pytest.approx(expected, abs=1e-10)


def test_a_comparison_on_different_items_says_unpaired() -> None:
    found = compare_unpaired(rate(5, 100), rate(1, 100))
    assert found.design == "unpaired"
    assert (found.difference, found.lo, found.hi) == pytest.approx((0.04, -0.01281, 0.10230), abs=1e-5)
    assert found.p == pytest.approx(0.21165, abs=1e-5)


def test_clustered_rates_keep_their_intervals_and_lose_fisher() -> None:
    clustered = clustered_rate([ClusterSum(k, 5) for k in (0, 0, 5, 1, 4, 2)])
    found = compare_unpaired(clustered, rate(1, 100))
    plain = compare_unpaired(rate(12, 30), rate(1, 100))
    assert found.p is None
    assert found.lo is not None
    assert plain.lo is not None
    assert found.lo < plain.lo


def test_an_empty_side_or_a_single_cluster_has_no_interval() -> None:
    assert compare_unpaired(rate(0, 0), rate(1, 2)).difference is None
    alone = compare_unpaired(clustered_rate([ClusterSum(1, 2)]), rate(1, 2))
    assert (alone.difference, alone.lo) == (0.0, None)
    assert compare_unpaired(rate(0, 0), rate(1, 2)).mde is None
    with pytest.raises(ValueError, match="both sides"):
        fisher_exact(3, 2, 0, 1)


def test_a_comparison_says_which_difference_it_could_have_found() -> None:
    # 432 items an arm tell .05 from .10; as many items in clusters of five that are alike are worth less.
    found = compare_unpaired(rate(43, 435), rate(22, 435))
    assert found.mde == pytest.approx(0.05, abs=0.001)
    clustered = clustered_rate([ClusterSum(5.0 * (group < 5), 5) for group in range(87)])
    wider = compare_unpaired(rate(43, 435), clustered)
    assert wider.mde is not None
    assert found.mde is not None
    assert wider.mde > 1.2 * found.mde
    assert compare_unpaired(rate(1, 2), rate(1, 2)).mde is None
