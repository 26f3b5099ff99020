"""Averages of a run over its data sets: of the sets, and of their trials, which are two different numbers (Q-07)."""

from __future__ import annotations

from collections.abc import Mapping

from evals.alike import Alike
from evals.journal import JsonObject
from evals.metrics import METRICS, average_detection, average_metrics, measure, to_confusion
from evals.plan import PlannedTrial
from evals.rows import SEEN, to_outcome
from evals.statistics.jsonable import Json, to_json


def describe_averages(groups: Mapping[tuple[str, str], Alike], *, allowed: bool) -> JsonObject:
    """Return target → its averages over the data sets, for targets that were asked more than one.

    Args:
        groups: data set and target → trials.
        allowed: items seen in the guard's training count too, as in the sets' own rates.
    """

    def is_headline(trial: PlannedTrial) -> bool:
        return trial.arm != "direct" and (allowed or trial.contamination not in SEEN)

    targets: dict[str, dict[str, Alike]] = {}
    for (dataset, target), group in groups.items():
        targets.setdefault(target, {})[dataset] = group.where(is_headline)
    return {target: _average(sets) for target, sets in targets.items() if len(sets) > 1}


def _average(sets: Mapping[str, Alike]) -> JsonObject:
    outcomes = {name: trials.map(to_outcome) for name, trials in sets.items()}
    pooled = Alike(counted for trials in sets.values() for counted in trials.counts()).map(to_outcome)
    rates: dict[str, Json] = {}
    for metric in METRICS:
        macro = average_metrics([(metric, measure(metric, one)) for one in outcomes.values()])
        if macro.n > 1:
            rates[metric.name] = {"macro": to_json(macro), "micro": to_json(measure(metric, pooled))}
    found = average_detection({name: to_confusion(one) for name, one in outcomes.items()})
    return {
        "datasets": list[Json](outcomes),
        "rates": rates,
        "f1": to_json(found.f1),
        "precision": to_json(found.precision),
        "accuracy": to_json(found.accuracy),
        "reason": found.reason,
    }
