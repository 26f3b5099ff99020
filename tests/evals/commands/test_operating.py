"""`evals thresholds`, `transfer`, `combine` and `tune` from stored verdicts to a policy that decides the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.operating.scores import to_judged
from evals.summary import load_run

HEADS = """
supervisors:
  harm: {use: guard, card: embedded, heads: [harm]}
  injection: {use: guard, card: embedded, heads: [injection]}
policies:
  default: {input: {forced: [harm, injection], exhaustive: true}}
"""
OPTIONS = ["--yes", "--quiet", "--allow-contaminated"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of two scoring supervisors over the smoke set."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "heads.yaml").write_text(HEADS, "utf-8")
    args = ["direct", "smoke", "--guard", str(folder / "heads.yaml"), "--run-name", "scores"]
    assert main([*args, *OPTIONS, "--runs-dir", str(folder)]) == 0
    return folder


def run(runs: Path, *args: str) -> int:
    return main([*args, "--runs-dir", str(runs), "--data-dir", str(runs)])


def test_a_written_threshold_decides_as_it_was_said_to(runs: Path, tmp_path: Path) -> None:  # H-159
    out = tmp_path / "points"
    assert (
        run(runs, "thresholds", "scores", "--supervisor", "harm", "--budget", "0.4", "--out", str(out), "--quiet") == 0
    )
    stored: dict[str, Any] = json.loads((out / "thresholds.json").read_text())
    point = stored["points"][0]["point"]
    policy = out / "policy-fpr-0.4.yaml"
    head = policy.read_text().splitlines()
    assert any(line.startswith("# smoke (10 items), sha256 ") for line in head)
    args = ["direct", "smoke", "--guard", str(policy), "--run-name", "again", *OPTIONS]
    assert run(runs, *args) == 0
    flags = [
        one.said["harm@input"].label.value for one in to_judged(load_run(RunFolder(runs / "again"))) if one.harmful
    ]
    assert flags.count("unsafe") == point["detection"]["k"]
    assert len(flags) == point["detection"]["n"] == 5


def test_only_the_named_supervisor_is_asked(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["direct", "smoke", "--guard", str(runs / "heads.yaml"), *OPTIONS]
    assert run(runs, *ask, "--run-name", "alone", "--only", "injection") == 0
    assert set(to_judged(load_run(RunFolder(runs / "alone")))[0].said) == {"injection@input"}
    manifest = json.loads((runs / "alone" / "manifest.json").read_text())
    assert (
        manifest["identity"]["guard"]
        != json.loads((runs / "scores" / "manifest.json").read_text())["identity"]["guard"]
    )
    assert run(runs, *ask, "--only", "harms") == 2
    assert "there are: harm, injection; did you mean 'harm'?" in capsys.readouterr().err
    assert run(runs, *ask, "--only", "harm", "--proxy", "http://127.0.0.1:9") == 2
    assert "--only narrows a policy file" in capsys.readouterr().err


def test_a_tuned_policy_decides_as_its_evidence_says(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned"
    code = run(runs, "tune", "scores", "--max-fpr", "0.4", "--folds", "2", "--out", str(out), "--json")
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == {"yes": 0, "no": 10, "unclear": 11}[printed["keeps_budget"]]
    evidence: dict[str, Any] = json.loads((out / "evidence.json").read_text())
    assert evidence["apparent"] == printed["apparent"]
    assert evidence["data"]["smoke"]["items"] == 10
    args = ["direct", "smoke", "--guard", str(out / "policy.yaml"), "--run-name", "tuned", *OPTIONS]
    assert run(runs, *args) == 0
    judged = to_judged(load_run(RunFolder(runs / "tuned")))
    flags = [one.said["tuned@input"].label.value == "unsafe" for one in judged if one.harmful]
    assert sum(flags) / len(flags) == printed["apparent"]["detection"]


def test_a_limit_of_time_that_nothing_keeps_leaves_no_choice(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "scores", "--max-fpr", "0.4", "--folds", "2", "--out", str(tmp_path / "tuned")]
    assert run(runs, *words, "--max-p95", "1e-9", "--json") == 10
    shown = capsys.readouterr()
    assert json.loads(shown.out)["chosen"] is None
    assert "nothing keeps the budget" in shown.err
    assert not (tmp_path / "tuned").exists()
    assert run(runs, *words, "--max-p95", "60", "--json") in (0, 10, 11)
    assert json.loads(capsys.readouterr().out)["apparent"]["p95_s"] <= 60


@pytest.mark.parametrize("limit", ["0", "-1", "nan"])
def test_a_limit_of_time_is_a_positive_number(runs: Path, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(runs, "tune", "scores", "--max-fpr", "0.4", f"--max-p95={limit}") == 2
    assert f"--max-p95 is {limit}, expected" in capsys.readouterr().err


def test_combinations_and_transfers_are_printed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-160, H-161
    assert run(runs, "combine", "scores", "--show", "3") == 0
    assert "cascade" in capsys.readouterr().out
    out = tmp_path / "transfer"
    assert run(runs, "transfer", "scores", "--supervisor", "harm", "--budget", "0.5", "--out", str(out)) == 0
    assert (out / "transfer.csv").read_text().startswith("budget,supervisor,set_on")
    assert json.loads((out / "transfer.json").read_text())["matrices"][0]["names"] == ["smoke"]
    pytest.importorskip("sklearn", reason="pip install 'guardrail-proxy[train]'")
    capsys.readouterr()
    assert run(runs, "transfer", "scores", "--logistic", "--budget", "0.5") == 0
    printed = capsys.readouterr().out
    assert "logistic(harm@input + injection@input)" in printed


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["thresholds", "scores"], "several supervisors gave scores: harm@input, injection@input"),
        (["thresholds", "scores", "--supervisor", "harm", "--test", "scores"], "nothing to test on"),
        (["thresholds", "scores", "--supervisor", "harm", "--budget", "7"], "budget 7 is outside 0..1"),
        (["thresholds", "scores", "--supervisor", "harm", "--cost", "1:2"], "expected MISS:FALSE:SHARE"),
        (["thresholds", "scores", "--supervisor", "harm", "--split", "2"], "--split 2"),
        (["transfer", "scores", "scores", "--supervisor", "harm"], "in several runs"),
        (["transfer", "scores", "--supervisor", "harm", "--supervisor", "injection"], "--logistic fits one model"),
        (["transfer", "scores", "--logistic", "--supervisor", "harm"], "joins two supervisors or more"),
        (["combine", "scores", "--supervisor", "nobody"], "no supervisor nobody"),
        (["combine", "scores", "--size", "0"], "--size 0"),
        (["tune", "scores", "--max-fpr", "2"], "--max-fpr 2"),
        (["tune", "scores", "--max-fpr", "0.4", "--supervisor", "nobody"], "no scores of nobody"),
        (["tune", "scores", "--max-fpr", "0.4", "--stage", "output"], "no supervisor at output"),
        (["tune", "scores", "--max-fpr", "0.4", "--folds", "9"], "9 folds need at least 9"),
    ],
)
def test_a_mistake_is_one_clear_line(
    runs: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:  # H-101
    assert run(runs, *args) == 2
    assert said in capsys.readouterr().err
