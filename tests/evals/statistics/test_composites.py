# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.clusters import ClusterSum
from evals.statistics.composites import Term, combine_rates, price
from evals.statistics.rates import clustered_rate, rate


def test_a_composite_sums_weighted_variances() -> None:
    found = combine_rates([Term(0.5, rate(80, 100)), Term(-0.5, rate(10, 50))], constant=0.5)
    se = (0.25 * 0.16 / 100 + 0.25 * 0.16 / 50) ** 0.5
    assert (found.estimate, found.se) == pytest.approx((0.8, se), abs=1e-12)
    assert found.hi == pytest.approx(0.8 + 1.959963984540054 * se, abs=1e-12)


def test_a_term_without_trials_leaves_no_composite_and_one_cluster_no_interval() -> None:
    assert combine_rates([Term(1, rate(1, 2)), Term(1, rate(0, 0))]).estimate is None
    alone = combine_rates([Term(1, clustered_rate([ClusterSum(1, 2)]))])
    assert (alone.estimate, alone.se) == (0.5, None)


def test_a_price_of_nothing_gained_is_null() -> None:
    assert price(3, 34) == pytest.approx(0.088235, abs=1e-6)
    assert price(3, 0) is None
