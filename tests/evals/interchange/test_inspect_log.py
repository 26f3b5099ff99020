from __future__ import annotations

import importlib.util
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.interchange.foreign import ForeignLog, ImportOptions
from evals.interchange.inspect_log import read_inspect
from supervisors.errors import ConfigError, DatasetError
from supervisors.types import Cause, Label
from tests.evals.interchange.logs import LOGS, change_inspect

_MAP = {("includes", "C"): Label.SAFE, ("includes", "I"): Label.UNSAFE}
_FIRST = "samples/g/0_epoch_0_epoch_1.json"


def _read(name: str = "inspect.eval", **options: Any) -> ForeignLog:
    return read_inspect(LOGS / name, ImportOptions(**options))


def _first(path: Path, **options: Any) -> Any:
    return read_inspect(path, ImportOptions(**options)).trials[0]


def test_every_sample_and_epoch_of_a_real_log_is_a_trial() -> None:
    log = _read()
    assert len(log.trials) == 16
    assert Counter([trial.status for trial in log.trials]) == {"ok": 14, "error": 2}
    assert [trial.repeat for trial in log.trials[:2]] == [0, 1]
    assert (log.complete, log.mismatches) == (True, ())


def test_ids_with_slashes_and_the_word_epoch_are_kept_whole() -> None:
    assert {trial.foreign_id for trial in _read().trials} >= {"g/0_epoch_0", "g/6_epoch_6", "talk"}


def test_labels_come_from_the_mapping_only() -> None:
    plain = _read()
    assert {v.label for trial in plain.trials for v in trial.verdicts.values()} == {Label.UNKNOWN}
    mapped = _read(mapping=_MAP)
    labels = Counter([trial.verdicts["includes"].label for trial in mapped.trials if trial.verdicts])
    assert labels == {Label.SAFE: 12, Label.UNSAFE: 2}
    assert {trial.verdicts["answered"].cause for trial in mapped.trials if trial.verdicts} == {Cause.UNSUPPORTED}


def test_a_sample_with_an_error_has_no_verdict_and_no_answer() -> None:
    broken = [trial for trial in _read(mapping=_MAP).trials if trial.status == "error"]
    assert [(trial.answer, trial.verdicts, trial.cause) for trial in broken] == [(None, {}, "sample_error")] * 2


def test_a_content_filter_of_the_proxy_is_kept_as_such() -> None:
    blocked = [trial.answer for trial in _read().trials if trial.foreign_id == "g/2_epoch_2"]
    assert [answer.finish for answer in blocked if answer is not None] == ["content_filter"] * 2


def test_the_truth_comes_from_the_field_that_is_named() -> None:
    assert {trial.truth for trial in _read().trials} == {"unknown"}
    named = Counter([trial.truth for trial in _read(truth_field="truth").trials])
    assert named == {"benign": 14, "harmful": 2}
    assert {trial.truth for trial in _read(truth_field="topic").trials} == {"unknown"}


def test_a_killed_run_is_incomplete_and_its_missing_samples_are_planned() -> None:
    log = _read("inspect-killed.eval")
    assert not log.complete
    assert Counter([trial.status for trial in log.trials]) == {"ok": 10, "missing": 6}


def test_zstandard_members_need_the_extra_and_say_so() -> None:
    if importlib.util.find_spec("backports") is None or importlib.util.find_spec("backports.zstd") is None:
        with pytest.raises(ConfigError, match=r"guardrail-proxy\[inspect\]"):
            _read("inspect-zstd.eval")
    else:
        assert _read("inspect-zstd.eval").trials == _read().trials


def test_nan_is_unscored_and_not_safe(tmp_path: Path) -> None:
    def unscore(body: dict[str, Any]) -> None:
        body["scores"]["includes"]["value"] = float("nan")

    verdict = _first(change_inspect(tmp_path / "log.eval", _FIRST, unscore), mapping=_MAP).verdicts["includes"]
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.ABSTAINED)


@pytest.mark.parametrize("value", [True, 1, 1.0])
def test_numbers_and_booleans_are_mapped_by_value(tmp_path: Path, value: object) -> None:
    path = change_inspect(tmp_path / "log.eval", _FIRST, lambda body: body["scores"]["includes"].update(value=value))
    text = "true" if value is True else "1"
    assert _first(path, mapping={("includes", text): Label.UNSAFE}).verdicts["includes"].label is Label.UNSAFE


def test_a_list_of_values_is_unknown_and_its_text_is_not_kept(tmp_path: Path) -> None:
    long = ["violet umbrella"] * 9
    path = change_inspect(tmp_path / "log.eval", _FIRST, lambda body: body["scores"]["includes"].update(value=long))
    verdict = _first(path).verdicts["includes"]
    assert verdict.cause is Cause.UNSUPPORTED
    assert "umbrella" not in (verdict.detail or "")


def test_attachments_are_put_where_they_are_named(tmp_path: Path) -> None:
    def attach(body: dict[str, Any]) -> None:
        body["attachments"] = {"abc": "a long violet text"}
        body["input"] = "attachment://abc"

    assert _first(change_inspect(tmp_path / "log.eval", _FIRST, attach)).messages[0].content == "a long violet text"


def test_reasoning_is_a_channel_of_its_own(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "yes"}]

    def think(body: dict[str, Any]) -> None:
        body["output"]["choices"][0]["message"]["content"] = parts

    answer = _first(change_inspect(tmp_path / "log.eval", _FIRST, think)).answer
    assert (answer.text, answer.reasoning) == ("yes", "hm")


def test_totals_that_do_not_fit_the_rows_are_named(tmp_path: Path) -> None:
    path = change_inspect(
        tmp_path / "log.eval", "header.json", lambda body: body["results"].update(completed_samples=16)
    )
    assert read_inspect(path, ImportOptions()).mismatches == (
        "completed_samples is 16, 14 samples ended without an error",
    )


def test_the_json_form_gives_the_same_trials(tmp_path: Path) -> None:
    with zipfile.ZipFile(LOGS / "inspect.eval") as archive:
        header = json.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        header["samples"] = [json.loads(archive.read(name)) for name in names]
    (tmp_path / "log.json").write_text(json.dumps(header))
    assert read_inspect(tmp_path / "log.json", ImportOptions()).trials == _read().trials


def test_a_mapping_of_an_unknown_scorer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'match'; this log has answered, includes"):
        _read(mapping={("match", "C"): Label.SAFE})


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"eval": []}'])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(DatasetError):
        read_inspect(tmp_path / "other", ImportOptions())


def test_an_archive_without_header_and_start_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DatasetError, match=r"neither header\.json nor _journal/start\.json"):
        read_inspect(tmp_path / "log.eval", ImportOptions())
