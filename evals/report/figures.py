"""Which figures a summary gives; every number is taken from it, none is computed here but positions."""

from __future__ import annotations

import re

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.report.svg import Estimate, Figure, Point, draw_bars, draw_forest, draw_plane
from evals.statistics.jsonable import Json

_HEADLINE = (
    ("detection rate", "rates", "detection_rate"),
    ("false positive rate", "rates", "false_positive_rate"),
    ("unsafe answers alone", "ledger", "unsafe_alone"),
    ("unsafe answers behind the guard", "ledger", "unsafe_behind"),
    ("refusals of harmful requests", "rates", "refusal_rate"),
    ("over-refusals of benign requests", "rates", "over_refusal_rate"),
    ("unknown verdicts", "rates", "unknown_rate"),
)
_BAD = frozenset({"true_miss", "needless_block", "closed", "unresolved"})


def figures_of(section: JsonObject) -> list[Figure]:
    """Return the figures of one data set and target."""
    name = slug(f"{section['dataset']}-{section['target']}")
    where = f"{section['dataset']} × {section['target']}"
    ledger = as_object(section["ledger"])
    parts: dict[str, JsonObject] = {"rates": as_object(section["rates"]), "ledger": ledger}
    headline = [to_estimate(title, parts[part].get(key)) for title, part, key in _HEADLINE if parts[part].get(key)]
    found = [draw_forest(f"{name}-rates", f"Rates, {where}", headline)]
    points = [
        point for point in [_to_point(key, value) for key, value in as_object(section["supervisors"]).items()] if point
    ]
    if points:
        found.append(draw_plane(f"{name}-supervisors", f"Supervisors, {where}", points))
    for truth, cells in as_object(ledger.get("cells")).items():
        if truth not in ("harmful", "benign"):
            continue  # on borderline and unlabelled items there is no right answer
        bars = [
            (cell.replace("_", " "), int(number(count) or 0), cell in _BAD) for cell, count in as_object(cells).items()
        ]
        bars = [bar for bar in bars if bar[1]]
        if bars:
            found.append(draw_bars(f"{name}-ledger-{truth}", f"Ledger of {truth} items, {where}", bars))
    categories = as_object(as_object(as_object(section["groups"])["category"])["detection_rate"])
    listed = [to_estimate(category, rate) for category, rate in categories.items() if as_object(rate).get("planned")]
    if len(listed) > 1:
        found.append(draw_forest(f"{name}-categories", f"Detection rate by category, {where}", listed))
    return found


def coherence_figures(coherence: JsonObject) -> list[Figure]:
    """Return the figures of a coherence run: the headline of each model, and both definitions."""
    models = as_object(as_object(coherence["bells"])["models"])
    found: list[Figure] = []
    for key, title in (
        ("override_rate", "Answers what it judges harmful itself"),
        ("coherence_file", "Coherent rows"),
    ):
        rates = [to_estimate(model, as_object(report).get(key)) for model, report in models.items()]
        found.append(draw_forest(f"coherence-{slug(key)}", title, rates))
    return found


def _to_point(name: str, value: Json) -> Point | None:
    rates = as_object(value)
    dr, fpr = as_object(rates["detection_rate"]), as_object(rates["false_positive_rate"])
    x, y = number(fpr.get("estimate")), number(dr.get("estimate"))
    if x is None or y is None:
        return None
    return Point(name, x, y, int(number(fpr.get("n")) or 0), int(number(dr.get("n")) or 0))


def to_estimate(label: str, rate: Json) -> Estimate:
    """Return a rate of the summary as it is drawn."""
    body = as_object(rate)
    return Estimate(
        label,
        int(number(body.get("n")) or 0),
        *[number(body.get(name)) for name in ("estimate", "lo", "hi", "bound_lo", "bound_hi")],
    )


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def sections_of(summary: JsonObject) -> list[JsonObject]:
    """Return the sections of a summary."""
    return objects(as_object(summary["results"])["sections"])
