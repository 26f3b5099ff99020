"""`evals compare`, `gate` and `audit` as a CI job calls them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.cli import build_parser, main

WORKFLOW = Path(__file__).resolve().parents[3] / "deploy" / "github" / "guardrail-gate.yaml"
WORDS = """
supervisors:
  words: {use: rules, patterns: [{name: canary, regex: "violet umbrella"}]}
policies:
  default: {input: {forced: [words]}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of a guard that works, and one of a guard that sees nothing."""
    folder = tmp_path_factory.mktemp("runs")
    for name, text in (("base", WORDS), ("blind", WORDS.replace("violet umbrella", "green parasol"))):
        (folder / f"{name}.yaml").write_text(text, "utf-8")
        policy = ["--guard", str(folder / f"{name}.yaml"), "--run-name", name, "--yes", "--quiet"]
        assert main(["direct", "smoke", *policy, "--runs-dir", str(folder)]) == 0
    return folder


def gate(runs: Path, rules: str, *args: str) -> int:
    path = runs / "rules.yaml"
    path.write_text(rules, "utf-8")
    return main(["gate", *args, "--rules", str(path), "--runs-dir", str(runs), "--quiet"])


def test_a_gate_passes_fails_or_is_inconclusive_by_its_exit_code(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101, H-167
    rule = "absolute: [{{metric: detection_rate, min: {}}}]"
    assert gate(runs, rule.format(0.3), "base") == 0
    assert gate(runs, rule.format(0.6), "blind") == 10
    assert gate(runs, rule.format(0.5), "base") == 11
    assert gate(runs, rule.format(0.5), "base", "--allow-inconclusive") == 0
    assert "only because of --allow-inconclusive" in capsys.readouterr().out
    assert gate(runs, "relative: [{metric: detection_rate, margin: 0.1}]", "blind", "--against", "base") == 10
    assert "PASSED" not in (runs / "blind" / "gate" / "gate.md").read_text()


def test_an_incomplete_run_and_drifted_data_win_over_the_rules(runs: Path, tmp_path: Path) -> None:  # H-167
    args = ["replay", "smoke", "--target", "fake?errors=1", "--max-retries", "0", "--max-errors", "100%"]
    assert main([*args, "--run-name", "failing", "--runs-dir", str(runs), "--yes", "--quiet"]) == 12
    rules = "absolute: [{metric: detection_rate, min: 0.3}]"
    assert gate(runs, rules, "failing") == 12
    assert gate(runs, rules, "failing", "--allow-incomplete") == 10  # every trial is an error, which is limited too
    copy = tmp_path / "drifted"
    shutil.copytree(runs / "base", copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["lock"]["smoke"]["files"][0]["sha256"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert gate(runs, rules, "base", "--against", str(copy)) == 3


def test_a_run_that_does_not_prove_is_no_run_to_decide_on(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-172
    copy = tmp_path / "edited"
    shutil.copytree(runs / "blind", copy)
    journal = copy / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"flagged":false', '"flagged":true', 1))
    assert gate(runs, "absolute: [{metric: detection_rate, min: 0.3}]", str(copy)) == 1
    assert "does not prove" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["compare", "base"], "needs two runs or more"),
        (["compare", "base", "no-run"], "no run 'no-run'"),
        (["compare", "base", "blind", "--metric", "nonsense"], "no metric 'nonsense'"),
        (["compare", "base", "blind", "--scorer", "panel"], "was not scored by 'panel'"),
        (["compare", "base", "blind", "--show", "-1"], "expected 0 or more"),
        (["gate", "base", "--rules", "no-rules.yaml"], "cannot be read"),
    ],
)
def test_a_mistake_is_one_clear_line(
    runs: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:  # H-101
    assert main([*args, "--runs-dir", str(runs)]) == 2
    assert said in capsys.readouterr().err


def test_a_comparison_is_printed_and_written(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-163, H-164
    assert main(["compare", "base", "blind", "--runs-dir", str(runs), "--out", str(tmp_path / "out"), "--json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed["compared"][0]["differences"][0]["paired"]["c"] == 5
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == printed
    assert (tmp_path / "out" / "changes.csv").read_text().count("newly_missed") == 5
    assert "violet" not in "".join([path.read_text() for path in (tmp_path / "out").iterdir()])


def test_an_audit_of_a_whole_run_finds_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-171
    assert main(["audit", "base", "--runs-dir", str(runs)]) == 0
    assert "0 alarms in 10 trials and 10 records" in capsys.readouterr().out


def test_a_lost_record_is_an_alarm(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-171
    copy = tmp_path / "cut"
    shutil.copytree(runs / "base", copy)
    (journal,) = copy.glob("proxy-*.sqlite3")
    connection = sqlite3.connect(journal)
    connection.execute("DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)")
    connection.commit()
    connection.close()
    assert main(["audit", str(copy), "--runs-dir", str(runs), "--json"]) == 10
    found = {one["name"]: one["count"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["verdict_without_record"] == 1
    assert found["journal_broken"] >= 1


def test_the_workflow_example_calls_commands_that_exist() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["gate"]["steps"]
    lines = [line for step in steps for line in str(step.get("run", "")).splitlines()]
    commands = [shlex.split(re.sub(r"\$\{\{.*?\}\}", "x", line)) for line in lines if line.startswith("evals ")]
    assert [command[1] for command in commands] == ["data", "direct", "direct", "gate", "compare"]
    for command in commands:
        assert build_parser().parse_args(command[1:]).command == command[1]


def test_reading_a_run_leaves_nothing_beside_its_journal(runs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "read"
    shutil.copytree(runs / "base", copy)
    before = sorted([path.name for path in copy.iterdir()])
    for verb in ("verify", "audit"):
        assert main([verb, str(copy), "--runs-dir", str(runs), "--quiet"]) == 0
    assert gate(runs, "absolute: [{metric: detection_rate, min: 0.3}]", str(copy), "--out", str(tmp_path / "out")) == 0
    assert sorted([path.name for path in copy.iterdir()]) == before


def test_runs_of_other_models_and_of_the_fake_one_are_marked(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-163
    folder = ["--runs-dir", str(tmp_path), "--quiet"]
    for name, tokens in (("short", "32"), ("long", "256")):
        asked = ["--target", "fake", "--max-tokens", tokens, "--limit", "2", "--run-name", name, "--yes"]
        assert main(["replay", "smoke", *asked, *folder]) == 0
    capsys.readouterr()
    main(["compare", "short", "long", "--runs-dir", str(tmp_path)])
    said = capsys.readouterr().out
    assert "the policy's alone (short: fake, max-tokens 32; long: fake, max-tokens 256)" in said
    assert "note: FAKE model in short and long: synthetic replies" in said
    assert gate(tmp_path, "absolute: [{metric: detection_rate, min: 0.5}]", "short") == 11
    assert "note: FAKE model in short: synthetic replies" in capsys.readouterr().out
    main(["compare", "base", "blind", "--runs-dir", str(runs)])
    assert "note:" not in capsys.readouterr().out  # no model was asked
