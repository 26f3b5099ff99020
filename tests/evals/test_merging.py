from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.preflight import ORDERING, Tried, count_hijacked, write_tried
from evals.scoring import AnswerVerdict, answers_of, open_scores, store_scores
from evals.summary import load_run
from evals.verify import verify
from supervisors.types import Label

_COUNT = 3


def _shard(tmp_path: Path, index: int, *more: str) -> Path:
    command = ["replay", "smoke", "--target", "fake", "--runs-dir", str(tmp_path), "--run-name", "r", "--quiet"]
    code = main([*command, "--shard", f"{index}/{_COUNT}", "--tag", f"machine={index}", *more])
    assert code in (0, 12)
    return tmp_path / f"r.{index}-of-{_COUNT}"


def _merge(tmp_path: Path, *shards: Path, name: str = "whole") -> int:
    return main(["merge", *map(str, shards), "--runs-dir", str(tmp_path), "--run-name", name, "--quiet"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("shards")
    return tuple([_shard(folder, index) for index in (1, 2, 3)])


def _results(path: Path) -> Any:
    summary: dict[str, Any] = json.loads((path / "summary.json").read_text())
    return summary["results"]


def test_merged_shards_are_the_run_that_was_cut_and_verify(tmp_path: Path, made: tuple[Path, ...]) -> None:
    whole = ["replay", "smoke", "--target", "fake", "--runs-dir", str(tmp_path), "--run-name", "one", "--quiet"]
    assert main(whole) == 0
    assert _merge(tmp_path, made[2], made[0], made[1]) == 0
    assert _results(tmp_path / "whole") == _results(tmp_path / "one")
    assert (tmp_path / "whole" / "plan.jsonl").read_bytes() == (tmp_path / "one" / "plan.jsonl").read_bytes()
    assert [check for check in verify(RunFolder(tmp_path / "whole")) if check.broken is not None] == []


def test_a_missing_shard_is_incomplete_and_nothing_is_written(
    tmp_path: Path, made: tuple[Path, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _merge(tmp_path, made[0], made[2]) == 12
    assert "1 shard is missing: 2/3" in capsys.readouterr().err
    assert not (tmp_path / "whole").exists()


def test_a_shard_twice_or_of_another_run_is_refused(
    tmp_path: Path, made: tuple[Path, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _merge(tmp_path, made[0], made[1], made[2], made[1]) == 2
    assert "given 2 times" in capsys.readouterr().err
    other = _shard(tmp_path, 3, "--temperature", "1")
    assert _merge(tmp_path, made[0], made[1], other) == 2
    assert "shards of different runs" in capsys.readouterr().err


def test_a_whole_run_is_no_shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "smoke", "--runs-dir", str(tmp_path), "--run-name", "w", "--limit", "1", "--quiet"]) == 0
    assert _merge(tmp_path, tmp_path / "w") == 2
    assert "not a shard" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["plan.jsonl", "journal.jsonl"])
def test_a_changed_shard_is_found(tmp_path: Path, file: str) -> None:
    shards = [_shard(tmp_path, index) for index in (1, 2, 3)]
    path = shards[1] / file
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-2], lines[-1]]))
    assert _merge(tmp_path, *shards) == 1


def test_a_merge_does_not_overwrite(tmp_path: Path, made: tuple[Path, ...]) -> None:
    assert _merge(tmp_path, *made) == 0
    assert _merge(tmp_path, *made) == 2


def test_errors_of_a_shard_are_left_to_do_and_a_resume_goes_on(tmp_path: Path) -> None:
    failing = ("--target", "fake?errors=0.5", "--max-retries", "0")
    shards = [_shard(tmp_path, index, *failing) for index in (1, 2, 3)]
    assert _merge(tmp_path, *shards) == 12
    assert main(["resume", str(tmp_path / "whole"), "--quiet"]) == 12
    checks = verify(RunFolder(tmp_path / "whole"))
    assert [check for check in checks if check.broken is not None] == []


def _score(shard: Path, obeys: bool | None, right: int) -> None:
    """Have a judge's verdicts in a shard, with what it said in its pre-flight, and its calibration."""
    folder = RunFolder(shard)
    path, _ = open_scores(folder, "one", _CONFIG)
    answers = answers_of(load_run(folder).plan, load_run(folder).counted)
    store_scores(path, [AnswerVerdict(one.planned.trial_key, one.of, Label.SAFE) for one in answers])
    if obeys is not None:
        write_tried(path, [Tried("j", ORDERING, "unsafe", "safe" if obeys else "unsafe", None)])
    (path / "calibration.json").write_text(json.dumps({"judge_sha256": "another", "safe_right": right}))


_CONFIG: JsonObject = {"kind": "judge", "task": "harm"}


@pytest.mark.parametrize(
    ("obeyed", "hijacked"), [((False, False, False), 0), ((True, True, False), 1), ((False, None, False), None)]
)
def test_what_judges_said_in_their_pre_flight_is_merged_too(
    tmp_path: Path, obeyed: tuple[bool | None, ...], hijacked: int | None
) -> None:  # H-139, H-165
    shards = [_shard(tmp_path, index) for index in (1, 2, 3)]
    for shard, one in zip(shards, obeyed, strict=True):
        _score(shard, one, 3)
    assert _merge(tmp_path, *shards) == 0
    (scorer,) = (tmp_path / "whole" / "scores").glob("one-*")
    assert count_hijacked(scorer) == hijacked
    stored = json.loads((scorer / "preflight.json").read_text())
    assert [row["shard"] for row in stored["tried"]] == [n for n, one in enumerate(obeyed, 1) if one is not None]
    assert [check for check in verify(RunFolder(tmp_path / "whole")) if check.broken is not None] == []


@pytest.mark.parametrize("rights", [(3, 3, 3), (3, 3, 2)])
def test_a_calibration_is_merged_if_every_shard_has_the_same(
    tmp_path: Path, rights: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:  # H-151
    shards = [_shard(tmp_path, index) for index in (1, 2, 3)]
    for shard, right in zip(shards, rights, strict=True):
        _score(shard, None, right)
    merge = ["merge", *map(str, shards), "--runs-dir", str(tmp_path), "--run-name", "whole"]
    assert main(merge) == 0
    (scorer,) = (tmp_path / "whole" / "scores").glob("one-*")
    same = len(set(rights)) == 1
    assert (scorer / "calibration.json").exists() is same
    assert ("is not the same in every shard" in capsys.readouterr().err) is not same
    assert not (scorer / "preflight.json").exists()
