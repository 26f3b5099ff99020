from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main

COUNTS = {
    "strict": {"narrative": [8, 10], "syntactic": [9, 10], "generative": [7, 10], "direct": [9, 10], "benign": [1, 20]},
    "partial": {"narrative": [8, 10], "syntactic": [9, 10], "direct": [9, 10], "benign": [1, 20]},
}


def test_a_score_from_counts_has_both_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # B-09
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(COUNTS), "utf-8")
    assert main(["bells", "score", str(path), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    strict, resampled = found["strict"], found["strict"]["resampled"]
    assert strict["lo"] < strict["score"] < strict["hi"]
    assert (resampled["lo"] < strict["score"] < resampled["hi"], resampled["clusters"]) == (True, 60)
    assert found["partial"]["resampled"] is None
    assert main(["bells", "score", str(path)]) == 0
    assert f"[{resampled['lo']:.3f}, {resampled['hi']:.3f}]" in capsys.readouterr().out


def test_a_supervisor_without_a_score_has_the_reason_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # B-08
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(COUNTS), "utf-8")
    assert main(["bells", "score", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "partial: no score: no judged item of family generative"
    assert not any(line.startswith("strict: no score") for line in said)
