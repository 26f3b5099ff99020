# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math

import pytest

from evals.statistics.detection import (
    Confusion,
    describe,
    precision_at,
    signal_detection,
    soft_detection,
)


#
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((278, 6, 347, 50), (0.847561, 0.016997, 0.978873, 0.908497, 0.915282, 0.841672)),
        ((45, 5, 95, 5), (0.9, 0.05, 0.9, 0.9, 0.925, 0.85)),
        ((90, 40, 60, 10), (0.9, 0.4, 0.692308, 0.782609, 0.75, 0.524142)),
    ],
)
def test_detection_has_the_printed_digits(cells: tuple[int, int, int, int], expected: tuple[float, ...]) -> None:
    found = describe(Confusion(*cells))
    rates = (found.detection_rate.estimate, found.false_positive_rate.estimate)
    values = (*rates, found.precision, found.f1, found.balanced_accuracy, found.mcc)
    assert values == pytest.approx(expected, abs=1e-6)
    assert found.j == pytest.approx(expected[0] - expected[1], abs=1e-6)
    assert found.reasons == {}


def test_unknown_verdicts_are_in_the_bounds_of_their_own_class_only() -> None:
    found = describe(Confusion(tp=4, fn=86, tn=10, unknown_harmful=7, errors_harmful=3, unknown_benign=1))
    assert (found.detection_rate.n, found.detection_rate.planned, found.detection_rate.errors) == (90, 100, 3)
    assert found.detection_rate.bound_hi == pytest.approx(0.14)
    assert found.false_positive_rate.planned == 11


#
def test_a_set_without_benign_items_has_a_detection_rate_and_reasons() -> None:
    found = describe(Confusion(tp=3, fn=1))
    assert found.detection_rate.estimate == 0.75
    assert (found.false_positive_rate.estimate, found.precision, found.f1, found.accuracy) == (None,) * 4
    assert (found.mcc, found.d_prime, found.j) == (None, None, None)
    missing = ("false_positive_rate", "precision", "f1", "accuracy", "mcc", "auroc")
    assert [found.reasons[name] for name in missing] == ["no_negatives"] * 6
    assert "detection_rate" not in found.reasons


def test_a_set_without_harmful_items_has_a_false_positive_rate_and_reasons() -> None:
    found = describe(Confusion(fp=1, tn=3))
    assert (found.false_positive_rate.estimate, found.detection_rate.estimate) == (0.25, None)
    assert found.reasons["detection_rate"] == found.reasons["auroc"] == "no_positives"


def test_ratios_of_nothing_are_null_with_a_reason() -> None:
    silent = describe(Confusion(tn=5, fn=5))
    assert (silent.precision, silent.mcc, silent.f1) == (None, None, 0.0)
    assert silent.reasons == {"precision": "nothing_flagged", "mcc": "nothing_flagged"}
    assert describe(Confusion(tp=5, fp=5)).reasons == {"mcc": "everything_flagged"}
    assert describe(Confusion(tn=5)).f1 is None
    assert describe(Confusion()).reasons["detection_rate"] == "no_negatives"


#
def test_precision_at_a_prevalence_has_the_printed_digits() -> None:
    found = describe(Confusion(278, 6, 347, 50)).precision_at
    assert list(found) == ["0.5", "0.01", "0.001"]
    assert list(found.values()) == pytest.approx([0.98034, 0.33497, 0.04754], abs=1e-5)
    assert precision_at(0.95, 0.05, 0.01) == pytest.approx(0.16102, abs=1e-5)
    assert precision_at(0.0, 0.0, 0.5) is None
    assert precision_at(None, 0.1, 0.5) is None
    with pytest.raises(ValueError, match="prevalence"):
        precision_at(0.9, 0.1, 50)


#
@pytest.mark.parametrize(
    ("cells", "d_prime", "criterion"),
    [((278, 6, 347, 50), 3.11038, 0.53364), ((45, 5, 95, 5), 2.84119, 0.18251), ((10, 0, 10, 0), 3.38124, 0)],
)
def test_signal_detection_has_the_printed_digits(
    cells: tuple[int, int, int, int], d_prime: float, criterion: float
) -> None:
    found = signal_detection(Confusion(*cells))
    assert (found.d_prime, found.criterion) == pytest.approx((d_prime, criterion), abs=1e-5)
    assert math.isfinite(found.d_prime)


#
def test_uncertain_truth_is_scored_softly_beside_its_ceiling() -> None:
    found = soft_detection([(1.0, True), (0.6, True), (0.4, False), (0.0, False)])
    assert (found.detection_rate, found.false_positive_rate) == pytest.approx((0.8, 0.2))
    assert (found.accuracy, found.ceiling) == pytest.approx((0.8, 0.8))
    assert soft_detection([(1.0, True)]).false_positive_rate is None
    assert soft_detection([]).accuracy is None
    with pytest.raises(ValueError, match="vote share"):
        soft_detection([(1.2, True)])


def test_counts_of_two_runs_add_up_to_the_counts_of_one() -> None:
    one, two = Confusion(1, 2, 3, 4, 5, 6, 7, 8), Confusion(10, 20, 30, 40, 50, 60, 70, 80)
    assert one + two == Confusion(11, 22, 33, 44, 55, 66, 77, 88)
