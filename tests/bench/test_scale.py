from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from bench.scale import PHASES, answer, main, measure, output_of, prepare, sizes
from evals.journal import Entry, JournalFile
from evals.plan import read_plan
from evals.session import create, opening
from tests.memory import memory_of

_TRIALS = int(os.environ.get("EVALS_SCALE_TRIALS", "600"))  # noqa: TID251 - opt-in size; see docs/evals.md

_BYTES_A_TRIAL = 400
"""About 30 in a long run, 1,000 and more where rows are kept; in a short run other tests of a process add theirs."""


def test_every_phase_runs_and_the_run_it_leaves_verifies(tmp_path: Path) -> None:
    found = {phase: measure(phase, _TRIALS, tmp_path) for phase in PHASES}
    assert found["plan and first half"]["done"] + found["resume to the end"]["done"] >= _TRIALS
    assert found["score"]["done"] == _TRIALS
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    progress = summary["results"]["progress"]
    assert (progress["planned"], progress["missing"]) == (_TRIALS, 0)
    assert "journal.jsonl" in sizes(tmp_path)


@pytest.mark.slow
def test_memory_hardly_grows_with_the_trials(tmp_path: Path) -> None:
    """Hold the peaks of a run against those of one with four times the trials, of four times the items."""
    few, many = 2_000, 8_000
    peaks: dict[str, list[int]] = {
        phase: [] for phase in ("resume to the end", "score", "summary and report", "verify", "export")
    }
    for trials in (few, many):
        folder = tmp_path / str(trials)
        folder.mkdir()
        _write_run(trials, folder)
        for phase, found in peaks.items():
            found.append(memory_of(partial(PHASES[phase], trials, folder)))
    grown = {phase: round((most - least) / (many - few)) for phase, (least, most) in peaks.items()}
    assert max(grown.values()) <= _BYTES_A_TRIAL, grown
    assert grown["verify"] <= _BYTES_A_TRIAL / 2, grown  # a tuple of every answer takes as much as that again


def _write_run(trials: int, folder: Path) -> None:
    """Write a run with all its trials without making them one after the other."""
    made = create(prepare(trials, folder), folder / "run", ["tests"])
    journal = JournalFile(made.journal)
    journal.append(opening(made, journal, None))
    entries = (Entry("trial", asyncio.run(answer(trial)).fields) for trial in read_plan(made.plan))
    while journal.append(islice(entries, 1000)):
        pass
    journal.close()


def test_one_phase_prints_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trials", "200", "--folder", str(tmp_path), "--phase", "plan and first half"]) == 0
    assert json.loads(capsys.readouterr().out)["peak_mb"] > 0


def test_a_part_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)bench.scale --phase none ended with 2: .*invalid choice: 'none'"):
        output_of(["bench.scale", "--phase", "none"])
