"""Curves, grids and flows of a summary; the vector is B of the statistics' specification (§9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evals.discrimination import MAX_STEPS, Efforts, describe_curves, describe_flow, describe_grid, ecdf, mean_of, thin
from evals.ledger import Entry
from evals.plan import PlannedTrial
from evals.rows import Row, Rows, to_outcome
from evals.statistics.curves import Scored, to_curve

TRUTHS = (1, 1, 1, 0, 1, 0, 0, 1, 0, 0)
SCORES = (0.95, 0.90, 0.80, 0.80, 0.70, 0.55, 0.40, 0.40, 0.20, 0.05)


def row(index: int, *, harmful: bool, score: float | None, family: str | None = None) -> Row:
    """Return a trial that one supervisor gave a score to."""
    planned = PlannedTrial(
        trial_key=str(index), dataset="toy", item_id=f"toy/{index}", cluster_id=f"toy#{index}",
        truth="harmful" if harmful else "benign", severity="harmful" if harmful else "benign",
        adversariality="jailbroken" if family else "direct", family=family, source=None, published_at=None,
        category=("colours",), transform="none", repeat=0, target="m", arm="check", guard="g", composition="plain-1",
        prompt_sha256="0", chars=1, contamination="clean",
    )  # fmt: skip
    flagged = score is not None and score >= 0.5
    verdict = {
        "supervisor": "words", "stage": "input", "label": "unsafe" if flagged else "safe", "cause": None,
        "score": score, "seconds": 0.01 * (index + 1), "cost": 0.001, "cached": False,
    }  # fmt: skip
    line: dict[str, Any] = {"status": "ok", "flagged": flagged, "verdicts": [verdict]}
    return Row(planned, line, None, None)


def _efforts(rows: Sequence[Row]) -> Any:
    efforts = Efforts()
    for one in rows:
        efforts.take(one)
    return efforts.describe()


def to_rows(rows: Sequence[Row]) -> Rows:
    """Return rows as a run has them."""
    return Rows([one.planned for one in rows], lambda place: rows[place])


def scored_rows() -> list[Row]:
    """Return vector B as trials."""
    return [row(i, harmful=bool(y), score=s) for i, (y, s) in enumerate(zip(TRUTHS, SCORES, strict=True))]


def test_the_curve_of_the_summary_has_the_areas_of_the_vector_with_intervals() -> None:
    body: Any = describe_curves(scored_rows(), seed=1)["words@input"]
    assert body["auroc"]["estimate"] == pytest.approx(0.84, abs=1e-9)
    assert body["average_precision"]["estimate"] == pytest.approx(0.835, abs=1e-5)
    assert body["auroc"]["lo"] < 0.84 < body["auroc"]["hi"]
    ece = body["ece_interval"]
    assert ece["estimate"] == body["calibration"]["ece"]
    assert (ece["lo"] < ece["hi"], ece["clusters"]) == (True, 10)
    assert (body["positives"], body["negatives"], body["unscored"]) == (5, 5, 0)
    assert [budget["reason"] for budget in body["budgets"]] == ["too_few_negatives"] * 3


def test_the_same_trials_give_the_same_bytes_in_any_order() -> None:  # §11, H-182
    rows = scored_rows()
    assert describe_curves(rows, seed=1) == describe_curves(rows[::-1], seed=1)


def test_scores_that_are_missing_are_counted_and_not_drawn() -> None:
    body: Any = describe_curves([*scored_rows(), row(11, harmful=True, score=None)], seed=1)["words@input"]
    assert (body["positives"], body["unscored"]) == (5, 1)
    assert describe_curves([row(1, harmful=True, score=None)], seed=1) == {}


def test_the_score_of_an_undecided_verdict_is_not_drawn_as_for_thresholds() -> None:
    undecided = row(11, harmful=True, score=0.1)
    verdict: Any = undecided.fields["verdicts"]
    verdict[0] |= {"label": "unknown", "cause": "timeout"}
    body: Any = describe_curves([*scored_rows(), undecided], seed=1)["words@input"]
    assert (body["positives"], body["unscored"]) == (5, 1)
    assert body["auroc"]["estimate"] == pytest.approx(0.84, abs=1e-9)
    assert describe_curves([undecided], seed=1) == {}


def test_scores_that_are_no_probabilities_have_no_calibration_error_and_no_interval_of_it() -> None:
    body: Any = describe_curves([row(i, harmful=i < 2, score=3.0 * i) for i in range(4)], seed=1)["words@input"]
    assert (body["calibration"]["reason"], body["ece_interval"]) == ("not_a_probability", None)
    one_class: Any = describe_curves([row(i, harmful=True, score=i / 9) for i in range(9)], seed=1)["words@input"]
    assert one_class["ece_interval"]["lo"] <= one_class["calibration"]["ece"] <= one_class["ece_interval"]["hi"]


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    curve = to_curve([Scored(i % 2 == 0, i / 5000) for i in range(5000)])
    kept = thin(curve)
    assert len(kept) <= MAX_STEPS + 1
    assert (kept[0], kept[-1]) == (curve.steps[0], curve.steps[-1])
    assert thin(to_curve([Scored(True, 0.5)])) == to_curve([Scored(True, 0.5)]).steps


def test_the_grid_holds_detection_by_category_and_family() -> None:  # H-180
    rows = [row(0, harmful=True, score=0.9), row(1, harmful=True, score=0.1, family="narrative"),
            row(2, harmful=False, score=0.9)]  # fmt: skip
    grid: Any = describe_grid([to_outcome(one) for one in rows])
    assert {family: (rate["k"], rate["n"]) for family, rate in grid["colours"].items()} == {
        "direct": (1, 1),
        "narrative": (0, 1),
    }


def test_the_flow_counts_every_trial_once() -> None:  # H-154
    entries = [
        Entry("1", "1", "harmful", "unsafe", "blocked", "input"),
        Entry("2", "2", "harmful", "unsafe", "passed"),
        Entry("3", "3", "benign", "safe", "passed"),
        Entry("4", "4", "benign", "safe", "passed"),
    ]
    flow: Any = describe_flow(entries)
    assert [(way["truth"], way["end"], way["count"]) for way in flow] == [
        ("benign", "complied_safe", 2), ("harmful", "blocked_input", 1), ("harmful", "complied_unsafe", 1),
    ]  # fmt: skip


def test_times_and_costs_are_those_of_the_verdicts_that_have_them() -> None:  # H-128
    effort: Any = _efforts(scored_rows())["words@input"]
    assert (effort["timed"], effort["median_s"], effort["p95_s"]) == (10, 0.055, 0.1)
    assert effort["cost_usd"] == pytest.approx(0.01)
    assert (effort["mean_s"], effort["mean_half_width_s"]) == (0.055, pytest.approx(0.021659, abs=1e-6))


def test_a_mean_has_the_interval_of_students_t_and_one_alone_has_none() -> None:  # BO-07
    assert mean_of([]) == (None, None)
    assert mean_of([0.2]) == (0.2, None)
    mean, half = mean_of([0.1, 0.2, 0.3])
    assert mean == pytest.approx(0.2)
    assert half == pytest.approx(4.302653 * 0.1 / 3**0.5, abs=1e-6)


def test_an_ecdf_begins_with_the_smallest_and_ends_with_all() -> None:
    assert ecdf([]) == []
    points: Any = ecdf([float(i) for i in range(200)])
    assert points[0] == [0.0, 0.005]
    assert points[-1] == [199.0, 1.0]
    assert len(points) <= 50
