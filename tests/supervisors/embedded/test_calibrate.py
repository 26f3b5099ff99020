from __future__ import annotations

from math import exp, log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.embedded.calibrate import (
    ThresholdsFile,
    calibration_error,
    find_threshold,
    fit_platt,
    prior_shift,
    read_thresholds,
    sigmoid,
    write_thresholds,
)
from supervisors.errors import ConfigError

TENTHS = [i / 10 for i in range(1, 11)]


@pytest.mark.parametrize(
    ("budget", "z", "flagged"), [("0.2", 0.8, 2), ("0.05", 1.0, 0), ("0.1", 0.9, 1), ("0", 1.0, 0)]
)
def test_the_threshold_has_the_golden_values(budget: str, z: float, flagged: int) -> None:  # LG-17
    found = find_threshold(TENTHS, budget)
    assert (found.z, found.flagged, found.total) == (z, flagged, 10)


@pytest.mark.parametrize(("budget", "flagged"), [("0.05", 67), ("0.02", 26), ("0.01", 13), ("0.002", 2)])
def test_the_budgets_of_the_calibration_set_are_exact(budget: str, flagged: int) -> None:  # LG-17
    assert find_threshold([float(i) for i in range(1342)], budget).flagged == flagged


def test_a_budget_is_not_rounded_through_binary_fractions() -> None:  # LG-17: 0.29 * 100 < 29 in binary
    assert find_threshold([float(i) for i in range(100)], "0.29").flagged == 29


def test_ties_are_not_flagged() -> None:  # LG-17
    assert find_threshold([1.0, 1.0, 1.0, 0.0], "0.5").flagged == 0


@settings(max_examples=60)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=80), st.integers(0, 99))
def test_at_most_the_budgeted_share_is_flagged(logits: list[float], percent: int) -> None:  # LG-17
    found = find_threshold(logits, f"0.{percent:02d}")
    assert found.flagged * 100 <= percent * len(logits)


@pytest.mark.parametrize("budget", ["1", "-0.1", "a lot", "nan", "1/0"])
def test_a_budget_that_makes_no_sense_is_refused(budget: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        find_threshold(TENTHS, budget)


@pytest.mark.parametrize("logits", [[], [1.0, float("nan")], [float("inf")]])
def test_a_threshold_needs_finite_logits(logits: list[float]) -> None:
    with pytest.raises(ConfigError):
        find_threshold(logits, "0.1")


def test_platt_recovers_the_slope_of_logistic_data() -> None:  # LG-16
    logits: list[float] = []
    labels: list[bool] = []
    for step in range(-40, 41):
        z = step / 10
        share = round(1000 / (1 + exp(-(1.5 * z - 0.5))))
        logits += [z] * 1000
        labels += [True] * share + [False] * (1000 - share)
    a, b = fit_platt(logits, labels)
    assert a == pytest.approx(1.5, abs=0.02)
    assert b == pytest.approx(-0.5, abs=0.02)


def test_platt_stays_finite_on_separable_data() -> None:  # LG-16: smoothed targets
    a, b = fit_platt([-2.0, -1.0, 1.0, 2.0], [False, False, True, True])
    assert 0 < a < 5
    assert sigmoid(a * 2 + b) == pytest.approx(0.75, abs=0.06)


def test_calibration_error_is_zero_for_perfect_scores_and_large_for_wrong_ones() -> None:
    assert calibration_error([0.0] * 5 + [1.0] * 5, [False] * 5 + [True] * 5) == 0.0
    assert calibration_error([1.0] * 5, [False] * 5) == 1.0


def test_a_prior_shifts_the_offset_by_the_difference_of_logits() -> None:  # LG-16
    assert prior_shift(0.5, 0.5) == 0.0
    assert prior_shift(0.01, 0.5) == pytest.approx(log(0.01 / 0.99))


def test_a_thresholds_file_survives_the_round_trip(tmp_path: Path) -> None:  # LG-02
    made = ThresholdsFile(
        card="embedded", weights_sha256="0" * 64, calibrated_on="b.txt", texts=9, thresholds={"harm": {"0.01": 1.25}}
    )
    write_thresholds(tmp_path / "t.json", made)
    assert read_thresholds(tmp_path / "t.json") == made


@pytest.mark.parametrize("content", ["", "[]", '{"card": "embedded"}'])
def test_another_json_file_is_refused_as_thresholds(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(ConfigError, match="guard calibrate"):
        read_thresholds(tmp_path / "t.json")
