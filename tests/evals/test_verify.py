from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from evals.folder import RunFolder
from evals.verify import verify
from tests.evals.harness import make_options, make_run


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run."""
    path = tmp_path_factory.mktemp("runs") / "run"
    make_run(path, make_options(path.parent))
    return path


def _copy(run_path: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(run_path, tmp_path / "copy")))


def _broken(folder: RunFolder) -> list[str]:
    return [check.broken for check in verify(folder) if check.broken is not None]


def _files(folder: RunFolder) -> list[Path]:
    scores = sorted(folder.scores.glob("*/*.json*"))
    return [folder.manifest, folder.plan, folder.journal, folder.summary, *scores]


def test_a_finished_run_holds(run_path: Path, tmp_path: Path) -> None:  # H-172
    assert _broken(_copy(run_path, tmp_path)) == []


@pytest.mark.parametrize("change", ["delete", "double", "swap", "edit"])
@pytest.mark.parametrize("file", range(6))
def test_any_changed_line_is_found(run_path: Path, tmp_path: Path, file: int, change: str) -> None:  # H-173
    folder = _copy(run_path, tmp_path)
    path = _files(folder)[file]
    lines = path.read_text("ascii").splitlines(keepends=True)
    for index in sorted({0, len(lines) // 2, len(lines) - 1}):
        changed = list(lines)
        match change:
            case "delete":
                del changed[index]
            case "double":
                changed.insert(index, changed[index])
            case "swap":
                other = index - 1 if index else len(lines) - 1
                changed[index], changed[other] = changed[other], changed[index]
            case _:
                text = changed[index]
                place = next(i for i, char in enumerate(text) if char.isalnum() or char in "{}")
                changed[index] = text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :]
        if changed == lines:
            continue
        path.write_text("".join(changed), "ascii")
        assert _broken(folder), f"{path.name} line {index + 1}: {change}"
    path.write_text("".join(lines), "ascii")
    assert _broken(folder) == []


def test_a_changed_text_is_found(run_path: Path, tmp_path: Path) -> None:  # H-172
    folder = _copy(run_path, tmp_path)
    text = next((folder.path / "text").glob("*/*.json"))
    text.write_text('{"text": "another"}')
    assert any("is not the text of its hash" in problem for problem in _broken(folder))


def test_a_lost_text_is_found(run_path: Path, tmp_path: Path) -> None:  # H-172
    folder = _copy(run_path, tmp_path)
    shutil.rmtree(folder.path / "text")
    assert any("is missing" in problem for problem in _broken(folder))


def test_a_lost_proxy_record_is_found(run_path: Path, tmp_path: Path) -> None:  # H-172
    folder = _copy(run_path, tmp_path)
    connection = sqlite3.connect(folder.path / "proxy-observed.sqlite3")
    with connection:
        connection.execute("DELETE FROM records WHERE id = (SELECT id FROM records LIMIT 1)")
    connection.close()
    assert any("0 times in the proxy's journal" in problem for problem in _broken(folder))


def test_a_folder_without_journal_is_broken_and_does_not_raise(run_path: Path, tmp_path: Path) -> None:
    folder = _copy(run_path, tmp_path)
    folder.journal.unlink()
    assert _broken(folder)
