"""The lock file of pulled guards (embedded PL-03 to PL-05)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from supervisors.errors import ConfigError, MissingError
from supervisors.lock import (
    Licence,
    Lock,
    LockedFile,
    LockedGuard,
    check_locked,
    find_differences,
    find_locked,
    read_lock,
    side_file,
)

CONTENT = b"violet weights"


def entry(*files: LockedFile) -> LockedGuard:
    locked = files or (
        LockedFile(path="onnx/model.onnx", size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest()),
    )
    licence = Licence(id="mit", accepted="2026-01-31T12:00:00Z")
    return LockedGuard(repo="a/b", revision="0" * 40, licence=licence, folder="guards/violet", files=locked)


def put(folder: Path, content: bytes = CONTENT) -> Path:
    file = folder / "onnx" / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_a_lock_survives_its_file_and_an_absent_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "guards.lock"
    assert read_lock(file) == Lock()
    lock = Lock(guards={"violet": entry()})
    file.write_text(lock.to_text())
    assert read_lock(file) == lock


def test_a_guard_without_an_entry_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="guardrail-proxy guard pull violet"):
        find_locked(Lock(), "violet", tmp_path / "guards.lock")


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', '{"guards": {"a": {}}}', '{"version": 1, "more": 1}'])
def test_a_file_that_is_no_lock_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "guards.lock"
    file.write_text(text)
    with pytest.raises(ConfigError, match="is no lock file"):
        read_lock(file)


def test_files_as_they_were_pass(tmp_path: Path) -> None:
    put(tmp_path)
    check_locked(tmp_path, entry())
    assert list(find_differences(tmp_path, entry())) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is not there"), (b"longer than that", "has 16 bytes, 14 are locked"), (b"violet weightz", "has sha256")],
)
def test_a_file_that_differs_is_named_with_expected_and_found(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        put(tmp_path, content)
    with pytest.raises(ConfigError, match=message):
        check_locked(tmp_path, entry())


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    outside = put(tmp_path / "elsewhere")
    inside = tmp_path / "guard" / "onnx"
    inside.mkdir(parents=True)
    (inside / "model.onnx").symlink_to(outside)
    with pytest.raises(ConfigError, match="leads out"):
        check_locked(tmp_path / "guard", entry())


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a\\b", ""])
def test_a_path_that_leads_out_of_the_folder_is_no_entry(path: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        LockedFile(path=path, size=0, sha256="0" * 64)


def test_a_remembered_hash_is_believed_until_the_file_changes(tmp_path: Path) -> None:
    file, side = put(tmp_path), side_file(tmp_path / "guards.lock")
    assert side.name == ".guards.lock.hashes"
    found = file.stat()
    identity = [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    side.write_text(json.dumps({"version": 1, "files": {str(file.resolve()): [*identity, "f" * 64]}}))
    with pytest.raises(ConfigError, match=f"has sha256 {'f' * 64}"):
        check_locked(tmp_path, entry(), side)
    check_locked(tmp_path, entry())  # verify: always
    put(tmp_path, b"violet weightz")
    with pytest.raises(ConfigError, match="has sha256"):
        check_locked(tmp_path, entry(), side)
