from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.published.values import Published
from evals.report.beside import beside_part
from tests.evals.harness import Run, make_options, make_run

GUARD = Published("smoke", "Smoke", "their guard", "recall", 0.9, "a source", "their way")
ALARMS = Published("smoke", "Smoke", "their guard", "fpr", 0.25, "a source", "their way")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs")
    return make_run(path / "run", make_options(path))


def test_published_numbers_stand_beside_ours_of_the_same_kind(run: Run) -> None:
    page = beside_part(run.section, [GUARD, ALARMS])
    assert "their guard" in page
    assert "words@input, here" in page
    assert page.count("policy, here") == 2  # two metrics
    assert "cannot be told apart" in page
    assert "<td>f1</td>" not in page  # nobody published one
    assert "Hold numbers of one source and cohort against each other" in page


def test_a_published_cohort_says_whether_its_best_can_still_be_told_apart(run: Run) -> None:
    same = [Published("smoke", "Smoke", f"g{n}", "recall", 1.0, "a source", "their way", 400) for n in range(6)]
    assert "<td>1.00 (very high)</td>" in beside_part(run.section, same)


def test_a_set_nobody_published_on_has_no_table(run: Run) -> None:
    assert beside_part(run.section, [Published("xstest", "", "g", "fpr", 0.1, "", "")]) == ""


def test_f1_is_that_of_our_counts(run: Run) -> None:
    f1 = Published("smoke", "Smoke", "their guard", "f1", 0.9, "a source", "their way")
    section: Any = run.section
    hits, harmful = section["rates"]["detection_rate"]["k"], section["rates"]["detection_rate"]["n"]
    alarms = section["rates"]["false_positive_rate"]["k"]
    assert f"{2 * hits / (hits + harmful + alarms):.3f} n 10" in beside_part(section, [f1])


def test_a_users_file_is_kept_with_the_run_and_every_report_has_it(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # DS-23, H-182
    board = tmp_path / "board.csv"
    board.write_text("benchmark,model,score,n,direction,unit,source,date\nsmoke,mine,50,,higher,percent,blog,2026\n")
    assert main(["report", str(run.folder.path), "--published", str(board), "--quiet"]) == 0
    first = (run.folder.report / "report.html").read_bytes()
    assert b"score, higher is better" in first
    board.unlink()
    assert main(["report", str(run.folder.path), "--quiet"]) == 0
    assert (run.folder.report / "report.html").read_bytes() == first
    assert json.loads(run.folder.published.read_text())[0]["system"] == "mine"
    assert main(["verify", str(run.folder.path), "--quiet"]) == 0
    board.write_text("benchmark,model,score,n,direction,unit,source,date\nother,mine,50,,higher,percent,blog,2026\n")
    capsys.readouterr()
    assert main(["report", str(run.folder.path), "--published", str(board)]) == 2
    assert "no number of smoke in 1 file, but of other" in capsys.readouterr().err
