from __future__ import annotations

import re
from pathlib import Path

import pytest

from evals.folder import RunFolder, make_run_id, read_json, write_json
from evals.types import sha256_text
from supervisors.errors import StoreError


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.make()
    return made


def test_two_runs_of_one_second_have_different_names() -> None:  # H-25
    names = {make_run_id() for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-[a-z2-7]{6}", name) for name in names)


@pytest.mark.parametrize("text", ["hello", "\ud800 alone", "a\x00b", "é\r\n ", ""])
def test_a_text_comes_back_by_its_hash(folder: RunFolder, text: str) -> None:  # H-109
    assert folder.keep_text(text) == sha256_text(text)
    assert folder.read_text(sha256_text(text)) == text


def test_texts_are_for_their_owner_only(folder: RunFolder) -> None:
    path = folder.text_path(folder.keep_text("hello"))
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_text_that_is_missing_or_altered_is_none(folder: RunFolder) -> None:
    assert folder.read_text("0" * 64) is None
    sha256 = folder.keep_text("hello")
    folder.text_path(sha256).write_text('{"text": "goodbye"}')
    assert folder.read_text(sha256) is None


def test_the_lock_of_a_dead_process_is_taken_over_with_a_note(folder: RunFolder) -> None:  # H-112
    with folder.locked() as note:
        assert note is None
        held = (folder.path / "lock").read_text()
    (folder.path / "lock").write_text(held)
    with folder.locked() as note:
        assert note is not None
        assert "was taken over" in note


def test_a_lock_given_up_after_an_error_is_not_that_of_a_dead_process(folder: RunFolder) -> None:  # H-112
    with pytest.raises(StoreError, match="cannot be read"), folder.locked():
        read_json(folder.manifest)
    with folder.locked() as note:
        assert note is None


def test_a_lock_of_another_host_is_respected(folder: RunFolder) -> None:  # H-112
    (folder.path / "lock").write_text("7@elsewhere\n")
    with pytest.raises(StoreError, match="locked by 7@elsewhere on another host"), folder.locked():
        pytest.fail("locked")


def test_a_file_that_is_no_json_object_says_so(folder: RunFolder) -> None:
    folder.manifest.write_text("[]")
    with pytest.raises(StoreError, match="is not a JSON object"):
        read_json(folder.manifest)


def test_json_files_are_the_same_bytes_for_the_same_value(folder: RunFolder) -> None:
    write_json(folder.summary, {"b": 1, "a": [2, None]})
    first = folder.summary.read_bytes()
    write_json(folder.summary, {"a": [2, None], "b": 1})
    assert folder.summary.read_bytes() == first


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:  # H-110
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        RunFolder(tmp_path / "file" / "run").make()
