"""The house rules that no linter knows: folders, sizes, words that must not be there, the wheel, the lock files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("supervisors", "proxy", "evals")
FOLDERS = {*PACKAGES, "tests", "deploy", "bench", "docs", ".ci", ".github"}
FILES = {
    ".dockerignore",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements-local.lock",
    "requirements.lock",
}
_CLOCKS = {"monotonic", "perf_counter"}
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-local.lock")
MAX_LINES = 400
TEST_LINES = 600
"""Tables of cases are long; logic is not allowed in them anyway."""

# Spelled in halves, so that this file does not find itself.
_WORDS = ("/wo" + "rk/", "/ro" + "ot/", "py" + r"pi\.org", "python" + "hosted", "registry" + r"\.npmjs")
BANNED = re.compile("|".join(_WORDS), re.IGNORECASE)
MALICIOUS = {"litellm": {"1.82.7", "1.82.8", "1.107.0"}, "guardrails-ai": {"0.10.1"}}
"""Releases published by attackers (X-16)."""


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    names = listed.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def project() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of_the_tests() -> list[Function]:
    found: list[Function] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text("utf-8")))
        found += [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return found


def names_of_calls(node: ast.AST) -> set[str]:
    """Return what is called below a node, by its last name, and "assert" if something is asserted there."""
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Assert():
                found.add("assert")
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                found.add(name)
            case _:
                pass
    return found


def read_lock(name: str) -> dict[str, tuple[str, int]]:
    text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
    rows = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    found: dict[str, tuple[str, int]] = {}
    for row in rows:
        package, rest = row.split("==", 1)
        found[canonicalize_name(package)] = (rest.split()[0].rstrip(";"), row.count("--hash=sha256:"))
    return found


def test_the_top_level_holds_what_the_design_says_and_nothing_else() -> None:
    parts = [file.relative_to(ROOT).parts for file in tracked()]
    assert {part[0] for part in parts if len(part) > 1} <= FOLDERS
    assert {part[0] for part in parts if len(part) == 1} <= FILES


def test_no_module_is_longer_than_the_house_allows() -> None:
    sizes = {file: len(file.read_text("utf-8").splitlines()) for file in tracked() if file.suffix == ".py"}
    limits = {file: TEST_LINES if (ROOT / "tests") in file.parents else MAX_LINES for file in sizes}
    assert {file.name: size for file, size in sizes.items() if size > limits[file]} == {}


def test_every_package_is_typed_and_no_test_folder_is_a_package() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_no_file_names_a_machine_or_a_registry_host() -> None:
    found: dict[str, str] = {}
    for file in tracked():
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # weights and archives
        hit = BANNED.search(text)
        if hit is not None and file.name != "LICENSE":
            found[str(file.relative_to(ROOT))] = hit.group()
    assert found == {}


def test_test_files_of_one_folder_mirror_have_unique_names() -> None:
    names = [file.relative_to(ROOT) for file in tracked() if file.name.startswith("test_")]
    assert len(names) == len(set(names))
    assert all(name.parts[0] == "tests" for name in names if name.suffix == ".py")


def test_every_test_asserts_something_itself_or_through_a_helper() -> None:
    calls = [(function.name, names_of_calls(function)) for function in functions_of_the_tests()]
    helpers = [(name, called) for name, called in calls if not name.startswith("test_")]
    asserting = {"assert", "raises", "fail", "check_supervisor"}
    before = 0
    while len(asserting) > before:
        before = len(asserting)
        asserting |= {name for name, called in helpers if called & asserting}
    assert [name for name, called in calls if name.startswith("test_") and not called & asserting] == []


def test_no_test_asserts_that_something_takes_less_than_a_number_of_seconds() -> None:  # see tests/timing.py
    found: list[str] = []
    for function in functions_of_the_tests():
        for node in ast.walk(function):
            match node:
                case ast.Assert(test=ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[ast.Constant()])):
                    clocks = {name for name in names_of_calls(left) if name.endswith("time") or name in _CLOCKS}
                    found += [function.name] if clocks else []
                case _:
                    pass
    assert found == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_hashes_and_no_malicious_release(name: str) -> None:
    locked = read_lock(name)
    assert locked
    assert [package for package, (_, hashes) in locked.items() if hashes == 0] == []
    assert [p for p, (version, _) in locked.items() if version in MALICIOUS.get(p, set())] == []


def test_the_declared_ranges_exclude_the_malicious_releases() -> None:
    declared = [Requirement(str(line)) for line in list_of(project()["dependencies"])]
    for requirement in declared:
        for version in MALICIOUS.get(canonicalize_name(requirement.name), set()):
            assert not requirement.specifier.contains(version), requirement


def test_the_locks_satisfy_the_declared_ranges() -> None:
    table = project()
    extras = cast("dict[str, list[str]]", table["optional-dependencies"])  # TOML has no types
    wanted = {"requirements.lock": list_of(table["dependencies"])}
    wanted["requirements-dev.lock"] = [*wanted["requirements.lock"], *extras["test"], *extras["train"]]
    wanted["requirements-local.lock"] = [*extras["local"]]
    for name, lines in wanted.items():
        locked = read_lock(name)
        for line in lines:
            requirement = Requirement(line)
            version, _ = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), (name, line, version)


def list_of(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(item) for item in cast("list[object]", value)]  # isinstance leaves the type of the items open


@pytest.mark.slow
def test_the_wheel_holds_the_tested_files_and_no_other(tmp_path: Path) -> None:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: run make test")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    ours = {str(file.relative_to(ROOT)) for file in tracked() if file.relative_to(ROOT).parts[0] in PACKAGES}
    assert inside == ours
    assert len(licences) == 1
