"""Hashes of locked files, remembered by identity in a side file (embedded PL-04)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from supervisors.hashes import Hashes, hash_file

OLD_S = 3600


def put(file: Path, content: bytes, *, age_s: int = OLD_S) -> Path:
    file.write_bytes(content)
    stamp = file.stat().st_mtime - age_s
    os.utime(file, (stamp, stamp))
    return file


def remembered(side: Path, file: Path, digest: str) -> None:
    """Write a side file that says something about a file, right or wrong."""
    found = file.stat()
    identity = [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    side.write_text(json.dumps({"version": 1, "files": {str(file.resolve()): [*identity, digest]}}))


def test_a_known_identity_is_not_read_again(tmp_path: Path) -> None:
    file, side = put(tmp_path / "weights", b"violet"), tmp_path / "side"
    remembered(side, file, "f" * 64)  # what the side file says is what is returned, so the file was not read
    assert Hashes(side).digest(file) == "f" * 64


def test_a_change_that_keeps_size_and_time_of_content_is_seen(tmp_path: Path) -> None:
    file, side = put(tmp_path / "weights", b"violet"), tmp_path / "side"
    remembered(side, file, hash_file(file))
    before = file.stat()
    file.write_bytes(b"umbrel")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert Hashes(side).digest(file) == hash_file(file)


def test_a_file_put_in_its_place_is_read(tmp_path: Path) -> None:
    file, side = put(tmp_path / "weights", b"violet"), tmp_path / "side"
    remembered(side, file, "f" * 64)
    put(tmp_path / "other", b"umbrel").replace(file)
    assert Hashes(side).digest(file) == hash_file(file)


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    file, side = put(tmp_path / "weights", b"violet"), tmp_path / "side"  # its metadata changed a moment ago
    hashes = Hashes(side)
    assert hashes.digest(file) == hash_file(file)
    hashes.save()
    assert not side.exists()


def test_what_was_learned_is_kept_for_the_next_start_and_files_that_are_gone_are_not(tmp_path: Path) -> None:
    side, settled = tmp_path / "side", Path(os.__file__)  # a file that is certainly older than a few seconds
    gone = put(tmp_path / "gone", b"violet")
    remembered(side, gone, hash_file(gone))
    gone.unlink()
    hashes = Hashes(side)
    assert hashes.digest(settled) == hash_file(settled)
    hashes.save()
    kept = json.loads(side.read_text())["files"]
    assert list(kept) == [str(settled.resolve())]
    assert kept[str(settled.resolve())][-1] == hash_file(settled)
    assert [entry.name for entry in tmp_path.iterdir()] == ["side"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "files": {}}',
        '{"version": 1, "files": []}',
        '{"version": 1, "files": {"/a": [1]}}',
    ],
)
def test_a_side_file_that_cannot_be_read_is_empty(tmp_path: Path, text: str) -> None:
    file, side = put(tmp_path / "weights", b"violet"), tmp_path / "side"
    side.write_text(text)
    assert Hashes(side).digest(file) == hash_file(file)


def test_a_folder_that_takes_no_side_file_is_no_failure(tmp_path: Path) -> None:
    hashes = Hashes(tmp_path / "absent" / "side")
    assert hashes.digest(Path(os.__file__)) == hash_file(Path(os.__file__))
    hashes.save()
    assert not (tmp_path / "absent").exists()
