from __future__ import annotations

import math

import pytest

from evals.operating.scores import choose_supervisor
from evals.operating.thresholds import Wanted, flag_at, realise, set_thresholds, split
from evals.statistics.curves import Costs
from supervisors.errors import ConfigError
from tests.evals.operating.made_up import judged, said, scores

QUICK = Wanted((0.05,), draws=50)
CALIBRATION = scores([0.9, 0.8, 0.3], [i / 100 for i in range(40)])
TEST = scores([0.95, 0.2], [0.5, 0.1], dataset="b")


def test_a_threshold_is_set_on_one_side_and_realised_on_the_other() -> None:  # H-159, Q-38
    (point,) = set_thresholds(CALIBRATION, TEST, "s@input", QUICK).points
    assert point.point is not None
    assert point.point.threshold == 0.38
    assert (point.point.false_positives.k, point.point.detection.k) == (2, 2)
    assert point.tested is not None
    assert (point.tested.detection.k, point.tested.detection.n) == (1, 2)
    assert (point.tested.false_positives.k, point.tested.false_positives.n) == (1, 2)


def test_testing_on_the_calibration_items_is_refused() -> None:  # H-159
    with pytest.raises(ConfigError, match=r"items on both sides.*--split"):
        set_thresholds(CALIBRATION, CALIBRATION[:3], "s@input", QUICK)


def test_a_budget_that_the_negatives_cannot_show_has_no_point() -> None:
    found = set_thresholds(CALIBRATION, (), "s@input", Wanted((0.005,), draws=10))
    assert (found.points[0].point, found.points[0].reason) == (None, "too_few_negatives")
    only_harmful = set_thresholds(scores([0.9], []), (), "s@input", QUICK)
    assert only_harmful.points[0].reason == "no_negatives"
    assert only_harmful.auroc is None
    assert "not tested" in only_harmful.notes[0]


def test_the_guarantee_flags_less_than_the_bare_budget() -> None:
    bare, sure = (
        set_thresholds(CALIBRATION, (), "s@input", Wanted((0.2,), guarantee=wanted, draws=10)).points[0].point
        for wanted in (False, True)
    )
    assert bare is not None
    assert sure is not None
    assert sure.threshold > bare.threshold
    assert sure.guaranteed


def test_the_cheapest_point_is_one_more_point() -> None:
    costs = Costs(miss=1, false_positive=1, prevalence=0.5)
    found = set_thresholds(CALIBRATION, (), "s@input", Wanted((0.05,), costs=costs, draws=10))
    assert [point.name for point in found.points] == ["FPR 0.05", "cost"]
    assert found.points[1].point is not None


def test_items_without_a_score_go_by_the_label_and_unknown_ones_by_nothing() -> None:  # statistics §9
    rows = [
        judged(1, "harmful", {"s": said(None, flag=True)}),
        judged(2, "harmful", {"s": said(None)}),
        judged(3, "harmful", {"s": said(0.2)}),
    ]
    assert [flag_at(one, "s@input", 0.5) for one in rows] == [True, None, False]
    made = realise(rows, "s@input", 0.5)
    assert (made.detection.k, made.detection.n, made.detection.unscored, made.decided_by_label) == (1, 2, 1, 1)
    assert realise(rows, "s@input", math.inf).detection.k == 1


def test_a_split_keeps_roots_and_both_labels_apart() -> None:
    left, right = split(CALIBRATION, 0.5, 3)
    assert len(left) + len(right) == len(CALIBRATION)
    assert not {one.cluster for one in left} & {one.cluster for one in right}
    assert all(any(one.harmful for one in side) for side in (left, right))
    assert split(CALIBRATION, 0.5, 3) == (left, right)
    with pytest.raises(ConfigError, match="--split 1"):
        split(CALIBRATION, 1.0, 0)


def test_the_supervisor_is_named_where_several_gave_scores() -> None:
    rows = [judged(1, "harmful", {"s": said(0.9), "t": said(0.1), "u": said(None, flag=True)})]
    with pytest.raises(ConfigError, match="s@input, t@input; name one"):
        choose_supervisor(rows, None)
    assert choose_supervisor(rows, "t") == "t@input"
    with pytest.raises(ConfigError, match="no supervisor u with scores"):
        choose_supervisor(rows, "u")
