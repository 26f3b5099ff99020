"""Times and costs of a run, over all its parts."""

from __future__ import annotations

from typing import Any

from evals.effort import Latencies, Spent
from evals.journal import JsonObject


def line(kind: str, second: int, **more: Any) -> JsonObject:
    return {"type": kind, "ts": f"2026-01-31T00:00:{second:02}+00:00", **more}


def spend(*lines: JsonObject) -> JsonObject:
    spent = Spent()
    for number, one in enumerate(lines):
        spent.take(number, one)
    return spent.describe()


PARTS = [
    line("run_start", 0),
    line("attempt", 2),
    line("trial", 5, status="ok", cost_usd=0.25),
    line("resume", 30),
    line("trial", 34, status="ok", cost_usd=0.5),
]


def test_the_pause_between_two_parts_is_no_active_time() -> None:  # H-119
    effort = spend(*PARTS)
    assert (effort["wall_s"], effort["active_s"], effort["failed_attempts"]) == (34.0, 9.0, 1)
    assert (effort["cost_usd"], effort["unpriced_trials"]) == (0.75, 0)


def test_one_trial_without_a_price_makes_the_cost_unknown() -> None:  # H-119
    effort = spend(*PARTS, line("trial", 35, status="ok", cost_usd=None))
    assert (effort["cost_usd"], effort["unpriced_trials"]) == (None, 1)


def test_a_run_without_a_line_took_no_time() -> None:
    effort = spend()
    assert (effort["started"], effort["wall_s"], effort["active_s"]) == (None, 0.0, 0.0)
    assert Latencies().describe() == []
