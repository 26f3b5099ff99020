"""Transfers that break off, lie or lead elsewhere (embedded PL-01, PL-08)."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.fetching import Web
from supervisors.errors import PullError
from tests.proxy.fake_files import FakeFiles, serve_files

CONTENT = bytes(range(256)) * 1000


def fetch(files: FakeFiles, folder: Path, path: str = "violet.gguf", **options: int) -> Path:
    target = folder / "target"
    with serve_files(files):
        Web(files.url.removeprefix("http://"), name="the server").fetch(f"{files.url}/{path}", path, target, **options)
    return target


def test_a_transfer_that_breaks_off_is_taken_up_where_it_stopped(tmp_path: Path) -> None:
    files = FakeFiles({"violet.gguf": CONTENT}, cuts=[100_000, 100_000])
    assert fetch(files, tmp_path).read_bytes() == CONTENT
    first, second, third = [asked for _, asked in files.asked]
    assert first is None
    assert second is not None
    assert third is not None
    begun, again = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in (second, third)]
    assert 0 < begun <= 100_000
    assert begun < again <= begun + 100_000


def test_a_server_without_ranges_sends_it_all_again(tmp_path: Path) -> None:
    files = FakeFiles({"violet.gguf": CONTENT}, cuts=[100_000], ranges=False)
    assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert len(files.asked) == 2


def test_three_breaks_are_enough(tmp_path: Path) -> None:
    with pytest.raises(PullError, match=r"the transfer of violet\.gguf broke off: RemoteProtocolError"):
        fetch(FakeFiles({"violet.gguf": CONTENT}, cuts=[10, 10, 10]), tmp_path)


def test_another_part_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PullError, match="the server sent another part of violet"):
        fetch(FakeFiles({"violet.gguf": CONTENT}, cuts=[100_000], shift=7), tmp_path)


def test_nothing_is_read_that_has_no_announced_end(tmp_path: Path) -> None:
    with pytest.raises(PullError, match="does not say how long violet"):
        fetch(FakeFiles({"violet.gguf": CONTENT}, silent=True), tmp_path)


def test_what_is_longer_than_announced_is_not_read_to_its_end(tmp_path: Path) -> None:
    assert fetch(FakeFiles({"violet.gguf": CONTENT}), tmp_path, most=10).stat().st_size <= 10 + (1 << 16)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (FakeFiles({}), "the server answered 404 for violet"),
        (FakeFiles({}, moved="http://elsewhere.example"), "redirects to elsewhere.example, which is no content host"),
    ],
)
def test_what_goes_wrong_is_named(files: FakeFiles, message: str, tmp_path: Path) -> None:
    with pytest.raises(PullError, match=message):
        fetch(files, tmp_path)
    assert not (tmp_path / "target").exists()


def test_circles_end(tmp_path: Path) -> None:
    files = FakeFiles({})
    with serve_files(files):
        files.moved = files.url
        web = Web(files.url.removeprefix("http://"), name="the server")
        with pytest.raises(PullError, match="redirects in circles"):
            web.fetch(f"{files.url}/x", "x", tmp_path / "target")
    assert len(files.asked) == 5
