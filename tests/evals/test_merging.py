from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.verify import verify

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
    assert "shards are missing: 2/3" in capsys.readouterr().err
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
