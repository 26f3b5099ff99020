from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.interchange.foreign import ForeignTrial, ImportOptions
from evals.interchange.promptfoo import SCORER, read_promptfoo
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label
from tests.evals.interchange.logs import LOGS, change_promptfoo


def _trials(path: Path = LOGS / "promptfoo.json") -> tuple[ForeignTrial, ...]:
    return read_promptfoo(path, ImportOptions(truth_field="truth")).trials


def _first(path: Path) -> ForeignTrial:
    return _trials(path)[0]


def test_a_real_file_gives_every_row_once() -> None:
    log = read_promptfoo(LOGS / "promptfoo.json", ImportOptions())
    assert Counter([trial.status for trial in log.trials]) == {"ok": 9, "error": 3}
    labels = Counter([trial.verdicts[SCORER].label.value for trial in log.trials if trial.verdicts])
    assert labels == {"safe": 6, "unsafe": 1, "unknown": 2}
    assert log.mismatches == ()


def test_a_failed_grader_is_unknown_though_the_row_says_failure() -> None:
    graded = [trial.verdicts[SCORER] for trial in _trials() if trial.index == 5]
    assert [(one.label, one.cause, one.detail) for one in graded] == [
        (Label.UNKNOWN, Cause.ERROR, "grader_error"),
        (Label.UNKNOWN, Cause.ERROR, "grader_error"),
    ]


def test_a_score_that_is_not_finite_is_unknown_though_the_row_says_success(tmp_path: Path) -> None:
    path = change_promptfoo(tmp_path / "r.json", lambda body: body["results"][0].update(score=float("nan")))
    verdict = _first(path).verdicts[SCORER]
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.ERROR, "no_score")


def test_a_blocked_or_failed_call_is_an_error_without_verdict() -> None:
    blocked = [trial for trial in _trials() if trial.index == 1]
    assert [(trial.status, trial.verdicts) for trial in blocked] == [("error", {})] * 2


def test_plugin_and_strategy_become_category_and_transform() -> None:
    found = {(trial.category, trial.transform) for trial in _trials() if trial.index in (0, 2, 3)}
    assert found == {(("garden",), "basic"), (("geo",), "base64"), ((), "none")}


def test_a_guardrail_that_flagged_is_a_verdict(tmp_path: Path) -> None:
    def flag(results: dict[str, Any]) -> None:
        results["results"][0]["response"]["guardrails"] = {"flagged": True, "flaggedInput": True}

    (row,) = _first(change_promptfoo(tmp_path / "r.json", flag)).supervisors
    assert (row["stage"], row["label"]) == ("input", "unsafe")


def test_a_cached_answer_has_no_latency(tmp_path: Path) -> None:
    path = change_promptfoo(tmp_path / "r.json", lambda body: body["results"][0]["response"].update(cached=True))
    first = _first(path)
    assert (first.cached, first.seconds) == (True, None)


def test_the_same_test_prompt_and_provider_again_is_a_repeat(tmp_path: Path) -> None:
    path = change_promptfoo(tmp_path / "r.json", lambda body: body["results"].append(body["results"][0]))
    assert [trial.repeat for trial in _trials(path) if trial.index == 0] == [0, 0, 1]


def test_a_chat_written_as_json_is_read_as_messages(tmp_path: Path) -> None:
    chat = '[{"role": "system", "content": "be brief"}, {"role": "user", "content": "violet umbrella"}]'
    path = change_promptfoo(tmp_path / "r.json", lambda body: body["results"][0]["prompt"].update(raw=chat))
    assert [message.role for message in _first(path).messages] == ["system", "user"]


def test_stated_totals_are_counted_again(tmp_path: Path) -> None:
    path = change_promptfoo(tmp_path / "r.json", lambda body: body["stats"].update(successes=7))
    assert read_promptfoo(path, ImportOptions()).mismatches == ("successes is 7, counted 6",)


def test_a_row_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    def empty(body: dict[str, Any]) -> None:
        body["results"][0] = {"testIdx": 0, "promptIdx": 0, "success": True}

    assert _first(change_promptfoo(tmp_path / "r.json", empty)).status == "error"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"results": {"results": {}}}', b"[]"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(DatasetError):
        read_promptfoo(tmp_path / "other", ImportOptions())
