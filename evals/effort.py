"""How long a run took and what it cost: the part of its summary that differs when it is made again (H-119)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from evals.attempts import as_object
from evals.client import number
from evals.discrimination import Efforts, ecdf, middle, p95
from evals.journal import JsonObject
from evals.numbers import Numbers
from evals.rows import Row, group_of
from evals.spending import count_unpriced, spent_by
from evals.spill import Spill
from evals.statistics.jsonable import Json

_TIMES = ("service_s", "with_retries_s", "overhead_s", "guard_s")


class Spent:
    """Counts what the lines of a journal say of time and money, none of them kept."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._last = ""
        self._attempts = self._unpriced = self._cached = 0
        self._cost = 0.0
        self._missing = Counter[str]()
        self._active = _Active()

    def take(self, _number: int, line: JsonObject, _data: bytes = b"") -> None:
        """Take the next line of the journal."""
        kind = line.get("type")
        self._last = str(line["ts"])
        self._first = self._last if self._first is None else self._first
        self._active.take(line)
        self._attempts += kind == "attempt"
        if kind == "trial":
            self._cached += line.get("cached") is True
            self._cost += spent_by(line)
            self._missing.update(count_unpriced([line]))
            self._unpriced += line.get("status") == "ok" and line.get("cost_usd") is None

    def describe(self) -> JsonObject:
        """Return times and costs, added up over all parts of the run (H-119)."""
        first = self._first
        return {
            "started": first,
            "ended": None if first is None else self._last,
            "wall_s": 0.0 if first is None else _between(first, self._last),
            "active_s": self._active.total(),
            "failed_attempts": self._attempts,
            "cached_trials": self._cached,
            "cost_usd": None if self._unpriced else round(self._cost, 6),
            "cost_known_usd": round(self._cost, 6),
            "unpriced_trials": self._unpriced,
            "unpriced": dict(sorted(self._missing.items())),
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


class Latencies:
    """Times of trials by data set and target, as numbers."""

    def __init__(self) -> None:
        self._spill = Spill()
        self._groups: dict[tuple[str, str], _Latency] = {}

    def take(self, row: Row) -> None:
        """Take the next trial."""
        group = group_of(row.planned)
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = _Latency(self._spill)
        found.take(row)

    def describe(self) -> list[Json]:
        """Return what they took, in the order in which the groups came."""
        return [
            {"dataset": dataset, "target": target, **group.describe()}
            for (dataset, target), group in self._groups.items()
        ]


class _Latency:
    def __init__(self, spill: Spill) -> None:
        self._values = {name: Numbers(spill) for name in _TIMES}
        self._supervisors = Efforts(spill)

    def take(self, row: Row) -> None:
        self._supervisors.take(row)
        if row.status != "ok":
            return
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
                self._values[name].append(value)

    def describe(self) -> JsonObject:
        quantiles: JsonObject = {name: _quantiles(found.ascending()) for name, found in self._values.items()}
        overhead = ecdf(self._values["overhead_s"].ascending())
        return {**quantiles, "overhead_ecdf": overhead, "supervisors": self._supervisors.describe()}


def _quantiles(values: Sequence[float]) -> Json:
    if not values:
        return None
    return {"n": len(values), "median": round(middle(values), 6), "p95": round(p95(values), 6)}
