# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.calibration import calibrate
from evals.statistics.curves import Scored

_LABELS = "1101101000"
_SCORES = (0.97, 0.91, 0.83, 0.76, 0.68, 0.55, 0.42, 0.33, 0.21, 0.04)
_ITEMS = [Scored(label == "1", score) for label, score in zip(_LABELS, _SCORES, strict=True)]


#
def test_calibration_has_the_printed_digits() -> None:
    found = calibrate(_ITEMS)
    values = (found.brier, found.ece, found.max_gap, found.ece_equal_mass)
    assert values == pytest.approx((0.165140, 0.322, 0.83, 0.144), abs=1e-9)
    assert found.flags == ("unstable",)
    assert sum([one.harmful.n for one in found.bins]) == 10
    assert all(one.harmful.lo is not None for one in found.bins)


def test_bin_edges_belong_to_the_upper_bin_and_the_last_is_closed() -> None:
    bins = calibrate([Scored(True, 0.3), Scored(True, 0.7), Scored(False, 1.0), Scored(True, 0.9)]).bins
    assert [one.harmful.n for one in bins] == [1, 1, 2]


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    found = calibrate([Scored(True, 3.2), Scored(False, 0.1)])
    assert (found.ece, found.brier, found.reason) == (None, None, "not_a_probability")
    assert calibrate([Scored(True, None)]).reason == "no_scores"
    assert calibrate([Scored(True, None)]).unscored == 1


def test_calibration_ignores_order_but_not_a_monotone_map() -> None:
    assert calibrate(_ITEMS[::-1]) == calibrate(_ITEMS)
    squashed = [Scored(item.harmful, (item.score or 0) / 2) for item in _ITEMS]
    assert calibrate(squashed).ece != calibrate(_ITEMS).ece


def test_equal_scores_are_never_split_over_equal_mass_bins() -> None:
    flat = [Scored(i < 5, 0.5) for i in range(10)]
    assert calibrate(flat).ece_equal_mass == calibrate(flat[::-1]).ece_equal_mass == 0.0


def test_a_hundred_items_are_stable() -> None:
    assert calibrate([Scored(i % 2 == 0, 0.5) for i in range(100)]).flags == ()
