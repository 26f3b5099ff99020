"""Each class of the audit: a run with one line changed shows it, and nothing else does (H-171)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.audit import MEANINGS, audit
from evals.cli import main
from evals.folder import RunFolder

POLICY = """
supervisors:
  words: {use: rules, patterns: [{name: canary, regex: "violet umbrella"}]}
policies:
  default: {input: {forced: [words]}}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an observed run: five items would be blocked, five pass."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "words.yaml").write_text(POLICY, "utf-8")
    args = ["replay", "smoke", "--target", "fake", "--guard", str(folder / "words.yaml"), "--run-name", "a"]
    assert main([*args, "--yes", "--quiet", "--runs-dir", str(folder)]) == 0
    return folder / "a"


def counts(run: Path) -> Mapping[str, int]:
    return {one.name: one.count for one in audit(RunFolder(run), {}).findings if one.count}


def change(whole: Path, copy: Path, gate: str, fields: Mapping[str, Any]) -> Path:
    """Return a copy of the run in which one trial with this gate has other fields."""
    shutil.copytree(whole, copy)
    journal = copy / "journal.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in journal.read_text("ascii").splitlines()]
    next(line for line in lines if line.get("gate") == gate).update(fields)
    journal.write_text("".join([json.dumps(line) + "\n" for line in lines]), "ascii")
    return copy


def test_a_whole_run_has_no_finding_and_every_gate_was_decided_again(whole: Path) -> None:
    report = audit(RunFolder(whole), {})
    assert (report.alarms, report.trials, report.records, report.superseded) == (0, 10, 10, 0)
    assert report.decided_again
    assert [one.name for one in report.findings] == list(MEANINGS)


@pytest.mark.parametrize(
    ("gate", "fields", "expected"),
    [
        ("block_input", {"gate": "flag", "gate_stage": None, "blocked": False}, {"flagged_not_blocked": 1}),
        ("pass", {"gate": "block_input", "blocked": True}, {"blocked_without_flag": 1, "gate_differs": 1}),
        ("pass", {"gate": "open_on_unknown"}, {"opened_on_unknown": 1, "gate_differs": 1}),
        ("pass", {"record_id": "lost"}, {"verdict_without_record": 1}),
        ("pass", {"headers": {"x-guardrail-decision": "block"}}, {"shadow_in_header": 1}),
        ("pass", {"headers": {"x-guardrail-verdict": "unsafe"}}, {"shadow_in_header": 1}),
    ],
)
def test_a_changed_trial_is_found(
    tmp_path: Path, whole: Path, gate: str, fields: dict[str, Any], expected: Mapping[str, int]
) -> None:
    assert counts(change(whole, tmp_path / "changed", gate, fields)) == expected


def test_a_record_of_a_trial_that_was_sent_again_is_no_alarm(tmp_path: Path, whole: Path) -> None:
    report = audit(RunFolder(change(whole, tmp_path / "changed", "pass", {"record_id": None, "verdicts": []})), {})
    assert report.superseded == 1


def test_a_policy_that_cannot_be_read_here_is_said_so(tmp_path: Path, whole: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["policy"] = "supervisors: {j: {use: judge, model: m, api_key: {env: NO_SUCH}}}\npolicies: {d: {}}"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert not audit(RunFolder(copy), {}).decided_again
