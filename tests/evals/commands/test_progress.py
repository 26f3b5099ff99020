from __future__ import annotations

import pytest

from evals.commands.progress import draw_bar, progress_line, write_seconds
from evals.journal import JsonObject

STATE: JsonObject = {
    "planned": 200, "done": 50, "errors": 1, "skipped": 0, "unknown": 2, "flagged": 30, "refused": 4,
    "in_flight": 8, "concurrency": 20, "per_s": 12.5, "left_s": 12.0, "cost_usd": 0.25,
}  # fmt: skip


def test_the_line_says_how_far_how_fast_how_long_and_what_went_wrong() -> None:  # H-176
    line = progress_line(STATE)
    for part in ("50/200", "12.5/s", "12 s left", "1 error  ", "2 unknown", "30 flagged", "8 of 20", "0.2500 USD"):
        assert part in line


def test_an_unknown_cost_and_an_unknown_end_are_said_as_such() -> None:  # H-133, H-176
    line = progress_line(STATE | {"cost_usd": None, "left_s": None, "stalled_s": 301})
    assert "cost unknown" in line
    assert "? left" in line
    assert "nothing finished for 301 s" in line


@pytest.mark.parametrize(("share", "full"), [(0.0, 0), (0.5, 12), (1.0, 24), (2.0, 24)])
def test_the_bar_is_always_as_wide(share: float, full: int) -> None:
    drawn = draw_bar(share)
    assert len(drawn) == 26
    assert drawn.count("█") == full


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, "?"), (0.2, "0 s"), (59.4, "59 s"), (61, "1 min 01 s"), (3720, "1 h 02 min")]
)
def test_times_are_said_as_people_do(seconds: float | None, said: str) -> None:
    assert write_seconds(seconds) == said
