"""The line that says how far a run is: a bar, rate, time left, and what went wrong so far (H-176)."""

from __future__ import annotations

from evals.client import number
from evals.journal import JsonObject
from evals.nouns import count_of

_WIDE = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"


def progress_line(state: JsonObject) -> str:
    """Return the state of a run as one line."""
    done, planned = [int(number(state.get(name)) or 0) for name in ("done", "planned")]
    cost = number(state.get("cost_usd"))
    parts = [
        f"{draw_bar(done / planned if planned else 1.0)} {done}/{planned}",
        f"{number(state.get('per_s')) or 0.0:.1f}/s",
        f"{write_seconds(number(state.get('left_s')))} left",
        count_of(int(number(state["errors"]) or 0), "error"),
        *[f"{state[name]} {name}" for name in ("unknown", "flagged", "refused")],
        f"{state['in_flight']} of {state['concurrency']} in flight",
        "cost unknown" if cost is None else f"{cost:.4f} USD",
    ]
    if "stalled_s" in state:
        parts.append(f"nothing finished for {state['stalled_s']} s")
    return "  ".join(parts)


def draw_bar(share: float) -> str:
    """Return a share as a bar of fixed width."""
    eighths = round(min(max(share, 0.0), 1.0) * _WIDE * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[part] if part else "")
    return f"▕{drawn:<{_WIDE}}▏"


def write_seconds(seconds: float | None) -> str:
    """Return a time as people say it; a question mark when it is not known yet."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
