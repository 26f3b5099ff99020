from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from evals.commands.paint import paint, wants_colour

LINES = (
    "xstest   300 planned · 300 scored · 0 unknown · 0 errors",
    "  DR        ███████▒▒▒┈┈┈┈┈┈┈┈┈┈  0.419 [0.340, 0.503] 57/136",
    "  FPR       ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈  0.000 [0.000, 0.013] 0/300",
    "  refused   ████████████████████  1.000 [1.000, 1.000] 9/9",
    "cell            n    flagged",
    "--------------  ---  -------------------------",
    "warning: bells, *: 8 of 178 trials: seen in training (sister)",
    "",
)


@pytest.mark.parametrize("line", LINES)
def test_paint_changes_no_letter(line: str) -> None:  # H-177
    painted = paint(line)
    assert re.sub(r"\x1b\[\d*m", "", painted) == line
    assert painted.count("\x1b[0m") >= (painted.count("\x1b[") > 0)


def test_titles_bars_rules_and_warnings_are_told_apart() -> None:
    assert paint(LINES[0]).startswith("\x1b[1mxstest\x1b[0m")
    assert "\x1b[36m███████\x1b[2m▒▒▒\x1b[0m" in paint(LINES[1])
    assert paint(LINES[5]).startswith("\x1b[2m")
    assert paint(LINES[6]).startswith("\x1b[33m")
    assert paint(LINES[4]) == LINES[4]


@pytest.mark.parametrize(
    ("environ", "terminal", "refused", "wanted"),
    [
        ({}, True, False, True),
        ({}, False, False, False),
        ({}, True, True, False),
        ({"NO_COLOR": "1"}, True, False, False),
        ({"NO_COLOR": ""}, True, False, True),
        ({"TERM": "dumb"}, True, False, False),
    ],
)
def test_colour_is_for_terminals_and_those_who_want_it(
    environ: dict[str, str], terminal: bool, refused: bool, wanted: bool
) -> None:  # H-177
    assert wants_colour(environ, terminal=terminal, refused=refused) is wanted


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    """As in `evals list datasets | head -1`: no traceback, and the exit code that says so."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "evals.cli", "list", "datasets"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(write)
    assert done.stderr.decode() == ""
    assert done.returncode == 141
