# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from evals.statistics.distributions import binomial_probabilities, t_quantile
from evals.statistics.proportions import (
    Interval,
    clopper_pearson,
    interval_of,
    items_for_half_width,
    items_for_upper_limit,
    upper_limit,
    wilson,
)

# statistics.md §2: k, n, Wilson, Clopper-Pearson, one-sided 95 % upper limit
_TABLE = [
    (0, 1, 0, 0.79345, 0, 0.97500, 0.95000),
    (1, 2, 0.09453, 0.90547, 0.01258, 0.98742, 0.97468),
    (0, 10, 0, 0.27753, 0, 0.30850, 0.25887),
    (5, 10, 0.23659, 0.76341, 0.18709, 0.81291, 0.77756),
    (10, 10, 0.72247, 1, 0.69150, 1, 1),
    (0, 50, 0, 0.07135, 0, 0.07112, 0.05816),
    (5, 50, 0.04348, 0.21360, 0.03328, 0.21814, 0.19883),
    (0, 100, 0, 0.03699, 0, 0.03622, 0.02951),
    (1, 100, 0.00177, 0.05449, 0.00025, 0.05446, 0.04656),
    (2, 100, 0.00550, 0.07001, 0.00243, 0.07038, 0.06162),
    (95, 100, 0.88825, 0.97846, 0.88717, 0.98357, 0.98009),
    (100, 100, 0.96301, 1, 0.96378, 1, 1),
    (0, 313, 0, 0.01212, 0, 0.01172, 0.00953),
    (7, 313, 0.01087, 0.04544, 0.00904, 0.04553, 0.04159),
    (250, 500, 0.45634, 0.54366, 0.45529, 0.54471, 0.53771),
    (3, 1000, 0.00102, 0.00878, 0.00062, 0.00874, 0.00774),
    (278, 328, 0.80466, 0.88242, 0.80401, 0.88469, 0.87929),
    (6, 353, 0.00781, 0.03658, 0.00626, 0.03663, 0.03327),
    (745, 1100, 0.64907, 0.70424, 0.64874, 0.70485, 0.70054),
]


@pytest.mark.parametrize(("k", "n", "w_lo", "w_hi", "c_lo", "c_hi", "upper"), _TABLE)
def test_intervals_have_the_printed_digits(  # noqa: PLR0917 - one parameter a column
    k: int, n: int, w_lo: float, w_hi: float, c_lo: float, c_hi: float, upper: float
) -> None:
    assert (wilson(k, n).lo, wilson(k, n).hi) == pytest.approx((w_lo, w_hi), abs=1e-5)
    assert (clopper_pearson(k, n).lo, clopper_pearson(k, n).hi) == pytest.approx((c_lo, c_hi), abs=1e-5)
    assert upper_limit(k, n) == pytest.approx(upper, abs=1e-5)


def test_the_closed_ends_are_exact() -> None:
    for method in ("wilson", "clopper_pearson"):
        assert interval_of(0, 37, method).lo == 0.0
        assert interval_of(37, 37, method).hi == 1.0


def _t_interval(k: int, n: int) -> Interval:
    """Build the interval that Q-08 forbids, to show why."""
    p = k / n
    half = t_quantile(0.975, n - 1) * math.sqrt(p * (1 - p) / (n - 1))
    return Interval(p - half, p + half)


def _coverage(interval: Callable[[int, int], Interval], n: int, p: float) -> float:
    return sum([chance for k, chance in enumerate(binomial_probabilities(n, p)) if interval(k, n).contains(p)])


#
@pytest.mark.parametrize(
    ("n", "p", "t", "score", "exact"),
    [
        (50, 0.01, 0.395, 0.911, 0.986),
        (50, 0.02, 0.635, 0.922, 0.982),
        (100, 0.01, 0.633, 0.921, 0.982),
        (100, 0.02, 0.866, 0.949, 0.985),
        (100, 0.05, 0.877, 0.966, 0.983),
        (313, 0.01, 0.816, 0.960, 0.986),
        (313, 0.02, 0.946, 0.961, 0.975),
        (313, 0.05, 0.944, 0.950, 0.961),
    ],
)
def test_only_the_t_interval_breaks_its_promise(n: int, p: float, t: float, score: float, exact: float) -> None:
    assert _coverage(_t_interval, n, p) == pytest.approx(t, abs=6e-4)
    assert _coverage(wilson, n, p) == pytest.approx(score, abs=6e-4)
    assert _coverage(clopper_pearson, n, p) == pytest.approx(exact, abs=6e-4)


#
@pytest.mark.parametrize(
    ("limit", "failures", "n"),
    [
        (0.05, 0, 59),
        (0.01, 0, 299),
        (0.005, 0, 598),
        (0.01, 1, 473),
        (0.01, 2, 628),
        (0.01, 3, 773),
        (0.05, 1, 93),
        (0.05, 2, 124),
        (0.05, 3, 153),
    ],
)
def test_items_needed_to_prove_at_most(limit: float, failures: int, n: int) -> None:
    assert items_for_upper_limit(limit, failures) == n
    assert upper_limit(failures, n) <= limit < upper_limit(failures, n - 1)


@pytest.mark.parametrize(
    ("p", "half", "n"), [(0.5, 0.05, 381), (0.5, 0.03, 1064), (0.1, 0.03, 388), (0.05, 0.02, 469), (0.02, 0.01, 792)]
)
def test_items_needed_for_a_half_width(p: float, half: float, n: int) -> None:
    assert items_for_half_width(p, half) == n


#
@pytest.mark.parametrize("method", ["wilson", "clopper_pearson"])
def test_intervals_hold_the_estimate_and_mirror(method: str) -> None:
    interval = wilson if method == "wilson" else clopper_pearson
    for n in range(1, 61):
        for k in range(n + 1):
            one, mirrored = interval(k, n), interval(n - k, n)
            assert 0 <= one.lo <= k / n <= one.hi <= 1
            assert one.lo == pytest.approx(1 - mirrored.hi, abs=1e-12)


def test_clopper_pearson_never_covers_less_than_promised() -> None:
    for n in (7, 20, 60):
        for step in range(1, 40):
            assert _coverage(clopper_pearson, n, step / 40) >= 0.95 - 1e-12


def test_more_items_at_the_same_rate_narrow_the_interval() -> None:
    for interval in (wilson, clopper_pearson):
        widths = [interval(n // 5, n).width for n in range(5, 505, 5)]
        assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(("k", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    for interval in (wilson, clopper_pearson):
        with pytest.raises(ValueError, match="0 <= k <= n"):
            interval(k, n)
    with pytest.raises(ValueError, match="limit in"):
        items_for_upper_limit(0.0)
    with pytest.raises(ValueError, match="half width"):
        items_for_half_width(0.5, 0.7)
