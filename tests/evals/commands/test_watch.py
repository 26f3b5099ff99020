"""`evals watch`: how far a run is, without its lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.cli import main
from evals.folder import read_json


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished run."""
    folder = tmp_path_factory.mktemp("runs")
    args = ["replay", "smoke", "--target", "fake", "--run-name", "a", "--yes", "--quiet"]
    assert main([*args, "--runs-dir", str(folder)]) == 0
    return folder


def test_a_finished_run_is_shown_with_its_last_state(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-183
    state = read_json(runs / "a" / "progress.json")
    assert (state["planned"], state["done"], state["left_s"]) == (10, 10, 0.0)
    assert main(["watch", "a", "--json", "--runs-dir", str(runs)]) == 0
    watched = json.loads(capsys.readouterr().out)
    assert (watched["last"], watched["progress"]["ok"], watched["live"]) == ("run_end", 10, state)


def test_a_killed_run_is_watched_without_its_lock(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-183
    for name in ("manifest.json", "plan.jsonl", "progress.json"):
        (tmp_path / name).write_bytes((runs / "a" / name).read_bytes())
    lines = (runs / "a" / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[:5]) + lines[5][:20])
    assert main(["watch", str(tmp_path), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "4/10 done, 0 errors, 6 missing; last line: trial" in shown
    assert "10/10" in shown


def test_views_need_time_between_them(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "a", "--every", "0", "--runs-dir", str(runs)]) == 2
    assert "--every is 0, expected a number above 0" in capsys.readouterr().err
