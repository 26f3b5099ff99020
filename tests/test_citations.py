"""Every numbered requirement of proxy, guards and harness is cited by the test that would fail without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
NUMBERED = {
    "W": (37,),
    "E": (10,),
    "G": (50,),
    "M": (23,),
    "S": (23,),
    "D": (18,),
    "F": (13,),
    "GU": (26,),
    "GP": (14,),
    "PL": (8,),
    "LX": (4,),
    "H": (48, 185),
    "DS": (25,),
    "T": (28,),
    "Q": (47,),
    "B": (12,),
    "C": (8,),
    "BO": (17,),
    "BT": (5,),
    "N": (12,),
    "J": (10,),
}
"""By letters, the last number, of each hundred: wire rules, SDK compatibility, guarding rules, coverage, streams,
decisions, failures; guards, their parsers, pulls, small components; the harness, data sets, traps, statistics; BELLS,
coherence, BELLS-O, traces, NESSiE, majority."""
BESIDE = ("S-11b", "S-11c", "D-08b")
CITED = re.compile(r"(?<![A-Za-z])([A-Z]{1,2}-\d\d\d?[bc]?)\b")
NAMED = re.compile(r"def test_\w*?_([a-z]{1,2})_(\d\d\d?)\(")
"""A test may carry its id in its name instead: ``test_export_and_import_give_the_same_results_h_175``."""


def _cited() -> set[str]:
    texts = [file.read_text("utf-8") for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    written = {found for text in texts for found in CITED.findall(text)}
    return written | {f"{letters.upper()}-{number}" for text in texts for letters, number in NAMED.findall(text)}


@pytest.mark.parametrize("letter", NUMBERED)
def test_every_requirement_is_cited_by_a_test(letter: str) -> None:
    cited = _cited()
    wanted = [
        f"{letter}-{number:02d}"
        for hundred, last in enumerate(NUMBERED[letter])
        for number in range(100 * hundred + 1, last + 1)
    ]
    wanted += [name for name in BESIDE if name.startswith(f"{letter}-")]
    assert [name for name in wanted if name not in cited] == []
