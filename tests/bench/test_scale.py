from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.scale import PHASES, main, measure, sizes

_TRIALS = int(os.environ.get("EVALS_SCALE_TRIALS", "600"))  # noqa: TID251 - opt-in size; see docs/evals.md


def test_every_phase_runs_and_the_run_it_leaves_verifies(tmp_path: Path) -> None:
    found = {phase: measure(phase, _TRIALS, tmp_path) for phase in PHASES}
    assert found["plan and first half"]["done"] + found["resume to the end"]["done"] >= _TRIALS
    assert found["score"]["done"] == _TRIALS
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    progress = summary["results"]["progress"]
    assert (progress["planned"], progress["missing"]) == (_TRIALS, 0)
    assert "journal.jsonl" in sizes(tmp_path)


def test_one_phase_prints_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trials", "200", "--folder", str(tmp_path), "--phase", "plan and first half"]) == 0
    assert json.loads(capsys.readouterr().out)["peak_mb"] > 0
