from __future__ import annotations

from pathlib import Path
from typing import Any

from evals.folder import RunFolder
from evals.report.against import against_part, keep_against, read_against


def _rate(k: int) -> dict[str, Any]:
    return {"k": k, "n": 4, "planned": 4, "estimate": k / 4, "lo": None, "hi": None}


def _comparison() -> dict[str, Any]:
    change = {"kind": "newly_blocked", "of": "decision", "item_id": "journal/records/000001-<b>", "was": "pass"}
    return {
        "a": "week-recorded",
        "b": "week",
        "matched": 4,
        "differences": [
            {"measure": "flag_rate", "a": _rate(1), "b": _rate(1)},
            {"measure": "block_rate", "a": _rate(1), "b": _rate(2)},
        ],
        "changes": [{**change, "now": "block"}],
    }


def _summary(blocked: str) -> dict[str, Any]:
    return {"results": {"blocked": blocked}}


def test_both_sides_and_every_change_are_shown() -> None:
    part = against_part(_comparison())
    assert "Flagged as recorded" in part
    assert "Blocked by this policy" in part
    assert "1 newly blocked" in part
    assert "journal/records/000001-&lt;b&gt;" in part
    assert "evals compare week-recorded week" in part


def test_no_change_is_said_in_words() -> None:
    assert "No verdict and no decision changed" in against_part({**_comparison(), "changes": []})


def test_a_run_that_was_held_against_nothing_has_no_such_part(tmp_path: Path) -> None:
    assert read_against(RunFolder(tmp_path), _summary("x")) == {}
    assert against_part({}) == ""


def test_a_comparison_is_not_shown_of_a_run_that_has_gone_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    keep_against(folder, {"compared": [_comparison()]}, _summary("x"))
    assert read_against(folder, _summary("x"))["b"] == "week"
    assert read_against(folder, _summary("y")) == {}
