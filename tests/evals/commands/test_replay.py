"""`evals replay`: what it says when trials fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.cli import main


def test_a_proxy_that_nobody_serves_is_named_as_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs-dir", str(tmp_path), "--quiet"]
    dead = ["--proxy", "http://127.0.0.1:9", "--ledger", "off", "--max-retries", "0", "--run-name", "dead"]
    assert main(["replay", "smoke", *dead, "--max-errors", "3", "--concurrency", "1", *runs]) == 12
    said = capsys.readouterr()
    assert "stopped: 4 of 10 trials failed: 4 x connect (nobody answers at the address)" in said.err
    assert main(["report", "dead", *runs]) == 0
    assert "4 x connect (nobody answers at the address)" in capsys.readouterr().out
