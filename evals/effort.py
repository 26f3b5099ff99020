"""How long a run took and what it cost: the part of its summary that differs when it is made again (H-119)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime

from evals.attempts import as_object
from evals.client import number
from evals.discrimination import Efforts, ascending, ecdf, middle, p95
from evals.journal import JsonObject
from evals.rows import Rows
from evals.statistics.jsonable import Json

_TIMES = ("service_s", "with_retries_s", "overhead_s", "guard_s")


def describe_effort(lines: Sequence[JsonObject], rows: Rows) -> JsonObject:
    """Return times and costs, added up over all parts of the run (H-119).

    Args:
        lines: the run's journal.
        rows: its trials.
    """
    stamps = [str(lines[place]["ts"]) for place in (0, -1)] if lines else []
    attempts = unpriced = cached = 0
    costs = array("d")
    active = _Active()
    for line in lines:
        active.take(line)
        attempts += line.get("type") == "attempt"
        if line.get("type") == "trial":
            cached += line.get("cached") is True
            costs.append(number(line.get("cost_usd")) or 0.0)
            unpriced += line.get("status") == "ok" and line.get("cost_usd") is None
    return {
        "started": stamps[0] if stamps else None,
        "ended": stamps[-1] if stamps else None,
        "wall_s": _between(stamps[0], stamps[-1]) if stamps else 0.0,
        "active_s": active.total(),
        "failed_attempts": attempts,
        "cached_trials": cached,
        "cost_usd": None if unpriced else round(sum(costs), 6),
        "unpriced_trials": unpriced,
        "latency": [
            {"dataset": dataset, "target": target, **_latency(group)}
            for (dataset, target), group in rows.by_group().items()
        ],
    }


def _between(first: str, last: str) -> float:
    moments = [datetime.fromisoformat(text) for text in (first, last)]
    return round((moments[1] - moments[0]).total_seconds(), 3)


class _Active:
    """Adds up the parts of a run, each from its start to its last line."""

    def __init__(self) -> None:
        self._total = 0.0
        self._start: str | None = None
        self._last = ""

    def take(self, line: JsonObject) -> None:
        """Take the next line of the journal."""
        if line.get("type") in ("run_start", "resume"):
            self._end()
            self._start = str(line["ts"])
        self._last = str(line["ts"])

    def total(self) -> float:
        """End the last part and return the seconds of all."""
        self._end()
        return round(self._total, 3)

    def _end(self) -> None:
        self._total += _between(self._start, self._last) if self._start else 0.0
        self._start = None


def _latency(rows: Rows) -> JsonObject:
    values: dict[str, array[float]] = {name: array("d") for name in _TIMES}
    supervisors = Efforts()
    for row in rows:
        supervisors.take(row)
        if row.status != "ok":
            continue
        latency = as_object(row.fields.get("latency"))
        service, retries = number(latency.get("service_s")), number(latency.get("retry_s"))
        times = {
            "service_s": service,
            "with_retries_s": None if not latency else (service or 0.0) + (retries or 0.0),
            "overhead_s": number(latency.get("overhead_s")),
            "guard_s": number(latency.get("guard_s")),
        }
        for name, value in times.items():
            if value is not None:
                values[name].append(value)
    quantiles: JsonObject = {name: _quantiles(ascending(found)) for name, found in values.items()}
    return {**quantiles, "overhead_ecdf": ecdf(ascending(values["overhead_s"])), "supervisors": supervisors.describe()}


def _quantiles(values: Sequence[float]) -> Json:
    if not values:
        return None
    return {"n": len(values), "median": round(middle(values), 6), "p95": round(p95(values), 6)}
