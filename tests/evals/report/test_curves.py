from __future__ import annotations

import re

from evals.discrimination import describe_curves
from evals.report.curves import draw_precision, draw_reliability, draw_roc
from evals.statistics.jsonable import Json
from tests.evals.test_discrimination import scored_rows

CURVES: dict[str, Json] = dict(describe_curves(scored_rows(), seed=1))


def test_a_roc_curve_has_one_row_a_threshold_and_says_its_area_with_n() -> None:  # Q-36, H-180
    figure = draw_roc("roc", "ROC", CURVES)
    assert figure is not None
    assert [row[2:4] for row in figure.rows] == [
        ("0.200000", "0.000000"), ("0.400000", "0.000000"), ("0.600000", "0.200000"), ("0.800000", "0.200000"),
        ("0.800000", "0.400000"), ("1.000000", "0.600000"), ("1.000000", "0.800000"), ("1.000000", "1.000000"),
    ]  # fmt: skip
    assert "AUROC 0.840" in figure.body
    assert "n=5+5" in figure.body


def test_precision_and_recall_follow_the_same_thresholds() -> None:
    figure = draw_precision("pr", "PR", CURVES)
    assert figure is not None
    assert figure.rows[0][2:4] == ("0.200000", "1.000000")
    assert figure.rows[-1][2:4] == ("1.000000", "0.500000")
    assert "AP 0.835" in figure.body


def test_reliability_bins_say_their_counts() -> None:
    body = CURVES["words@input"]
    assert isinstance(body, dict)
    figure = draw_reliability("rel", "Reliability", body)
    assert figure is not None
    assert sum(int(row[5]) for row in figure.rows) == 10
    assert "unstable below 100 items" in figure.description
    assert re.search(r"ECE 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", figure.description)


def test_without_both_classes_there_is_no_curve() -> None:
    harmful_only = dict(describe_curves([row for row in scored_rows() if row.truth == "harmful"], seed=1))
    assert draw_roc("roc", "ROC", harmful_only) is None
    assert draw_precision("pr", "PR", harmful_only) is None
