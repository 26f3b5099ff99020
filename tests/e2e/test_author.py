"""The author's guide, followed to the letter: the supervisor of the documents as a distribution of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "supervisors.md").read_text("utf-8").split("## A supervisor of your own", 1)[1]
CONFIG = """
upstreams: {main: {base_url: http://127.0.0.1:8000/v1}}
supervisors:
  loud: {use: shouting, share: SHARE}
policies:
  default:
    input: {forced: [loud]}
"""
MAIN = "from proxy.cli import main; sys.exit(main())"
ASK = """

import asyncio
from pathlib import Path
from proxy.config import load_config
from supervisors.testing import context, exchange
loud = load_config(Path(sys.argv[1])).supervisors["loud"]
for text in ("WHERE IS MY UMBRELLA", "where is my umbrella"):
    print(asyncio.run(loud.assess(exchange(text), context())).label)
"""


def block(language: str) -> str:
    found = re.search(rf"^```{language}[^\n]*\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the guide's two files with pip, apart from everything else."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: run make test")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "shouting.py").write_text(block("python"), "utf-8")
    (source / "pyproject.toml").write_text(block("toml"), "utf-8")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def run(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = f"import sys; sys.path[:0] = [{str(site)!r}, {str(ROOT)!r}]; "
    return subprocess.run(
        [sys.executable, "-c", paths + code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def write(folder: Path, share: str) -> str:
    path = folder / "config.yaml"
    path.write_text(CONFIG.replace("SHARE", share), "utf-8")
    return str(path)


@pytest.mark.slow
def test_an_installed_supervisor_is_a_word_of_the_config(site: Path, tmp_path: Path) -> None:
    config = write(tmp_path, "0.5")
    assert run(site, MAIN, "validate", config).stdout.startswith("valid")
    assert run(site, ASK, config).stdout.split() == ["unsafe", "safe"]


@pytest.mark.slow
def test_its_options_are_checked_like_ours(site: Path, tmp_path: Path) -> None:
    found = run(site, MAIN, "validate", write(tmp_path, "loud"))
    assert found.returncode == 2
    assert "supervisors.loud.share: " in found.stderr


@pytest.mark.slow
def test_without_the_distribution_the_word_is_unknown(tmp_path: Path) -> None:
    found = run(tmp_path, MAIN, "validate", write(tmp_path, "0.5"))
    assert found.returncode == 2
    assert "unknown supervisor kind 'shouting'" in found.stderr
