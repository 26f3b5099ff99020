"""Every numbered requirement of wire and guarding is cited by the test that would fail without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
NUMBERED = {"W": 37, "E": 10, "G": 50, "M": 23, "S": 23, "D": 18, "F": 13}
"""By letter, the last number: wire rules, SDK compatibility, guarding rules, coverage, streams, decisions, failures."""
BESIDE = ("S-11b", "S-11c", "D-08b")
CITED = re.compile(r"(?<![A-Z])([WEGMSDF]-\d\d[bc]?)\b")


@pytest.mark.parametrize("letter", NUMBERED)
def test_every_requirement_is_cited_by_a_test(letter: str) -> None:
    files = [file for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    cited = {found for file in files for found in CITED.findall(file.read_text("utf-8"))}
    wanted = [f"{letter}-{number:02d}" for number in range(1, NUMBERED[letter] + 1)]
    wanted += [name for name in BESIDE if name.startswith(letter)]
    assert [name for name in wanted if name not in cited] == []
