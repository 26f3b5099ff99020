"""What a worker gets from the process above it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from proxy.workers.seat import Seat, make_key
from tests.e2e.processes import run_command


def test_a_seat_is_handed_on_as_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    assert Seat.parse(str(Seat(folder, 3, 4, 5))) == Seat(folder, 3, 4, 5)


def test_the_key_is_the_same_for_each_worker_and_in_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    key = make_key()
    try:
        assert list(tmp_path.iterdir()) == []
        first, second = (Seat(tmp_path, 3, 4, key).read_key() for _ in range(2))
        assert (first, len(first)) == (second, 32)
    finally:
        os.close(key)


def test_the_folder_goes_with_the_process_above_or_with_the_last_worker(tmp_path: Path) -> None:
    folder = tmp_path / "common"
    folder.mkdir()
    (folder / "key").touch()
    parent, ours = os.pipe()
    seat = Seat(folder, 0, parent, 0)
    seat.leave()
    assert folder.exists()
    os.close(ours)
    seat.leave()
    assert not folder.exists()
    os.close(parent)


async def test_workers_need_a_folder_to_share(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"upstreams": {"main": {"base_url": "http://127.0.0.1:9/v1"}}}))
    command = ("serve", "--config", path, "--port", "0", "--workers", "2")
    ended = await run_command(*command, environ={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "nowhere")})
    assert ended.code == 2
    assert "error: no folder for the workers: No such file or directory; set PROMETHEUS_MULTIPROC_DIR" in ended.err
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    ended = await run_command(*command, environ={"PROMETHEUS_MULTIPROC_DIR": str(deep)})
    assert (ended.code, "is too long for sockets in it" in ended.err) == (2, True)
    assert list(deep.iterdir()) == []
