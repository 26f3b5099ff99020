"""What a report says over several data sets: the mean of the sets beside the rate of all their trials (Q-07)."""

from __future__ import annotations

from collections.abc import Sequence

from evals.attempts import as_object
from evals.client import number
from evals.journal import JsonObject
from evals.report.table import layout, rate_text, span_of, words_of
from evals.statistics.jsonable import Json

AVERAGE_HEADER = ("target", "rate", "mean of the data sets (macro)", "all trials (micro)")


def average_rows(averages: JsonObject) -> list[Sequence[str]]:
    """Return a row a target and rate, and those of F1, precision and accuracy where every set has both classes."""
    rows: list[Sequence[str]] = []
    for target, value in averages.items():
        body = as_object(value)
        for name, both in as_object(body["rates"]).items():
            rate = as_object(both)
            rows.append((target, words_of(name), _mean_text(rate["macro"]), rate_text(rate["micro"])))
        rows += [
            (target, label, _mean_text(body[name]), "–")
            for name, label in (("f1", "F1"), ("precision", "precision"), ("accuracy", "accuracy"))
            if body[name] is not None
        ]
    return rows


def average_lines(averages: JsonObject) -> list[str]:
    """Return the averages as lines, nothing where no target was asked two data sets."""
    return ["", *layout(AVERAGE_HEADER, average_rows(averages))] if averages else []


def _mean_text(mean: Json) -> str:
    body = as_object(mean)
    estimate = number(body.get("estimate"))
    return "n/a" if estimate is None else f"{estimate:.3f} {span_of(mean)} of {body['n']} sets".replace("  ", " ")
