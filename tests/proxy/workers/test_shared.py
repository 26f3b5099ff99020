"""All workers of a host serve with one config text (O-06, R-04)."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.workers.shared import SharedSource, publish
from supervisors.errors import ConfigError

TEXT = 'upstreams: {main: {base_url: "http://127.0.0.1:8000/v1"}}\ntasks: [WORD]\n'


def pair(folder: Path) -> tuple[Path, SharedSource, SharedSource]:
    file = folder / "config.yaml"
    file.write_text(TEXT.replace("WORD", "old"))
    publish(folder, file.read_text())
    one, two = SharedSource(file, folder), SharedSource(file, folder)
    for source in (one, two):
        assert source.read().tasks == ("old",)
        source.applied()
        assert not source.behind()
    return file, one, two


def test_a_worker_that_was_not_told_follows_the_one_that_was(tmp_path: Path) -> None:  # O-06, R-04
    file, one, two = pair(tmp_path)
    file.write_text(TEXT.replace("WORD", "new"))
    assert not two.behind()  # nobody serves with it yet
    assert one.read().tasks == ("new",)
    assert not two.behind()
    one.applied()
    assert (one.behind(), two.behind()) == (False, True)
    assert two.read().tasks == ("new",)
    two.applied()
    assert not two.behind()


def test_a_wrong_file_changes_nothing_for_nobody(tmp_path: Path) -> None:  # O-05, R-05
    file, one, two = pair(tmp_path)
    file.write_text("models: 7")
    with pytest.raises(ConfigError, match=r"config\.yaml.*models"):
        one.read()
    assert not two.behind()
    late = SharedSource(file, tmp_path)
    assert late.read().tasks == ("old",)
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        two.read()


def test_the_file_is_looked_at_by_its_content(tmp_path: Path) -> None:
    file, one, _ = pair(tmp_path)
    before = one.fingerprint()
    file.write_text(TEXT.replace("WORD", "new"))
    assert one.fingerprint() not in (before, None)


def test_a_shared_text_that_is_cleared_away_is_put_back(tmp_path: Path) -> None:
    _, one, two = pair(tmp_path)
    (tmp_path / "config").unlink()
    assert not one.behind()
    assert (tmp_path / "config").read_text() == TEXT.replace("WORD", "old")
    assert not two.behind()


def test_a_shared_text_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    file, one, _ = pair(tmp_path)
    (tmp_path / "config").unlink()
    (tmp_path / "config").mkdir()
    assert not one.behind()
    with pytest.raises(ConfigError, match="the config that the workers share cannot be read: "):
        one.read()
    assert one.parsed == one.fingerprint()
    file.write_text("\ufeff" + file.read_text(), "utf-8")
    assert one.parsed == one.fingerprint()
