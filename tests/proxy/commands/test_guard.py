from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from proxy.commands import guard
from supervisors.embedded.calibrate import read_thresholds
from supervisors.embedded.guard import EmbeddedGuard


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    guard.add_parser(parser.add_subparsers(dest="command", required=True))
    return guard.run(parser.parse_args(["guard", *words]))


def test_score_prints_the_verdict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("score", "How do I bake bread?") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["label"] == "safe"
    assert set(printed["logits"]) == {"harm", "injection"}


def test_show_says_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:  # LG-04
    assert run("show", "embedded") == 0
    out = capsys.readouterr().out
    assert "topical detector" in out
    assert "harm at 0.05: bells/harmful" in out


def test_calibrate_writes_thresholds_the_guard_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benign, out = tmp_path / "b.txt", tmp_path / "t.json"  # LG-02
    benign.write_text("".join(f"Please water rose number {number}.\n\n" for number in range(50)))
    assert run("calibrate", "--benign", str(benign), "--budget", "0.1", "--budget", "0.02", "--out", str(out)) == 0
    assert read_thresholds(out).texts == 50
    assert "flags 5 of 50" in capsys.readouterr().out
    assert EmbeddedGuard(thresholds=out, budget="0.1").budget == "0.1"


def test_calibrate_says_how_little_a_few_texts_prove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benign, out = tmp_path / "b.txt", tmp_path / "t.json"
    benign.write_text("".join(f"Please water rose number {number}.\n" for number in range(20)))
    assert run("calibrate", "--benign", str(benign), "--budget", "0.05", "--out", str(out)) == 0
    shown = capsys.readouterr()
    assert "flags 1 of 20; false positive rate 0.89% to 23.61% (95 % interval)" in shown.out
    assert "warning: harm 0.05: the true rate may be 4.7 x it; 200 texts or more would bound it" in shown.err


def test_calibrate_says_which_file_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(tmp_path / "gone.txt")
    assert run("calibrate", "--benign", gone, "--budget", "0.1", "--out", str(tmp_path / "t.json")) == 2
    assert capsys.readouterr().err == f"guardrail-proxy guard: cannot read {gone}: No such file or directory\n"


def test_calibrate_refuses_a_budget_that_the_texts_cannot_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benign, out = tmp_path / "b.txt", tmp_path / "t.json"
    benign.write_text("Water the roses.\nFeed the cat.\nBake a bread.\n")
    assert run("calibrate", "--benign", str(benign), "--budget", "0.01", "--out", str(out)) == 2
    assert "3 distinct texts cannot measure a rate of 0.01: give at least 100" in capsys.readouterr().err
    assert not out.exists()


def test_calibrate_reads_json_lines(tmp_path: Path) -> None:
    benign = tmp_path / "b.jsonl"
    benign.write_text('{"prompt": "Water the roses."}\n{"text": "Feed the cat."}\n')
    assert guard.read_texts(benign) == ["Water the roses.", "Feed the cat."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.txt", "\n \n", "has no text"),
        ("b.jsonl", '{"prompt": ""}\n', "line 1 has no text"),
        ("b.jsonl", "[1]\n", "line 1 has no text"),
        ("b.jsonl", "{\n", "line 1 is not JSON"),
    ],
)
def test_a_bad_benign_file_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    out = tmp_path / "t.json"
    assert run("calibrate", "--benign", str(tmp_path / name), "--budget", "0.1", "--out", str(out)) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_bad_budget_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.txt").write_text("Water the roses.\n")
    words = ("--benign", str(tmp_path / "b.txt"), "--budget", "2", "--out", str(tmp_path / "t.json"))
    assert run("calibrate", *words) == 2
    assert "outside 0" in capsys.readouterr().err


def test_train_without_data_says_which_file_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--data", str(tmp_path), "--out", str(tmp_path / "out")) == 1
    assert "is missing in the data folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [(), ("--out", "x", "--check-only")])
def test_train_wants_either_a_folder_or_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run("train", "--data", str(tmp_path), *words) == 2
    assert "either --out DIR or --check-only" in capsys.readouterr().err


def test_train_takes_a_date_where_it_writes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(tmp_path))
    assert run("train", *data, "--check-only", "--trained-at", "2026-01-31") == 2
    assert "--trained-at is for --out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("train", *data, "--out", "x", "--trained-at", "today")
    assert "'today' is not a date such as 2026-01-31" in capsys.readouterr().err


def test_train_builds_what_profile_and_bits_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", str(tmp_path / "out"))
    missing: list[str] = []
    for profile in ("clean", "full"):
        assert run("train", "--data", str(tmp_path), "--profile", profile, "--bits", "8", *out) == 1
        missing.append(capsys.readouterr().err)
    assert all("is missing in the data folder" in line for line in missing)
    with pytest.raises(SystemExit):
        run("train", "--data", str(tmp_path), "--bits", "7", *out)
    assert "invalid choice: 7" in capsys.readouterr().err
