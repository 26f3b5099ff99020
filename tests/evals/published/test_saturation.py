from __future__ import annotations

import pytest

from evals.published.saturation import saturation, saturation_of
from evals.published.values import Published, of_dataset
from supervisors.errors import DatasetError


@pytest.mark.parametrize(
    ("best", "fifth", "n", "index", "level"),
    [
        (0.992, 0.982, 500, 0.9164, "very high"),
        (0.877, 0.829, 564, 0.8032, "high"),
        (0.893, 0.862, 12_032, 0.6118, "moderate"),
        (0.931, 0.876, 6_511, 0.2436, "low"),
        (0.911, 0.844, 817, 0.5471, "moderate"),
        (0.908, 0.878, 5_694, 0.7003, "high"),
        (0.95, 0.95, 100, 1.0, "very high"),
        (1.0, 0.0, 100, 0.0, "very low"),
    ],
)
def test_published_indices_come_out_whatever_the_order(
    best: float, fifth: float, n: int, index: float, level: str
) -> None:
    found = saturation([fifth, best, fifth, fifth, best, fifth][:5] if best != fifth else [best] * 5, n)
    assert found.fifth == fifth
    assert found.index == pytest.approx(index, abs=5e-5)
    assert found.level == level


def test_too_little_is_refused() -> None:
    for scores, n in (([0.5] * 4, 10), ([0.5] * 5, 0), ([0.5] * 4 + [1.5], 10)):
        with pytest.raises(DatasetError, match="saturation needs five scores"):
            saturation(scores, n)


def _number(value: float, metric: str = "recall", n: int | None = 100) -> Published:
    return Published("xstest", "XSTest", "a", metric, value, "s", "c", n)


def test_only_one_cohort_of_known_size_has_an_index() -> None:
    five = [_number(value) for value in (0.9, 0.8, 0.85, 0.87, 0.7)]
    found = saturation_of(five)
    assert found is not None
    assert str(found) == f"{found.index:.2f} ({found.level})"
    assert saturation_of(five[:4]) is None
    assert saturation_of([*five, _number(0.9, n=None)]) is None
    assert saturation_of([*five, _number(0.9, metric="f1")]) is None
    assert saturation_of([_number(0.1, metric="fpr")] * 5) is None


def test_a_score_of_which_less_is_better_is_turned_before_ranking() -> None:  # DS-23, Q-05
    lower = [_number(value, metric="score, lower is better") for value in (0.9, 0.02, 0.01, 0.03, 0.01, 0.02)]
    found = saturation_of(lower)
    assert found is not None
    assert (found.best, found.fifth) == (0.99, 0.97)
    assert [one.value for one in of_dataset(lower, lower[0].dataset)] == [0.01, 0.01, 0.02, 0.02, 0.03, 0.9]
    assert saturation_of([_number(-0.1, metric="bias")] * 5) is None
