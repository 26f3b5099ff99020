"""The author's guide, followed to the letter: its files under its names, its commands in its order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
_PAGE = (ROOT / "docs" / "writing-supervisors.md").read_text("utf-8")
GUIDE = _PAGE.split("## A supervisor in ten lines", 1)[1].split("\n## ", 1)[0]
_FILE = re.compile(r"`([\w./]+\.(?:py|toml|yaml))`(?:(?!```).)*?^```\w+[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TOOL = "pip install pytest"
"""The one command that is not run here: these tests ask no index, and have it."""


def commands() -> list[str]:
    found = re.search(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return [line for line in found[1].splitlines() if line != _TOOL]


def run(folder: Path, command: str, site: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the guide as a shell does; pip installs apart from everything else, and asks nobody."""
    apart: Mapping[str, str] = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - handed on to a child
        "PYTHONPATH": f"{site}:{ROOT}",
        "PIP_TARGET": str(site),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for "no isolation"
        "HOME": str(folder),
    }
    line = ["bash", "-c", command]
    return subprocess.run(line, cwd=folder, env=apart, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the guide's files and run its first command."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: run make test")
    folder = tmp_path_factory.mktemp("author")
    written = dict(_FILE.findall(GUIDE))
    assert sorted(written) == [
        "loud.yaml",
        "shouting/pyproject.toml",
        "shouting/shouting.py",
        "shouting/test_shouting.py",
    ]
    for name, text in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    first, *_ = commands()
    installed = run(folder, first, folder / "site")
    assert (first, installed.returncode) == ("pip install ./shouting", 0), installed.stderr
    return folder


def test_the_guide_says_what_its_test_needs() -> None:
    assert "a folder outside the checkout" in GUIDE
    assert f"\n{_TOOL}\npython -m pytest shouting\n" in GUIDE


@pytest.mark.slow
def test_the_commands_of_the_guide_do_what_it_says(followed: Path) -> None:
    ended = [run(followed, command, followed / "site") for command in commands()[1:]]
    assert [one.returncode for one in ended] == [0, 0, 0], [one.stderr for one in ended]
    tested, valid, tried = [one.stdout for one in ended]
    assert "1 passed" in tested
    assert valid.startswith("valid, version ")
    assert '"label": "unsafe"' in tried


@pytest.mark.slow
def test_its_options_are_checked_like_ours(followed: Path, tmp_path: Path) -> None:
    config = (followed / "loud.yaml").read_text().replace("share: 0.5", "share: loud")
    (tmp_path / "c.yaml").write_text(config)
    found = run(tmp_path, "guardrail-proxy validate c.yaml", followed / "site")
    assert found.returncode == 2
    assert "c.yaml:4:25: supervisors.loud.share: " in found.stderr


@pytest.mark.slow
def test_without_the_distribution_the_word_is_unknown(followed: Path, tmp_path: Path) -> None:
    shutil.copy(followed / "loud.yaml", tmp_path)
    found = run(tmp_path, "guardrail-proxy validate loud.yaml", tmp_path / "nothing")
    assert found.returncode == 2
    assert "unknown supervisor kind 'shouting'" in found.stderr
