"""What the stored scores of each supervisor can tell apart: curves, operating points, calibration; and grids, flows.

Everything here goes into the summary, so that a report draws and computes nothing (H-174).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from evals.client import number, objects
from evals.journal import JsonObject
from evals.ledger import Entry, end_state_of
from evals.metrics import Outcome
from evals.rows import Row
from evals.statistics.bootstrap import (
    Sample,
    Statistic,
    auroc_statistic,
    average_precision_statistic,
    bootstrap,
    score_rows,
    to_sample,
)
from evals.statistics.calibration import calibrate
from evals.statistics.curves import (
    Curve,
    Scored,
    Step,
    auroc,
    average_precision,
    detection_at_reported_budgets,
    to_curve,
)
from evals.statistics.jsonable import Json, to_json
from evals.statistics.rates import Observation, rate_of
from supervisors.types import Label

DRAWS = 2000
"""Resamples of an interval in a report; `evals.statistics.bootstrap` takes more where one number is the result."""
MAX_STEPS = 200
"""Steps of a curve that are stored; areas are always those of the full curve."""
_ECDF_POINTS = 50


@dataclass(frozen=True, slots=True)
class _Series:
    """The scores of one supervisor and stage."""

    name: str
    items: tuple[tuple[str, Scored], ...]


def describe_curves(rows: Sequence[Row], seed: int) -> JsonObject:
    """Return curves, areas with intervals, operating points and calibration of every supervisor that gives scores.

    Args:
        rows: trials of one data set and target; only harmful and benign items count.
        seed: of the resamples.
    """
    return {one.name: _describe(one, seed) for one in _series(rows)}


def _series(rows: Sequence[Row]) -> list[_Series]:
    found: dict[str, list[tuple[str, Scored]]] = {}
    for row in rows:
        if row.truth not in ("harmful", "benign"):
            continue
        for verdict in objects(row.fields.get("verdicts")):
            score = number(verdict.get("score"))
            scored = Scored(row.truth == "harmful", score)
            found.setdefault(f"{verdict['supervisor']}@{verdict['stage']}", []).append((row.planned.cluster_id, scored))
    listed = [_Series(name, tuple(items)) for name, items in sorted(found.items())]
    return [one for one in listed if any(scored.score is not None for _, scored in one.items)]


def _describe(series: _Series, seed: int) -> JsonObject:
    scored = [one for _, one in series.items]
    curve = to_curve(scored)
    points = detection_at_reported_budgets(curve) if curve.negatives else ()
    return {
        "positives": curve.positives,
        "negatives": curve.negatives,
        "unscored": curve.unscored,
        "auroc": _area(series, seed, auroc(curve), auroc_statistic),
        "average_precision": _area(series, seed, average_precision(curve), average_precision_statistic),
        "budgets": [to_json(point) for point in points],
        "steps": [[step.threshold, step.tp, step.fp] for step in thin(curve)],
        "steps_in_all": len(curve.steps),
        "calibration": to_json(calibrate(scored)),
    }


def _area(series: _Series, seed: int, value: float | None, statistic: Callable[[Sample], Statistic]) -> Json:
    if value is None:
        return {"estimate": None, "reason": "needs harmful and benign items with a score"}
    sample = to_sample(score_rows(series.items))
    found = bootstrap(sample, statistic(sample), seed=seed, draws=DRAWS)
    return {"estimate": value, "lo": found.lo, "hi": found.hi, "draws": found.draws, "clusters": found.clusters}


def thin(curve: Curve, most: int = MAX_STEPS) -> tuple[Step, ...]:
    """Return at most about `most` steps: those where either count moved by a visible part, and the last."""
    if len(curve.steps) <= most:
        return curve.steps
    least_tp, least_fp = 2 * curve.positives / most, 2 * curve.negatives / most
    kept: list[Step] = []
    tp = fp = 0
    for step in curve.steps:
        if step.tp - tp >= least_tp or step.fp - fp >= least_fp or not kept:
            kept.append(step)
            tp, fp = step.tp, step.fp
    return tuple(kept) if kept[-1] == curve.steps[-1] else (*kept, curve.steps[-1])


def describe_grid(outcomes: Iterable[Outcome]) -> JsonObject:
    """Return category → family → detection rate on harmful items; direct items are the family ``direct``."""
    cells: dict[str, dict[str, list[Observation]]] = {}
    for outcome in outcomes:
        if outcome.truth != "harmful":
            continue
        family = outcome.groups.get("family", "(none)")
        if family == "(none)" and outcome.groups.get("adversariality") != "jailbroken":
            family = "direct"
        known = outcome.verdict in (Label.SAFE, Label.UNSAFE)
        observed = Observation(outcome.cluster, outcome.verdict is Label.UNSAFE if known else None)
        cells.setdefault(outcome.groups.get("category", "(none)"), {}).setdefault(family, []).append(observed)
    return {
        category: {family: to_json(rate_of(cells[category][family])) for family in sorted(cells[category])}
        for category in sorted(cells)
    }


def describe_flow(entries: Iterable[Entry]) -> list[Json]:
    """Return how many trials went which way: truth, what the model does alone, how it ended for the user."""
    ways = Counter([(entry.truth, entry.alone, end_state_of(entry).value) for entry in entries])
    return [
        {"truth": truth, "alone": alone, "end": end, "count": count}
        for (truth, alone, end), count in sorted(ways.items())
    ]


def describe_efforts(rows: Sequence[Row]) -> JsonObject:
    """Return seconds and cost of each supervisor, over the verdicts where they were measured."""
    found: dict[str, _Efforts] = {}
    for row in rows:
        for verdict in objects(row.fields.get("verdicts")):
            if verdict.get("cached") is not True:
                found.setdefault(f"{verdict['supervisor']}@{verdict['stage']}", _Efforts()).take(verdict)
    return {name: found[name].describe() for name in sorted(found)}


class _Efforts:
    """Seconds and costs of one supervisor, without the verdicts they came with."""

    def __init__(self) -> None:
        self._n = 0
        self._seconds = array("d")
        self._costs = array("d")

    def take(self, verdict: JsonObject) -> None:
        """Count a verdict."""
        self._n += 1
        seconds, cost = number(verdict.get("seconds")), number(verdict.get("cost"))
        if seconds is not None:
            self._seconds.append(seconds)
        if cost is not None:
            self._costs.append(cost)

    def describe(self) -> JsonObject:
        """Return the counts and quantiles."""
        seconds = sorted(self._seconds)
        return {
            "n": self._n,
            "timed": len(seconds),
            "median_s": round(median(seconds), 6) if seconds else None,
            "p95_s": round(seconds[max(0, -(-len(seconds) * 95 // 100) - 1)], 6) if seconds else None,
            "priced": len(self._costs),
            "cost_usd": round(sum(self._costs), 6) if self._costs else None,
        }


def ecdf(ascending: Sequence[float], points: int = _ECDF_POINTS) -> list[Json]:
    """Return (value, share of values up to it) at evenly spaced ranks, the smallest and the largest included."""
    if not ascending:
        return []
    n = len(ascending)
    ranks = sorted({round(i * (n - 1) / max(points - 1, 1)) for i in range(points)})
    return [[round(ascending[rank], 6), round((rank + 1) / n, 6)] for rank in ranks]
