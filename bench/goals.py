"""The targets of docs/performance.md: what is measured, the floor, the goal, and whether a value holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Goal:
    """One metric with its two bounds.

    Args:
        id: requirement.
        metric: what is measured, with its unit.
        floor: must hold.
        goal: should hold.
        better: which side of a bound is good.
    """

    id: str
    metric: str
    floor: float
    goal: float
    better: Literal["more", "less"] = "less"

    def holds(self, value: float, bound: float) -> bool:
        """Say whether the value is on the good side of the bound."""
        return value >= bound if self.better == "more" else value <= bound

    def grade(self, value: float) -> str:
        """Return ``goal``, ``floor`` or ``missed``."""
        if self.holds(value, self.goal):
            return "goal"
        return "floor" if self.holds(value, self.floor) else "missed"


_ROWS: tuple[tuple[str, str, str, float, float, Literal["more", "less"]], ...] = (
    ("litellm", "PF-20", "requests per core-second ÷ LiteLLM proxy with no-op guards", 35, 90, "more"),
    ("nemo", "PF-21", "÷ NeMo Guardrails with two regex rails", 4, 10, "more"),
    ("portkey", "PF-22", "÷ Portkey with two guards", 5, 14, "more"),
    ("nginx", "PF-23", "÷ nginx", 0.08, 0.20, "more"),
    ("vllm-router", "PF-24", "÷ vllm-router, unguarded", 0.25, 0.70, "more"),
    ("added_p50", "PF-25", "added at 50 req/s, 50-ms upstream, p50, ms", 1.0, 0.6, "less"),
    ("added_p99", "PF-25", "added at 50 req/s, 50-ms upstream, p99, ms", 2.0, 1.0, "less"),
    ("supervisor", "PF-26", "loop time of one more no-op supervisor, µs", 2.0, 1.0, "less"),
    ("empty_stage", "PF-26", "loop time of an empty stage, µs", 3.0, 1.0, "less"),
    ("chunk", "PF-27", "CPU of one inspected chunk at saturation, default windows, µs", 20, 15, "less"),
    ("chunk_ratio", "PF-27", "÷ our own raw relay", 1.25, 1.15, "less"),
    ("first_p50", "PF-28", "one stream after another: added time to the first chunk, p50, ms", 1.0, 0.5, "less"),
    ("relay_p99", "PF-28", "64 streams: time of a chunk through the proxy, p99, ms", 2.0, 0.5, "less"),
    ("tail", "PF-29", "p99 ÷ p50 at 64 connections", 3, 2, "less"),
    ("records", "PF-30", "records and metrics on the loop, µs a request", 15, 8, "less"),
    ("rows_lost", "PF-30", "rows lost at the highest rate", 0, 0, "less"),
    ("rss", "PF-31", "resident memory after 10,000 requests, MB", 100, 70, "less"),
    ("growth", "PF-31", "growth over the further requests, %", 5, 2, "less"),
    ("large_body", "PF-32", "CPU with a 64-KB body ÷ with a 0.8-KB body", 4, 3, "less"),
    ("judge", "PF-33", "CPU of a judge call ÷ litellm.acompletion", 1 / 8, 1 / 20, "less"),
    ("panel", "PF-34", "three-judge panel beyond its second-fastest judge, p50, ms", 10, 5, "less"),
    ("parallel", "PF-34", "input guard in parallel: added to time to first token, p95, ms", 5, 2, "less"),
    ("sockets", "PF-35", "sockets left open", 0, 0, "less"),
)
GOALS = {row[0]: Goal(row[1], row[2], row[3], row[4], row[5]) for row in _ROWS}
"""By the name a measurement is reported under."""
