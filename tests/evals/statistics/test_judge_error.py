# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json

import pytest

from evals.statistics.clusters import ClusterSum
from evals.statistics.jsonable import to_json
from evals.statistics.judge_error import CorrectedRate, JudgeCalibration, correct_rate
from evals.statistics.rates import clustered_rate, rate


def _correct(hits: tuple[int, int], sensitive: tuple[int, int], specific: tuple[int, int]) -> CorrectedRate:
    calibration = JudgeCalibration(*sensitive, *specific, "humans", "0" * 64, "1" * 64)
    return correct_rate(rate(*hits), calibration)


#
@pytest.mark.parametrize(
    ("found", "estimate", "se", "delta", "interval"),
    [
        (_correct((100, 500), (90, 100), (85, 100)), 0.066667, 0.050503, (-0.03232, 0.16565), (0, 0.15491)),
        (_correct((350, 1000), (190, 200), (276, 300)), 0.310345, 0.022022, (0.26718, 0.35351), (0.26591, 0.35342)),
    ],
)
def test_corrected_rates_have_the_printed_digits(
    found: CorrectedRate, estimate: float, se: float, delta: tuple[float, float], interval: tuple[float, float]
) -> None:
    assert (found.estimate, found.delta_se) == pytest.approx((estimate, se), abs=1e-6)
    assert (found.delta_lo, found.delta_hi) == pytest.approx(delta, abs=1e-5)
    assert (found.lo, found.hi) == pytest.approx(interval, abs=1e-5)
    assert found.flags == ()


def test_the_parts_of_lang_and_reiczigel_have_the_printed_digits() -> None:
    found = _correct((100, 500), (90, 100), (85, 100))
    assert (found.adjusted, found.shift) == pytest.approx((0.061777, -0.008899), abs=1e-6)


def test_a_clipped_estimate_is_flagged() -> None:
    nothing = _correct((0, 300), (90, 100), (95, 100))
    assert (nothing.estimate, nothing.lo, nothing.hi, nothing.flags) == (0.0, 0.0, 0.0, ("boundary",))
    below = _correct((50, 500), (90, 100), (85, 100))
    assert (below.estimate, below.flags) == (0.0, ("boundary",))
    assert below.raw == pytest.approx(-0.066667, abs=1e-6)


def test_a_judge_no_better_than_chance_is_refused_and_the_raw_rate_kept() -> None:
    found = _correct((30, 100), (50, 100), (50, 100))
    assert (found.estimate, found.reason, found.observed.estimate) == (None, "judge_no_better_than_chance", 0.3)
    assert _correct((0, 0), (9, 10), (9, 10)).reason == "no_observations"
    assert _correct((1, 2), (0, 0), (9, 10)).reason == "no_calibration"
    json.dumps(to_json(found), allow_nan=False)


def test_a_perfect_judge_changes_nothing() -> None:
    found = _correct((30, 100), (100, 100), (100, 100))
    assert found.estimate == found.observed.estimate


def test_a_small_calibration_set_is_flagged() -> None:
    assert _correct((30, 100), (28, 29), (95, 100)).flags == ("weak_calibration",)


def test_clusters_widen_the_corrected_interval() -> None:
    calibration = JudgeCalibration(95, 100, 95, 100, "humans", "0" * 64, "1" * 64)
    clustered = correct_rate(clustered_rate([ClusterSum(k, 5) for k in (0, 5, 0, 5, 5, 1) * 10]), calibration)
    independent = correct_rate(rate(160, 300), calibration)
    assert clustered.delta_se is not None
    assert independent.delta_se is not None
    assert clustered.delta_se > independent.delta_se


def test_more_right_calls_than_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="at most the rows judged"):
        JudgeCalibration(11, 10, 1, 1, "humans", "0" * 64, "1" * 64)
