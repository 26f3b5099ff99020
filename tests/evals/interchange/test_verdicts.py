from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.interchange.verdicts import verdict_lines
from evals.summary import load_run
from evals.verify import verify
from tests.evals.harness import Run, make_options, make_run, make_words_guard


def _again(tmp_path: Path, run: Run) -> dict[str, Any]:
    exported = tmp_path / "verdicts.jsonl"
    assert main(["export", str(run.folder.path), "--out", str(exported), "--quiet"]) == 0
    assert main(["import", "jsonl", str(exported), "--runs-dir", str(tmp_path), "--run-name", "again", "--quiet"]) == 0
    summary: dict[str, Any] = json.loads((tmp_path / "again" / "summary.json").read_text())
    return summary


@pytest.mark.parametrize(
    "changes",
    [{}, {"ledger": "paired"}, {"repeats": 2, "target": "fake?errors=0.5", "max_retries": 0}, {"arms": "check"}],
)
def test_export_and_import_give_the_same_results_h_175(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path, **changes))
    again = _again(tmp_path, run)
    assert again["results"] == run.summary["results"]
    assert again["run_id"] == run.summary["run_id"]
    effort: Any = run.summary["effort"]
    assert again["effort"]["latency"] == effort["latency"]
    assert all(check.broken is None for check in verify(RunFolder(tmp_path / "again")))


def test_redacted_answers_keep_both_verdicts(tmp_path: Path) -> None:
    policy = {"output": {"forced": ["words"], "on_unsafe": "redact"}}
    run = make_run(tmp_path / "run", make_options(tmp_path), make_words_guard(policy))
    assert _again(tmp_path, run)["results"] == run.summary["results"]


def test_no_text_is_exported(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path))
    lines = json.dumps(list(verdict_lines(load_run(run.folder))))
    assert [item.item_id for item in run.prepared.items.values() if item.prompt in lines] == []
    assert "short synthetic answer" not in lines


@pytest.mark.parametrize("content", ["", "{}\n", "no\n"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "v.jsonl").write_text(content)
    assert main(["import", "jsonl", str(tmp_path / "v.jsonl"), "--runs-dir", str(tmp_path)]) == 2


def test_a_broken_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path))
    lines = [json.dumps(line) for line in verdict_lines(load_run(run.folder))]
    lines[3] = '{"planned": {}}'
    (tmp_path / "v.jsonl").write_text("\n".join(lines))
    assert main(["import", "jsonl", str(tmp_path / "v.jsonl"), "--runs-dir", str(tmp_path)]) == 2
    assert "line 4" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--map=a:b=safe", "--truth=harmful", "--truth-field=x"])
def test_what_is_said_about_foreign_logs_is_refused_for_our_own(tmp_path: Path, option: str) -> None:
    (tmp_path / "v.jsonl").write_text("{}")
    assert main(["import", "jsonl", str(tmp_path / "v.jsonl"), option]) == 2
