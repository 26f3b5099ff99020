"""Kill a run at random points and resume it: nothing is lost, nothing is doubled (H-24, H-117)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.timing import PATIENCE_S


def _command(runs: Path, name: str, repeats: int) -> list[str]:
    # The sample has duplicates of its own; one text in ten always fails.
    return [
        *(sys.executable, "-m", "evals.cli", "replay", "smoke", "--target", "fake?errors=0.1&delay_ms=15"),
        *("--repeats", str(repeats), "--max-retries", "0", "--max-errors", "100%", "--concurrency", "8"),
        *("--runs-dir", str(runs), "--run-name", name, "--quiet", "--json"),
    ]


def _lines(run: Path) -> int:
    journal = run / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _kill_after(command: list[str], run: Path, lines: int) -> bool:
    """Start the command, kill it once the journal has grown by so many lines, and say whether it was killed."""
    before = _lines(run)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            if _lines(run) >= before + lines:
                process.kill()
                break
    finally:
        process.kill()
        _, error = process.communicate()
    assert b"Traceback" not in error
    return process.returncode == -9


def _keys(run: Path) -> list[str]:
    """Return the key of every trial that ended well, in the order of the journal."""
    trials = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [one["trial_key"] for one in trials if one.get("type") == "trial" and one.get("status") == "ok"]


def _summary(run: Path) -> object:
    return json.loads((run / "summary.json").read_bytes())["results"]


def _verifies(run: Path) -> bool:
    command = [sys.executable, "-m", "evals.cli", "verify", str(run)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_summary(tmp_path: Path) -> None:  # H-117
    generator = random.Random(7)  # noqa: S311 - where to kill is no secret
    whole = subprocess.run(_command(tmp_path, "whole", 6), capture_output=True, check=False)
    assert whole.returncode in (0, 12), whole.stderr
    wanted = _keys(tmp_path / "whole")
    assert len(wanted) == len(set(wanted)) > 0
    for name in ("killed-0", "killed-1"):
        run = tmp_path / name
        kills = [_kill_after(_command(tmp_path, name, 6), run, lines) for lines in (generator.randint(1, 30), 2)]
        assert any(kills)
        resumed = subprocess.run(_command(tmp_path, name, 6), capture_output=True, check=False)
        assert resumed.returncode == whole.returncode, resumed.stderr
        assert sorted(_keys(run)) == sorted(wanted)  # none lost, none twice
        assert _summary(run) == _summary(tmp_path / "whole")
        assert _verifies(run)


@pytest.mark.slow
@pytest.mark.skipif("EVALS_CRASH" not in os.environ, reason="takes minutes: set EVALS_CRASH=1")  # noqa: TID251 - a switch of this test
def test_a_run_of_five_hundred_trials_survives_twenty_kills(tmp_path: Path) -> None:  # H-117
    generator = random.Random(20)  # noqa: S311 - where to kill is no secret
    whole = subprocess.run(_command(tmp_path, "whole", 50), capture_output=True, check=False)
    assert whole.returncode in (0, 12), whole.stderr
    killed = 0
    while killed < 20:
        assert _kill_after(_command(tmp_path, "killed", 50), tmp_path / "killed", generator.randint(1, 24))
        killed += 1
    resumed = subprocess.run(_command(tmp_path, "killed", 50), capture_output=True, check=False)
    assert resumed.returncode == whole.returncode, resumed.stderr
    assert sorted(_keys(tmp_path / "killed")) == sorted(_keys(tmp_path / "whole"))
    assert _summary(tmp_path / "killed") == _summary(tmp_path / "whole")
    assert _verifies(tmp_path / "killed")
