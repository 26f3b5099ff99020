"""What must hold before code of a repository is run (PL-02)."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.errors import ConfigError
from supervisors.in_process.code import check_code
from supervisors.lock import Licence, LockedFile, LockedGuard


def entry(*names: str, code: bool = True) -> LockedGuard:
    files = tuple([LockedFile(path=name, size=0, sha256="0" * 64) for name in names])
    licence = Licence(id="x", accepted="x")
    return LockedGuard(repo="a/b", revision="0" * 40, licence=licence, remote_code=code, folder="g", files=files)


def test_locked_code_may_run_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("violet.py", "sub/more.py"):
        (tmp_path / name).write_text("")
    check_code(tmp_path, entry("violet.py", "sub/more.py"), "violet")
    with pytest.raises(ConfigError, match=r"more\.py is not in the lock, so nothing of violet is run"):
        check_code(tmp_path, entry("violet.py"), "violet")


@pytest.mark.parametrize("locked", [entry("config.json"), entry("violet.py", code=False)])
def test_a_lock_without_code_names_the_option(tmp_path: Path, locked: LockedGuard) -> None:
    with pytest.raises(ConfigError, match="--allow-remote-code"):
        check_code(tmp_path, locked, "violet")
