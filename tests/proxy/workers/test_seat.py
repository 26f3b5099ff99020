"""What a worker gets from the process above it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from proxy.workers.seat import Seat
from tests.e2e.processes import run_command


def test_a_seat_is_handed_on_as_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "key").write_bytes(b"k" * 32)
    seat = Seat.parse(str(Seat(folder, 3, 4)))
    assert (seat, seat.read_key()) == (Seat(folder, 3, 4), b"k" * 32)


def test_the_folder_goes_with_the_process_above_or_with_the_last_worker(tmp_path: Path) -> None:
    folder = tmp_path / "common"
    folder.mkdir()
    (folder / "key").touch()
    parent, ours = os.pipe()
    seat = Seat(folder, 0, parent)
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
