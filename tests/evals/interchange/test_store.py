from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.summary import load_run, summarise
from evals.verify import verify
from tests.evals.interchange.logs import LOGS, change_garak, change_inspect

_SOURCES = (
    ("inspect", "inspect.eval", 0),
    ("inspect", "inspect-killed.eval", 12),
    ("garak", "garak.report.jsonl", 0),
    ("garak", "garak-crashed.report.jsonl", 12),
    ("promptfoo", "promptfoo.json", 0),
)


def _import(tmp_path: Path, source: str, path: Path, *more: str) -> int:
    return main(["import", source, str(path), "--runs-dir", str(tmp_path), "--run-name", "r", "--quiet", *more])


def _section(tmp_path: Path) -> Mapping[str, Any]:
    summary: dict[str, Any] = json.loads((tmp_path / "r" / "summary.json").read_text())
    section: dict[str, Any] = summary["results"]["sections"][0]
    return section


@pytest.mark.parametrize(("source", "name", "code"), _SOURCES)
def test_every_real_log_becomes_a_run_that_verifies(tmp_path: Path, source: str, name: str, code: int) -> None:
    assert _import(tmp_path, source, LOGS / name) == code
    broken = [check for check in verify(RunFolder(tmp_path / "r")) if check.broken is not None]
    missing = [check.name for check in broken if "has no line" not in str(check.broken)]
    assert missing == []
    assert bool(broken) == (name == "inspect-killed.eval")


def test_a_log_with_numbers_that_are_none_is_imported_without_them(tmp_path: Path) -> None:  # H-126
    def spoil(body: dict[str, Any]) -> None:
        body["output"]["usage"] = {"input_tokens": float("nan"), "output_tokens": 2}
        body["output"]["time"] = float("nan")

    path = change_inspect(tmp_path / "log.eval", "samples/g/0_epoch_0_epoch_1.json", spoil)
    assert _import(tmp_path, "inspect", path) == 0
    lines = [json.loads(line) for line in RunFolder(tmp_path / "r").journal.read_text().splitlines()]
    first = next(line for line in lines if line["type"] == "trial")
    assert (first["usage"], first["latency"]) == ({"completion_tokens": 2}, None)


def test_imported_answers_count_by_the_mapped_scorer(tmp_path: Path) -> None:
    mapped = ("--map", "includes:C=safe", "--map", "includes:I=unsafe", "--truth-field", "truth")
    assert _import(tmp_path, "inspect", LOGS / "inspect.eval", *mapped) == 0
    rates = _section(tmp_path)["rates"]
    unsafe = rates["unsafe_answer_rate"]
    assert (unsafe["k"], unsafe["n"], unsafe["unscored"]) == (2, 2, 0)
    benign = rates["unsafe_on_benign_rate"]
    assert (benign["k"], benign["n"], benign["unscored"], benign["errors"]) == (0, 12, 2, 2)


def test_an_empty_answer_has_no_verdict_whatever_the_log_says_h_130(tmp_path: Path) -> None:
    path = change_garak(tmp_path / "log.jsonl", "attempt", lambda line: line.update(outputs=["", " "]))
    assert _import(tmp_path, "garak", path, "--truth", "harmful") == 0
    rate = _section(tmp_path)["rates"]["unsafe_answer_rate"]
    assert (rate["n"], rate["planned"]) == (14, 16)


def test_totals_that_do_not_fit_stop_the_import_until_it_is_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = change_garak(tmp_path / "log.jsonl", "eval", lambda line: line.update(passed=5))
    assert _import(tmp_path, "garak", path) == 3
    assert "passed is 5, counted 4" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    assert _import(tmp_path, "garak", path, "--force") == 0


def test_hash_only_keeps_no_text(tmp_path: Path) -> None:
    assert _import(tmp_path, "inspect", LOGS / "inspect.eval", "--hash-only") == 0
    kept = b"".join([path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()])
    assert b"umbrella" not in kept
    assert not (tmp_path / "r" / "text").exists()


def test_texts_lie_beside_the_run_for_their_owner_only(tmp_path: Path) -> None:
    assert _import(tmp_path, "inspect", LOGS / "inspect.eval") == 0
    texts = list((tmp_path / "r" / "text").rglob("*.json"))
    assert any("violet umbrella" in path.read_text() for path in texts)
    assert {oct(os.stat(path).st_mode & 0o777) for path in texts} == {"0o600"}  # noqa: PTH116 - the mode is the point


def test_an_imported_run_cannot_be_resumed_or_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _import(tmp_path, "promptfoo", LOGS / "promptfoo.json") == 0
    assert main(["resume", str(tmp_path / "r")]) == 2
    assert "was imported" in capsys.readouterr().err


def test_a_second_import_does_not_overwrite_the_first(tmp_path: Path) -> None:
    assert _import(tmp_path, "promptfoo", LOGS / "promptfoo.json") == 0
    assert _import(tmp_path, "promptfoo", LOGS / "promptfoo.json") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        ("inspect", "inspect.eval", "--map", "includes"),
        ("inspect", "inspect.eval", "--map", "includes:C=fine"),
        ("inspect", "inspect.eval", "--map", "includes:C=safe", "--map", "includes:C=unsafe"),
        ("garak", "garak.report.jsonl", "--map", "always.Pass:1=safe"),
        ("garak", "no-such-file"),
        ("inspect", "inspect.eval", "--tag", "x"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    assert _import(tmp_path, wrong[0], LOGS / wrong[1], *wrong[2:]) == 2


def test_the_summary_can_be_made_again(tmp_path: Path) -> None:
    assert _import(tmp_path, "garak", LOGS / "garak.report.jsonl") == 0
    folder = RunFolder(tmp_path / "r")
    assert summarise(folder, load_run(folder)) == json.loads(folder.summary.read_text())
