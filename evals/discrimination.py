"""What the stored scores of each supervisor can tell apart: curves, operating points, calibration; and grids, flows.

Everything here goes into the summary, so that a report draws and computes nothing (H-174).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan, nan

from evals.client import number, objects
from evals.journal import JsonObject
from evals.ledger import Entry, end_state_of
from evals.metrics import Outcome
from evals.numbers import Numbers
from evals.packed import Packed, count_equal
from evals.rows import Row
from evals.spill import Spill
from evals.statistics.bootstrap import (
    Sample,
    Statistic,
    auroc_statistic,
    average_precision_statistic,
    bootstrap,
    ece_statistic,
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
from evals.statistics.distributions import t_quantile
from evals.statistics.jsonable import Json, to_json
from evals.statistics.rates import Observation, RateCount
from supervisors.types import Label

DRAWS = 2000
"""Resamples of an interval in a report; `evals.statistics.bootstrap` takes more where one number is the result."""
MAX_STEPS = 200
"""Steps of a curve that are stored; areas are always those of the full curve."""
_ECDF_POINTS = 50


class _Series:
    """The scores of one supervisor and stage, kept as numbers: 21 bytes a verdict."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.any_score = False
        self._clusters: Packed[str] = Packed()
        self._harmful = bytearray()
        self._scores = array("d")  # NaN: none

    def take(self, cluster: str, score: float | None, *, harmful: bool) -> None:
        """Add a verdict."""
        self.any_score = self.any_score or score is not None
        self._clusters.append(cluster)
        self._harmful.append(harmful)
        self._scores.append(nan if score is None else score)

    @property
    def scored(self) -> Iterator[Scored]:
        """Yield the verdicts in order."""
        for harmful, score in zip(self._harmful, self._scores, strict=True):
            yield Scored(bool(harmful), None if isnan(score) else score)

    @property
    def items(self) -> list[tuple[str, Scored]]:
        """Return the verdicts with their clusters."""
        return list(zip(self._clusters, self.scored, strict=True))


def describe_curves(rows: Sequence[Row], seed: int) -> JsonObject:
    """Return curves, areas with intervals, operating points and calibration of every supervisor that gives scores.

    Args:
        rows: trials of one data set and target; only harmful and benign items count.
        seed: of the resamples.
    """
    return {one.name: _describe(one, seed) for one in _series(rows)}


def _series(rows: Sequence[Row]) -> list[_Series]:
    found: dict[str, _Series] = {}
    for row in rows:
        if row.truth not in ("harmful", "benign"):
            continue
        for verdict in objects(row.fields.get("verdicts")):
            name = f"{verdict['supervisor']}@{verdict['stage']}"
            series = found.setdefault(name, _Series(name))
            known = verdict.get("label") != Label.UNKNOWN  # as `evals thresholds`: what is not decided has no score
            score = number(verdict.get("score")) if known else None
            series.take(row.planned.cluster_id, score, harmful=row.truth == "harmful")
    return [found[name] for name in sorted(found) if found[name].any_score]


def _describe(series: _Series, seed: int) -> JsonObject:
    scored = list(series.scored)
    curve, fit = to_curve(scored), calibrate(scored)
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
        "calibration": to_json(fit),
        "ece_interval": None if fit.ece is None else _area(series, seed, fit.ece, ece_statistic),
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
    cells: dict[str, dict[str, RateCount]] = {}
    for outcome, times in count_equal(outcomes):
        if outcome.truth != "harmful":
            continue
        family = outcome.groups.get("family", "(none)")
        if family == "(none)" and outcome.groups.get("adversariality") != "jailbroken":
            family = "direct"
        known = outcome.verdict in (Label.SAFE, Label.UNSAFE)
        observed = Observation(outcome.cluster, outcome.verdict is Label.UNSAFE if known else None)
        row = cells.setdefault(outcome.groups.get("category", "(none)"), {})
        row.setdefault(family, RateCount()).add(observed, times)
    return {
        category: {family: to_json(cells[category][family].rate()) for family in sorted(cells[category])}
        for category in sorted(cells)
    }


def describe_flow(entries: Iterable[Entry]) -> list[Json]:
    """Return how many trials went which way: truth, what the model does alone, how it ended for the user."""
    ways: Counter[tuple[str, str, str]] = Counter()
    for entry, times in count_equal(entries):
        ways[entry.truth, entry.alone, end_state_of(entry).value] += times
    return [
        {"truth": truth, "alone": alone, "end": end, "count": count}
        for (truth, alone, end), count in sorted(ways.items())
    ]


class Efforts:
    """Seconds and cost of each supervisor, over the verdicts where they were measured.

    Args:
        spill: where the seconds lie.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        self._spill = Spill() if spill is None else spill
        self._found: dict[str, _Effort] = {}

    def take(self, row: Row) -> None:
        """Count the verdicts of a trial; those from a cache took no effort."""
        for verdict in objects(row.fields.get("verdicts")):
            if verdict.get("cached") is not True:
                name = f"{verdict['supervisor']}@{verdict['stage']}"
                if name not in self._found:
                    self._found[name] = _Effort(self._spill)
                self._found[name].take(verdict)

    def describe(self) -> JsonObject:
        """Return the counts and quantiles of each."""
        return {name: self._found[name].describe() for name in sorted(self._found)}


class _Effort:
    """Seconds and costs of one supervisor, without the verdicts they came with."""

    def __init__(self, spill: Spill) -> None:
        self._n = self._priced = 0
        self._seconds = Numbers(spill)
        self._cost = 0.0

    def take(self, verdict: JsonObject) -> None:
        """Count a verdict."""
        self._n += 1
        seconds, cost = number(verdict.get("seconds")), number(verdict.get("cost"))
        if seconds is not None:
            self._seconds.append(seconds)
        if cost is not None:
            self._priced += 1
            self._cost += cost

    def describe(self) -> JsonObject:
        """Return the counts, the mean with its 95 % interval, and quantiles (BO-07)."""
        seconds = self._seconds.ascending()
        mean, half = mean_of(seconds)
        return {
            "n": self._n,
            "timed": len(seconds),
            "mean_s": None if mean is None else round(mean, 6),
            "mean_half_width_s": None if half is None else round(half, 6),
            "median_s": round(middle(seconds), 6) if seconds else None,
            "p95_s": round(p95(seconds), 6) if seconds else None,
            "priced": self._priced,
            "cost_usd": round(self._cost, 6) if self._priced else None,
        }


def mean_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and the half width of its 95 % interval; None without any, and no width for one alone."""
    n = len(values)
    if not n:
        return None, None
    mean = math.fsum(values) / n
    if n == 1:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, t_quantile(0.975, n - 1) * math.sqrt(variance / n)


def middle(values: Sequence[float]) -> float:
    """Return the median of ascending values, at least one."""
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def p95(values: Sequence[float]) -> float:
    """Return the smallest of ascending values that 95 % do not exceed."""
    return values[max(0, -(-len(values) * 95 // 100) - 1)]


def ecdf(values: Sequence[float], points: int = _ECDF_POINTS) -> list[Json]:
    """Return (value, share of values up to it) at evenly spaced ranks of ascending values, both ends included."""
    if not values:
        return []
    n = len(values)
    ranks = sorted({round(i * (n - 1) / max(points - 1, 1)) for i in range(points)})
    return [[round(values[rank], 6), round((rank + 1) / n, 6)] for rank in ranks]
