# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from random import Random

import pytest

from evals.statistics.clusters import ClusterSum, sum_by_cluster
from evals.statistics.paired import (
    TOO_FEW_DISCORDANT,
    Pair,
    bonett_price,
    clustered_difference,
    compare_paired,
    flip_rate,
    mcnemar_exact,
    mcnemar_mid_p,
    sign_flip,
)
from evals.statistics.rates import Observation


#
@pytest.mark.parametrize(
    ("b", "c", "exact", "mid"),
    [
        (0, 0, 1, None),
        (0, 5, 0.0625, 0.03125),
        (0, 6, 0.03125, 0.015625),
        (1, 9, 0.021484, 0.011719),
        (2, 10, 0.038574, 0.022461),
        (3, 4, 1, 0.726563),
        (5, 5, 1, 1),
        (10, 25, 0.016674, 0.011331),
        (12, 30, 0.007916, 0.005402),
    ],
)
def test_mcnemar_has_the_printed_digits(b: int, c: int, exact: float, mid: float | None) -> None:
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b) == pytest.approx(exact, abs=1e-6)
    assert mcnemar_mid_p(b, c) == (None if mid is None else pytest.approx(mid, abs=1e-6))


#
@pytest.mark.parametrize(
    ("b", "c", "n", "raw", "d", "se", "lo", "hi"),
    [
        (10, 2, 100, 0.080, 0.078431, 0.035851, 0.008164, 0.148699),
        (25, 10, 200, 0.075, 0.074257, 0.029656, 0.016133, 0.132382),
        (0, 6, 50, -0.120, -0.115385, 0.051986, -0.217275, -0.013494),
        (34, 0, 100, 0.340, 0.333333, 0.048692, 0.237899, 0.428767),
        (0, 3, 100, -0.030, -0.029412, 0.021728, -0.071998, 0.013174),
    ],
)
def test_bonett_price_has_the_printed_digits(  # noqa: PLR0917 - one column each
    b: int, c: int, n: int, raw: float, d: float, se: float, lo: float, hi: float
) -> None:
    found = bonett_price(b, c, n)
    assert (found.raw, found.d, found.se, found.lo, found.hi) == pytest.approx((raw, d, se, lo, hi), abs=1e-6)


#
@pytest.mark.parametrize(("b", "c", "lo", "hi"), [(34, 0, 0.837081, 1.0), (0, 34, -1.0, -0.837081)])
def test_the_interval_of_a_difference_holds_no_impossible_one(b: int, c: int, lo: float, hi: float) -> None:
    found = bonett_price(b, c, 34)
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=1e-6)
    assert max(abs(found.lo), abs(found.hi)) == 1.0
    sign = 1 if b else -1
    few = clustered_difference([ClusterSum(sign * total, 2) for total in (2.0, 2.0, 1.0)])
    assert few is not None
    assert (few.hi if b else few.lo) == sign


#
@pytest.mark.parametrize(
    ("sums", "p"),
    [
        ((2, 0, -1, 3, 1, 0, 2, -1), 0.28125),
        ((1, 1, 1, 1, 1), 0.0625),
        ((1,) * 6, 0.03125),
        ((3, -1, 2, 2, 1, 4), 0.09375),
        ((1,) * 10 + (-1,) * 2, 158 / 4096),
    ],
)
def test_sign_flips_have_the_printed_digits(sums: tuple[int, ...], p: float) -> None:
    assert sign_flip(sums).p == pytest.approx(p, abs=1e-12)
    assert sign_flip(sums).draws is None


def test_sign_flips_equal_mcnemar_for_clusters_of_one() -> None:
    random = Random(3)  # noqa: S311 - made-up data
    for _ in range(20):
        signs = [random.choice((-1, 0, 1)) for _ in range(random.randint(1, 300))]
        expected = mcnemar_exact(signs.count(1), signs.count(-1))
        assert sign_flip(signs).p == pytest.approx(expected, abs=1e-12)


def test_many_large_clusters_are_drawn_and_reproduce() -> None:
    random = Random(11)  # noqa: S311 - made-up data
    sums = [random.choice((-11, -7, -1, 1, 7, 11)) for _ in range(800)]
    first = sign_flip(sums, seed=4)
    assert first.name == "sign_flip_draws"
    assert first.draws == 100_000
    assert first == sign_flip(sums[::-1], seed=4)
    assert 1 / 100_001 <= first.p <= 1


def test_paired_clusters_have_the_printed_digits() -> None:
    totals = (2, 0, -1, 3, 1, 0, 2, -1)
    signed = [(f"c{g}", float(sign)) for g, total in enumerate(totals) for sign in _spread(total)]
    found = clustered_difference(sum_by_cluster(signed))
    assert found is not None
    values = (found.raw, found.se, found.lo, found.hi)
    assert values == pytest.approx((0.15, 0.105221, -0.098808, 0.398808), abs=1e-6)


def _spread(total: int) -> list[int]:
    step = 1 if total > 0 else -1
    return [step] * abs(total) + [0] * (5 - abs(total))


def _pairs(b: int, c: int, n: int) -> list[Pair]:
    wrong = [(True, False)] * b + [(False, True)] * c + [(False, False)] * (n - b - c)
    return [Pair(f"i{i}", one, two) for i, (one, two) in enumerate(wrong)]


def test_a_comparison_carries_test_effect_and_detectable_difference() -> None:
    found = compare_paired(_pairs(10, 2, 100))
    assert found.test is not None
    assert found.difference is not None
    assert (found.b, found.c, found.n, found.test.name) == (10, 2, 100, "mcnemar_exact")
    assert found.difference.lo == pytest.approx(0.008164, abs=1e-6)
    assert found.mde == pytest.approx((7.848880 * 0.12 / 107.848880) ** 0.5, abs=1e-6)
    assert found.notes == ()


def test_five_discordant_items_carry_the_warning() -> None:
    assert compare_paired(_pairs(0, 5, 50)).notes == (TOO_FEW_DISCORDANT,)
    assert compare_paired(_pairs(0, 6, 50)).notes == ()


def test_items_missing_on_a_side_are_dropped_counted_and_bounded() -> None:
    pairs = [*_pairs(2, 0, 8), Pair("x", True, None), Pair("y", None, None)]
    found = compare_paired(pairs)
    assert (found.n, found.planned, found.dropped) == (8, 10, 2)
    assert (found.bound_lo, found.bound_hi) == pytest.approx((0.1, 0.4))


def test_nothing_in_common_is_null() -> None:
    found = compare_paired([Pair("x", None, True)])
    assert (found.test, found.difference, found.mde) == (None, None, None)
    assert compare_paired([]).bound_lo is None


def test_variants_of_one_item_switch_to_the_clustered_test() -> None:
    totals = (2, 0, -1, 3, 1, 0, 2, -1)
    pairs = [Pair(f"c{g}", s > 0, s < 0) for g, total in enumerate(totals) for s in _spread(total)]
    found = compare_paired(pairs)
    assert found.test is not None
    assert (found.test.name, found.clusters, found.mid_p) == ("sign_flip_exact", 8, None)
    assert found.test.p == pytest.approx(0.28125)
    assert compare_paired(pairs[::-1]) == found


def test_a_flip_rate_counts_changed_labels_and_leaves_missing_ones_out() -> None:
    first = [Observation("a", True), Observation("b", False), Observation("c", None, error=True)]
    second = [Observation("a", False), Observation("b", False), Observation("c", True)]
    found = flip_rate(first, second)
    assert (found.k, found.n, found.planned, found.errors) == (1, 2, 3, 1)
    with pytest.raises(ValueError, match="same trials"):
        flip_rate(first, second[:2])


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)
    with pytest.raises(ValueError, match="smaller than the 5"):
        bonett_price(3, 2, 4)
