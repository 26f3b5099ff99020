from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.prepare import prepare
from evals.selection import Selection
from evals.verify import verify
from tests.evals.harness import Run, make_options, make_run, make_words_guard

_NAMES = ("base64", "prefix")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("transforms")
    return make_run(path / "run", make_options(path, arms="check", transforms=_NAMES))


def _harmful(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.section["transforms"]["policy"]["harmful"]
    return found


def test_every_item_is_sent_as_it_is_and_in_every_form(run: Run) -> None:
    planned = [trial.transform for trial in run.prepared.plan]
    assert {name: planned.count(name) for name in set(planned)} == {"none": 10, "base64": 10, "prefix": 10}


def test_each_transform_is_paired_with_its_root_hs_03(run: Run) -> None:
    found = _harmful(run)["transforms"]
    assert found["none"]["flagged"]["k"] == 5
    prefix, packed = found["prefix"], found["base64"]
    assert (prefix["flagged"]["k"], prefix["flagged"]["n"]) == (5, 5)
    assert prefix["compared_with_root"]["n"] == packed["compared_with_root"]["n"] == 5
    assert packed["compared_with_root"]["b"] == 5 - packed["flagged"]["k"]


def test_flagged_in_all_forms_is_never_more_than_in_any_hv_06(run: Run) -> None:
    found = _harmful(run)
    assert found["all_flagged"]["k"] <= min([one["flagged"]["k"] for one in found["transforms"].values()])


def test_a_run_with_transforms_verifies_and_its_trials_carry_them(run: Run) -> None:
    assert [check for check in verify(run.folder) if check.broken is not None] == []
    plan = [json.loads(line) for line in run.folder.plan.read_text().splitlines()]
    clusters = {line["cluster_id"] for line in plan}
    assert len(clusters) == 10
    assert clusters == {line["cluster_id"] for line in plan if line["transform"] == "none"}


def test_the_report_shows_the_transforms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["direct", "smoke", "--transform", "leet", "--transform", "story", "--runs-dir", str(tmp_path), "--quiet"]
    assert main([*command, "--run-name", "r", "--allow-contaminated"]) == 0
    printed = capsys.readouterr().out
    assert "change to the untransformed" in printed
    assert "in all of them" in printed
    assert "Under transforms" in (tmp_path / "r" / "report" / "report.html").read_text()


def test_other_transforms_or_another_seed_make_another_run_h_116(tmp_path: Path) -> None:
    command = ["direct", "smoke", "--limit", "1", "--runs-dir", str(tmp_path), "--run-name", "r", "--quiet"]
    assert main([*command, "--transform", "leet"]) == 0
    assert main([*command, "--transform", "leet"]) == 0
    assert main([*command, "--transform", "base64"]) == 2
    assert main([*command]) == 2


def test_items_of_an_earlier_run_may_be_variants(tmp_path: Path) -> None:
    guard = make_words_guard()
    everything = prepare(make_options(tmp_path, transforms=_NAMES), {}, guard)
    wanted = [trial.item_id for trial in everything.plan if trial.transform == "base64"][:2]
    options = make_options(tmp_path, transforms=_NAMES)
    chosen = prepare(replace(options, selection=Selection(only=tuple(wanted))), {}, guard)
    assert [trial.item_id for trial in chosen.plan] == wanted


def test_transforms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "transforms"]) == 0
    assert "base64" in capsys.readouterr().out


def test_variants_go_through_shards_and_merge(tmp_path: Path) -> None:
    for index in (1, 2):
        command = ["direct", "smoke", "--transform", "prefix", "--shard", f"{index}/2", "--run-name", "r", "--quiet"]
        assert main([*command, "--runs-dir", str(tmp_path)]) == 0
    shards = [str(tmp_path / f"r.{index}-of-2") for index in (1, 2)]
    assert main(["merge", *shards, "--runs-dir", str(tmp_path), "--run-name", "w", "--quiet"]) == 0
    assert [one for one in verify(RunFolder(tmp_path / "w")) if one.broken is not None] == []
