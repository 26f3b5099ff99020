# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.statistics.curves import (
    Costs,
    Curve,
    Scored,
    auroc,
    average_precision,
    cheapest_point,
    detection_at,
    detection_at_reported_budgets,
    operating_point,
    to_curve,
)


def _curve(labels: str, *scores: float) -> Curve:
    return to_curve([Scored(label == "1", score) for label, score in zip(labels, scores, strict=True)])


_A = _curve("0011", 0.1, 0.4, 0.35, 0.8)
_B = _curve("1110100100", 0.95, 0.90, 0.80, 0.80, 0.70, 0.55, 0.40, 0.40, 0.20, 0.05)
_C = _curve("1101101000", 0.97, 0.91, 0.83, 0.76, 0.68, 0.55, 0.42, 0.33, 0.21, 0.04)


#
@pytest.mark.parametrize(
    ("curve", "area", "precision"), [(_A, 0.75, 0.833333), (_B, 0.84, 0.835), (_C, 0.84, 0.852857)]
)
def test_areas_have_the_printed_digits(curve: Curve, area: float, precision: float) -> None:
    assert auroc(curve) == pytest.approx(area, abs=1e-12)
    assert average_precision(curve) == pytest.approx(precision, abs=1e-6)


def test_ties_are_one_step_of_the_curve() -> None:
    points = [(step.threshold, step.tp / 5, step.fp / 5) for step in _B.steps]
    assert points == [
        (0.95, 0.2, 0.0),
        (0.90, 0.4, 0.0),
        (0.80, 0.6, 0.2),
        (0.70, 0.8, 0.2),
        (0.55, 0.8, 0.4),
        (0.40, 1.0, 0.6),
        (0.20, 1.0, 0.8),
        (0.05, 1.0, 1.0),
    ]


def test_equal_scores_say_nothing_and_one_class_has_no_curve() -> None:
    flat = _curve("1000", 0.5, 0.5, 0.5, 0.5)
    assert (auroc(flat), average_precision(flat), len(flat.steps)) == (0.5, 0.25, 1)
    constant = _curve("11", 0.1, 0.2)
    assert (auroc(constant), average_precision(constant)) == (None, None)


def test_items_without_a_usable_score_are_left_out_and_counted() -> None:
    curve = to_curve([Scored(True, None), Scored(False, math.nan), Scored(True, math.inf), Scored(True, 0.5)])
    assert (curve.unscored, curve.positives, curve.negatives) == (3, 1, 0)


#
@pytest.mark.parametrize(
    ("budget", "threshold", "tp", "fp"),
    [(0, 0.90, 2, 0), (0.1, 0.90, 2, 0), (0.2, 0.70, 4, 1), (0.4, 0.55, 4, 2), (0.6, 0.40, 5, 3), (1, 0.05, 5, 5)],
)
def test_operating_points_have_the_printed_digits(budget: float, threshold: float, tp: int, fp: int) -> None:
    found = operating_point(_B, budget)
    assert (found.threshold, found.detection.k, found.false_positives.k) == (threshold, tp, fp)
    assert not found.flags_nothing


def test_a_budget_the_highest_score_breaks_flags_nothing() -> None:
    found = operating_point(_curve("0101", 0.9, 0.8, 0.7, 0.6), 0.1)
    assert (found.threshold, found.flags_nothing, found.detection.k) == (math.inf, True, 0)


def test_a_guaranteed_budget_is_stricter_than_an_observed_one() -> None:
    curve = to_curve([Scored(i >= 100, i / 400) for i in range(200)])
    assert operating_point(curve, 0.05).false_positives.k == 5
    guaranteed = operating_point(curve, 0.05, guarantee=True)
    assert (guaranteed.false_positives.k, guaranteed.guaranteed) == (1, True)
    assert operating_point(_B, 0.05, guarantee=True).flags_nothing


#
def test_too_few_benign_items_have_no_detection_rate_at_a_budget() -> None:
    few = to_curve([Scored(i % 2 == 0, i / 400) for i in range(398)])
    enough = to_curve([Scored(i % 2 == 0, i / 400) for i in range(400)])
    assert [one.reason for one in detection_at_reported_budgets(few)] == ["too_few_negatives", None, None]
    assert [one.reason for one in detection_at_reported_budgets(enough)] == [None, None, None]
    assert detection_at(_curve("00", 0.1, 0.2), 0.5).reason == "no_positives"
    point = detection_at(_B, 0.2).point
    assert point is not None
    assert point.detection.estimate == 0.8


#
def test_the_cheapest_point_weighs_misses_against_false_alarms() -> None:
    dear_misses = cheapest_point(_B, Costs(miss=100, false_positive=1, prevalence=0.5))
    dear_alarms = cheapest_point(_B, Costs(miss=1, false_positive=100, prevalence=0.5))
    assert dear_misses is not None
    assert dear_alarms is not None
    assert (dear_misses.threshold, dear_alarms.threshold) == (0.40, 0.90)
    tied = cheapest_point(_B, Costs(miss=0, false_positive=0, prevalence=0.5))
    assert tied is not None
    assert tied.flags_nothing
    assert cheapest_point(_curve("1", 0.5), Costs(1, 1, 0.5)) is None


def test_impossible_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        operating_point(_B, 5)
    with pytest.raises(ValueError, match="no benign item"):
        operating_point(_curve("1", 0.5), 0.1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-20, 20)), min_size=1, max_size=40))
def test_the_area_survives_any_monotone_map_and_any_order(items: list[tuple[bool, int]]) -> None:
    plain = to_curve([Scored(harmful, float(score)) for harmful, score in items])
    mapped = to_curve([Scored(harmful, math.exp(score / 7)) for harmful, score in reversed(items)])
    assert auroc(plain) == auroc(mapped)
    assert average_precision(plain) == pytest.approx(average_precision(mapped))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=40))
def test_the_area_is_the_share_of_pairs_in_order(items: list[tuple[bool, int]]) -> None:
    harmful = [score for is_harmful, score in items if is_harmful]
    benign = [score for is_harmful, score in items if not is_harmful]
    found = auroc(to_curve([Scored(is_harmful, float(score)) for is_harmful, score in items]))
    if not harmful or not benign:
        assert found is None
        return
    won = sum([(h > b) + (h == b) / 2 for h in harmful for b in benign])
    assert found == pytest.approx(won / (len(harmful) * len(benign)), abs=1e-12)
