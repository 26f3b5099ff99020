from __future__ import annotations

from pathlib import Path

import pytest

from evals.report.table import bar, layout, rate_text, results_table
from tests.evals.harness import make_options, make_run


@pytest.mark.parametrize(
    ("rate", "drawn"),
    [
        ({"estimate": 0.5, "lo": 0.25, "hi": 0.75}, "█████▒▒▒▒▒▒▒▒▒▒┈┈┈┈┈"),
        ({"estimate": 1.0, "lo": 1.0, "hi": 1.0}, "█" * 20),
        ({"estimate": None, "lo": None, "hi": None}, "┈" * 20),
        ({"estimate": 0.5, "lo": None, "hi": None}, "█" * 10 + "┈" * 10),
    ],
)
def test_a_bar_is_full_to_the_lower_end_and_shaded_to_the_upper(rate: dict[str, float | None], drawn: str) -> None:
    assert bar(dict(rate)) == drawn


def test_a_rate_is_never_written_without_its_counts() -> None:
    text = rate_text({"estimate": 0.5, "lo": 0.1, "hi": 0.9, "k": 1, "n": 2, "planned": 3, "unscored": 1,
                      "bound_lo": 0.33, "bound_hi": 0.67})  # fmt: skip
    assert text == "0.500 [0.100, 0.900] 1/2 bounds 0.330–0.670"
    assert rate_text({"planned": 0}) == "–"


def test_columns_are_aligned() -> None:
    assert layout(("a", "bb"), [("xxx", "y")]) == ["a    bb", "---  --", "xxx  y"]


def test_the_final_table_has_counts_rates_with_bars_and_overhead(tmp_path: Path) -> None:  # H-178
    run = make_run(tmp_path / "run", make_options(tmp_path))
    lines = results_table(run.summary)
    assert lines[0] == "smoke × fake-1   10 planned · 10 scored · 0 unknown · 0 errors"
    assert any(line.startswith("  DR") and "█" in line and line.endswith("5/5") for line in lines)
    assert any(line.startswith("  FPR") and line.endswith("0/5") for line in lines)
    assert any(line.startswith("  overhead") and "p95" in line for line in lines)
    assert any(line.startswith("warning: FAKE model") for line in lines)
