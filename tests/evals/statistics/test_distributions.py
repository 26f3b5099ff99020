# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.distributions import (
    beta_quantile,
    binomial_probabilities,
    check_level,
    incomplete_beta,
    normal_quantile,
    t_quantile,
    two_sided_z,
)


def test_the_normal_quantile_has_the_printed_digits() -> None:
    assert two_sided_z(0.95) == pytest.approx(1.959963984540054, abs=1e-13)
    assert normal_quantile(0.5) == 0.0


@pytest.mark.parametrize(
    ("df", "expected"),
    [(1, 12.70620), (5, 2.57058), (7, 2.36462), (10, 2.22814), (30, 2.04227), (59, 2.00100), (99, 1.98422)],
)
def test_t_quantiles_have_the_printed_digits(df: int, expected: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(expected, abs=5.1e-6)


def test_a_beta_quantile_undoes_the_incomplete_beta_function() -> None:
    for a, b in [(0.5, 0.5), (1, 60), (59.5, 0.5), (279, 50), (3000, 7)]:
        for q in (0.025, 0.5, 0.975):
            assert incomplete_beta(a, b, beta_quantile(q, a, b)) == pytest.approx(q, abs=1e-10)


def test_beta_and_t_quantiles_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for a, b in [(1, 1), (5, 46), (278, 51), (746, 356)]:
        for q in (0.025, 0.05, 0.975):
            assert beta_quantile(q, a, b) == pytest.approx(float(stats.beta.ppf(q, a, b)), abs=1e-11)
    for df in (1, 2, 5, 59, 4000):
        assert t_quantile(0.975, df) == pytest.approx(float(stats.t.ppf(0.975, df)), rel=1e-9)


@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 1.0])
def test_binomial_probabilities_sum_to_one(p: float) -> None:
    assert sum(binomial_probabilities(313, p)) == pytest.approx(1.0, abs=1e-11)


def test_impossible_arguments_are_refused_with_what_would_be_right() -> None:
    with pytest.raises(ValueError, match=r"strictly between 0 and 1"):
        check_level(95)
    with pytest.raises(ValueError, match="df >= 1"):
        t_quantile(0.975, 0)
    assert incomplete_beta(2, 2, 0.0) == 0.0
    assert incomplete_beta(2, 2, 1.0) == 1.0
