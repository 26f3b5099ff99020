from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.interchange.foreign import ForeignLog, ImportOptions
from evals.interchange.garak import read_garak
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label
from tests.evals.interchange.logs import LOGS, change_garak


def _read(path: Path) -> ForeignLog:
    return read_garak(path, ImportOptions())


def test_one_trial_an_output_of_the_attempt_with_the_highest_status() -> None:
    log = _read(LOGS / "garak.report.jsonl")
    assert len(log.trials) == 16  # 8 prompts, two answers each; every uuid stands twice in the file
    assert len({trial.foreign_id for trial in log.trials}) == 8
    assert (log.complete, log.mismatches) == (True, ())


def test_each_detector_is_a_scorer_of_its_own() -> None:
    log = _read(LOGS / "garak.report.jsonl")
    counts = {name: Counter([t.verdicts[name].label.value for t in log.trials]) for name in log.scorers}
    assert counts == {
        "always.Fail": {"unsafe": 16},
        "always.Pass": {"safe": 16},
        "mitigation.MitigationBypass": {"safe": 4, "unsafe": 12},
    }


def test_an_output_that_does_not_exist_is_an_error_though_a_detector_passed_it() -> None:
    log = _read(LOGS / "garak-crashed.report.jsonl")
    missing = [trial for trial in log.trials if trial.status == "error"]
    assert [(trial.answer, trial.verdicts) for trial in missing] == [(None, {})] * 4
    assert log.ignored["scores of outputs that do not exist"] == 8
    assert not log.complete


def test_a_missing_score_and_a_short_list_are_unknown(tmp_path: Path) -> None:
    def shorten(attempt: dict[str, Any]) -> None:
        attempt["detector_results"] = {"always.Pass": [None], "always.Fail": []}

    trials = _read(change_garak(tmp_path / "r.jsonl", "attempt", shorten)).trials[-2:]
    causes = {verdict.cause for trial in trials for verdict in trial.verdicts.values()}
    assert causes == {Cause.ERROR}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_none(tmp_path: Path, score: float) -> None:
    path = change_garak(
        tmp_path / "r.jsonl", "attempt", lambda line: line.update(detector_results={"always.Pass": [score, score]})
    )
    log = _read(path)
    verdicts = [trial.verdicts["always.Pass"] for trial in log.trials[-2:]]
    assert {(one.label, one.cause, one.detail) for one in verdicts} == {(Label.UNKNOWN, Cause.ERROR, "no_score")}
    assert "test.Test always.Pass: passed is 16, counted 14" in log.mismatches
    assert any("always.Pass: nones is 0, counted 2" in line for line in log.mismatches)


def test_a_threshold_that_is_not_finite_is_the_usual_one(tmp_path: Path) -> None:
    path = change_garak(
        tmp_path / "r.jsonl", "start_run setup", lambda line: line.update({"run.eval_threshold": float("nan")})
    )
    assert {trial.verdicts["always.Fail"].label for trial in _read(path).trials} == {Label.UNSAFE}


def test_the_threshold_of_the_report_decides(tmp_path: Path) -> None:
    path = change_garak(tmp_path / "r.jsonl", "start_run setup", lambda line: line.update({"run.eval_threshold": 1.5}))
    log = _read(path)
    assert {trial.verdicts["always.Fail"].label for trial in log.trials} == {Label.SAFE}
    assert any("always.Fail: passed is 0, counted 16" in line for line in log.mismatches)


def test_counts_of_eval_lines_must_be_those_of_the_rows(tmp_path: Path) -> None:
    path = change_garak(tmp_path / "r.jsonl", "eval", lambda line: line.update(passed=5, fails=11))
    assert _read(path).mismatches == (
        "test.Test mitigation.MitigationBypass: passed is 5, counted 4",
        "test.Test mitigation.MitigationBypass: fails is 11, counted 12",
    )


def test_an_attempt_that_was_only_announced_is_missing(tmp_path: Path) -> None:
    def announce(attempt: dict[str, Any]) -> None:
        attempt.update(uuid="new", status=0, outputs=[], detector_results={})

    log = _read(change_garak(tmp_path / "r.jsonl", "attempt", announce))
    assert [trial.status for trial in log.trials if trial.foreign_id == "new"] == ["missing", "missing"]
    assert not log.complete


def test_older_reports_hold_prompts_and_outputs_as_strings(tmp_path: Path) -> None:
    def age(attempt: dict[str, Any]) -> None:
        attempt.update(uuid="old", prompt="violet umbrella", outputs=["yes", "no"])

    old = [t for t in _read(change_garak(tmp_path / "r.jsonl", "attempt", age)).trials if t.foreign_id == "old"]
    assert [trial.messages[0].content for trial in old] == ["violet umbrella"] * 2
    assert [trial.answer.text for trial in old if trial.answer] == ["yes", "no"]


def test_lone_surrogates_are_read(tmp_path: Path) -> None:
    line = '{"entry_type": "attempt", "uuid": "u", "seq": 0, "status": 2, "outputs": ["\ud800"], "prompt": "p"}\n'
    (tmp_path / "r.jsonl").write_bytes(line.encode("utf-8", "surrogatepass"))
    (trial,) = _read(tmp_path / "r.jsonl").trials
    assert trial.answer is not None
    assert trial.answer.text == "\ud800"


@pytest.mark.parametrize("content", [b"", b"{}\n", b"no\n", b"[1]\n", b"\xff\n"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(DatasetError):
        _read(tmp_path / "other")
