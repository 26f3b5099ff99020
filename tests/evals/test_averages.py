# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evals.alike import Alike
from evals.averages import describe_averages
from evals.report.averages import average_lines, average_rows
from evals.rows import Row
from tests.evals.test_discrimination import row


def _trials(dataset: str, *, hits: int, misses: int, benign: int = 0, target: str = "m") -> list[Row]:
    """Return harmful items of a set, flagged and not, and benign ones that are not flagged."""
    made = [row(i, harmful=i < hits + misses, score=0.9 if i < hits else 0.1) for i in range(hits + misses + benign)]
    return [
        replace(one, planned=replace(one.planned, dataset=dataset, cluster_id=f"{dataset}#{i}", target=target))
        for i, one in enumerate(made)
    ]


def _average(*trials: list[Row]) -> Any:
    return describe_averages(Alike((one, 1) for group in trials for one in group).by_group(), allowed=False)


def test_the_mean_of_the_sets_and_the_rate_of_all_trials_are_two_numbers() -> None:
    found = _average(_trials("small", hits=1, misses=1, benign=2), _trials("large", hits=10, misses=90, benign=4))
    rate = found["m"]["rates"]["detection_rate"]
    assert rate["macro"]["estimate"] == pytest.approx(0.3)
    assert (rate["micro"]["k"], rate["micro"]["n"]) == (11, 102)
    assert found["m"]["datasets"] == ["small", "large"]
    assert found["m"]["f1"]["n"] == 2


def test_f1_is_not_averaged_where_a_set_has_one_class() -> None:
    found = _average(_trials("mixed", hits=2, misses=1, benign=2), _trials("positive", hits=1, misses=1))["m"]
    assert (found["f1"], found["precision"], found["accuracy"]) == (None, None, None)
    assert found["reason"] == "sets_with_one_class"
    assert "false_positive_rate" not in found["rates"]  # of one set alone


def test_one_set_of_a_target_has_no_average() -> None:
    assert _average(_trials("a", hits=1, misses=1), _trials("b", hits=1, misses=1, target="other")) == {}
    assert average_lines({}) == []


def test_items_seen_in_training_are_left_out_of_averages_as_of_rates() -> None:
    seen = [replace(one, planned=replace(one.planned, contamination="trained_on")) for one in
            _trials("b", hits=5, misses=0)]  # fmt: skip
    groups = Alike((one, 1) for one in [*_trials("a", hits=1, misses=1), *_trials("b", hits=0, misses=2), *seen])
    held: Any = describe_averages(groups.by_group(), allowed=False)
    allowed: Any = describe_averages(groups.by_group(), allowed=True)
    assert held["m"]["rates"]["detection_rate"]["micro"]["n"] == 4
    assert allowed["m"]["rates"]["detection_rate"]["micro"]["n"] == 9


def test_a_report_names_both_averages_with_their_counts() -> None:
    found = _average(_trials("a", hits=1, misses=1, benign=2), _trials("b", hits=2, misses=0, benign=2))
    rows = {one[1]: one for one in average_rows(found)}
    assert rows["detection rate"][2].endswith("of 2 sets")
    assert rows["detection rate"][3].endswith(" 3/4")
    assert rows["F1"][3] == "–"
    assert any("mean of the data sets (macro)" in line for line in average_lines(found))
