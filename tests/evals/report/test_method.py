from __future__ import annotations

import pytest

from evals.journal import JsonObject
from evals.manifest import read_manifest
from evals.report.method import method
from tests.evals.harness import Run, make_options, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs")
    return make_run(path / "run", make_options(path, ledger="paired", target="fake?errors=0.5", max_retries=0))


def _said(run: Run, **changes: object) -> str:
    results: JsonObject = {**run.summary["results"], **changes}  # type: ignore[dict-item] # JSON
    return method({**run.summary, "results": results}, read_manifest(run.folder))


def test_the_method_names_intervals_clusters_flips_and_multiplicity(run: Run) -> None:  # H-181
    said = _said(run)
    assert "95 % Wilson intervals" in said
    assert "The unit is the root item" in said
    assert "No correction for multiple comparisons" in said
    assert f"Flip rate of smoke × {run.section['target']}, two direct calls each: " in said
    assert "No panel judged them." in said


def test_the_method_says_what_was_not_done_and_why(run: Run) -> None:  # H-181
    said = _said(run)
    errors = run.summary["results"]["progress"]["errors"]  # type: ignore[index, call-overload] # JSON
    assert errors
    assert f"{errors} errors" in said
    assert f"Without a verdict on smoke × {run.section['target']}: " in said
    assert "(error " in said


def test_the_method_names_the_quorum_of_a_panel(run: Run) -> None:  # H-181, H-148
    panel: JsonObject = {"kind": "panel", "judges": {"a": {}, "b": {}, "c": {}}}
    judge: JsonObject = {"kind": "judge", "judges": {"a": {}}}
    said = _said(run, scorer="p", scorers={"p": panel})
    assert "a panel of a, b, c: a strict majority of at least two valid votes" in said
    assert "one judge: a. There is no quorum." in _said(run, scorer="p", scorers={"p": judge})
    assert "No answer was scored." in _said(run, scorer=None, scorers={})


def test_a_run_without_repeats_says_that_flips_were_not_measured(run: Run) -> None:  # H-181, Q-47
    section = {**run.section, "flips": None}
    assert "The flip rate was not measured" in _said(run, sections=[section])
