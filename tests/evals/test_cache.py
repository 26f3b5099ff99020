"""The cache of finished trials: what is kept, what is never kept, and what a cached trial says (H-120)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.cache import Cache, is_kept
from evals.cli import main
from evals.metrics import FAILURES
from evals.plan import PlannedTrial
from evals.prepare import prepare
from evals.session import check_reachable
from evals.trials import Finished, outline
from supervisors.errors import ConfigError
from tests.evals.harness import make_options, make_run, make_words_guard
from tests.evals.test_discrimination import row

PLANNED: PlannedTrial = replace(row(0, harmful=True, score=None).planned, trial_key="ab" * 32, prompt_sha256="c" * 64)

PLANNED_ANSWERED = replace(PLANNED, arm="enforced")


def _finished(finish: str | None = "stop", *, status: str = "ok", cause: str | None = None) -> Finished:
    fields = outline(PLANNED, status, None, None)
    fields["answer"] = None if finish is None else {"sha256": "d" * 64, "chars": 3, "finish_reason": finish}
    fields["latency"] = {"service_s": 0.5}
    fields["verdicts"] = [{"supervisor": "words", "stage": "input", "cause": cause, "cached": False, "seconds": 0.2}]
    return Finished(fields | {"record_id": "r", "cost_usd": 0.1, "attempts": 2}, ("a text",))


def test_a_cached_trial_says_so_and_has_no_time_and_no_cost(tmp_path: Path) -> None:  # H-120, H-34
    cache = Cache(tmp_path, keep_texts=True)
    assert cache.get(PLANNED) is None
    cache.put(PLANNED, _finished())
    found = cache.get(PLANNED)
    assert found is not None
    assert found.texts == ("a text",)
    wanted = {"cached": True, "latency": None, "cost_usd": 0.0, "record_id": None, "attempts": 0}
    assert {name: found.fields[name] for name in wanted} == wanted
    assert found.fields["answer"] == _finished().fields["answer"]
    verdict: Any = found.fields["verdicts"]
    assert (verdict[0]["cached"], verdict[0]["seconds"]) == (True, None)


@pytest.mark.parametrize(
    "finished",
    [
        _finished("content_filter"),
        _finished("length"),
        _finished(None),
        _finished(status="error"),
        _finished(cause="timeout"),
        _finished(cause="error"),
        _finished(cause="overloaded"),
        _finished(cause="unparsable"),
    ],
)
def test_errors_filters_and_cut_answers_are_never_kept(finished: Finished) -> None:  # H-120, H-35
    assert not is_kept(PLANNED_ANSWERED, finished)


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_answers_that_ended_by_themselves_are_kept(finish: str) -> None:  # H-120
    assert is_kept(PLANNED_ANSWERED, _finished(finish))


@pytest.mark.parametrize(
    ("cause", "kept"),
    [(None, True), ("over_limit", True), *[(one, False) for one in sorted([each.value for each in FAILURES])]],
)
def test_a_check_is_kept_when_nobody_in_it_failed(cause: str | None, kept: bool) -> None:  # H-120
    assert is_kept(PLANNED, _finished(None, cause=cause)) is kept
    assert not is_kept(PLANNED, _finished(None, status="error"))


def test_a_second_run_of_checks_asks_nobody_again(tmp_path: Path) -> None:  # H-120
    options = make_options(tmp_path, arms="check", cache=str(tmp_path / "cache"))
    first, second = (make_run(tmp_path / name, options) for name in ("one", "two"))
    assert [line["cached"] for line in first.lines] == [False] * 10
    assert [line["cached"] for line in second.lines] == [True] * 10
    assert second.section["rates"] == first.section["rates"]


def test_a_server_is_looked_for_unless_every_trial_lies_in_the_cache(tmp_path: Path) -> None:  # H-120
    cache = tmp_path / "cache"
    options = make_options(tmp_path, ledger="off", cache=str(cache), target="http://127.0.0.1:9/v1#m")
    prepared = prepare(options, {}, make_words_guard())
    kept = Cache(cache, keep_texts=True)
    for trial in prepared.plan:
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9"):
            check_reachable(prepared)
        kept.put(trial, Finished(outline(trial, "ok", None, None)))
    check_reachable(prepared)


def test_another_repeat_or_prompt_finds_nothing(tmp_path: Path) -> None:  # H-120, H-33
    cache = Cache(tmp_path, keep_texts=True)
    cache.put(PLANNED, _finished())
    assert cache.get(replace(PLANNED, trial_key="ac" * 32)) is None
    assert cache.get(replace(PLANNED, prompt_sha256="e" * 64)) is None


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"fields": {}}', "swap"])
def test_a_damaged_file_is_asked_again(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path, keep_texts=True)
    cache.put(PLANNED, _finished())
    (path,) = tmp_path.glob("*/*.json")
    path.write_text(path.read_text().replace("a text", "another") if damage == "swap" else damage)
    assert cache.get(PLANNED) is None


def test_a_run_of_hashes_keeps_no_text_in_the_cache(tmp_path: Path) -> None:  # H-111
    hashes, texts = Cache(tmp_path, keep_texts=False), Cache(tmp_path, keep_texts=True)
    hashes.put(PLANNED, _finished())
    assert "a text" not in next(tmp_path.glob("*/*.json")).read_text()
    assert hashes.get(PLANNED) is not None
    assert texts.get(PLANNED) is None  # this run keeps texts, and there are none


def test_a_second_run_asks_nothing_again_and_repeats_stay_apart(tmp_path: Path) -> None:  # H-120, H-33
    options = make_options(tmp_path, repeats=2, cache=str(tmp_path / "cache"))
    first, second = (make_run(tmp_path / name, options) for name in ("one", "two"))
    lines = [json.loads(line) for line in second.folder.journal.read_text().splitlines()]
    trials = [line for line in lines if line["type"] == "trial"]
    assert [line["cached"] for line in trials] == [True] * 20
    assert len(list((tmp_path / "cache").glob("*/*.json"))) == 20
    assert not list(second.folder.path.glob("proxy-*.sqlite3")) or first.folder.path.exists()
    assert second.section["rates"] == first.section["rates"]
    effort: Any = second.summary["effort"]
    assert (effort["cached_trials"], effort["cost_usd"]) == (20, 0.0)
    assert effort["latency"][0]["service_s"] is None
    assert effort["latency"][0]["supervisors"] == {}
    code = main(["verify", str(second.folder.path)])
    assert code == 0
    assert main(["audit", str(second.folder.path)]) == 0


def test_the_policy_of_a_running_proxy_is_in_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replay", "smoke", "--proxy", "http://127.0.0.1:9", "--ledger", "off", "--cache", str(tmp_path), "--yes"]
    assert main([*words, "--runs-dir", str(tmp_path)]) == 2
    assert "--cache" in capsys.readouterr().err
