"""Which figures a summary gives; every number is taken from it, none is computed here but positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.report.curves import draw_precision, draw_reliability, draw_roc
from evals.report.grids import Cell, Way, draw_cells, draw_flow, draw_heat
from evals.report.panel import panel_figure
from evals.report.plots import Estimate, Point, draw_bars, draw_forest, draw_plane, draw_steps
from evals.report.svg import Figure
from evals.report.table import title_of
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


def figures_of(section: JsonObject, effort: JsonObject) -> list[Figure]:
    """Return the figures of one data set and target.

    Args:
        section: of the summary's results.
        effort: of its times, for the same data set and target; empty without.
    """
    name = slug(f"{section['dataset']}-{section['target']}")
    where = title_of(section)
    ledger = as_object(section["ledger"])
    parts: dict[str, JsonObject] = {"rates": as_object(section["rates"]), "ledger": ledger}
    rates = [(title, parts[part].get(key)) for title, part, key in _HEADLINE]
    headline = [to_estimate(title, rate) for title, rate in rates if as_object(rate).get("planned")]
    found: list[Figure | None] = [draw_forest(f"{name}-rates", f"Rates, {where}", headline)]
    found += _planes(name, where, section, effort)
    found += _curves(name, where, as_object(section.get("curves")))
    found.append(_grid(name, where, as_object(section.get("grid"))))
    found += _categories(name, where, section)
    found.append(panel_figure(name, where, as_object(section.get("panel"))))
    found.append(draw_flow(f"{name}-flow", f"Where the trials went, {where}", _ways(ledger)))
    found += _bars(name, where, ledger)
    steps = effort.get("overhead_ecdf")
    points = [(number(row[0]) or 0.0, number(row[1]) or 0.0) for row in _lists(steps) if len(row) == 2]
    if len(points) > 1:
        n = int(number(as_object(effort.get("overhead_s")).get("n")) or 0)
        found.append(draw_steps(f"{name}-overhead", f"Time the guard added, {where}", points, n))
    return [figure for figure in found if figure is not None]


def _lists(value: Json) -> list[list[Json]]:
    return [row for row in value if isinstance(row, list)] if isinstance(value, list) else []


def _ways(ledger: JsonObject) -> list[Way]:
    return [
        Way(str(one["truth"]), str(one["alone"]), str(one["end"]), int(number(one["count"]) or 0))
        for one in objects(ledger.get("flow"))
    ]


def _bars(name: str, where: str, ledger: JsonObject) -> list[Figure]:
    found: list[Figure] = []
    for truth, cells in as_object(ledger.get("cells")).items():
        if truth not in ("harmful", "benign"):
            continue  # on borderline and unlabelled items there is no right answer
        counts = [(key, int(number(count) or 0)) for key, count in as_object(cells).items()]
        bars = [(key.replace("_", " "), count, key in _BAD) for key, count in counts if count]
        if bars:
            found.append(draw_bars(f"{name}-ledger-{truth}", f"Ledger of {truth} items, {where}", bars))
    return found


def _planes(name: str, where: str, section: JsonObject, effort: JsonObject) -> list[Figure]:
    """Return supervisors by detection against false positives, seconds and dollars, as far as these are known."""
    rates, efforts = as_object(section["supervisors"]), as_object(effort.get("supervisors"))
    found: list[Figure] = []
    for key, title, x_name in (
        ("supervisors", "Detection against false positives", "false positive rate"),
        ("latency", "Detection against latency", "p95 milliseconds"),
        ("cost", "Detection against cost", "US dollars per thousand"),
    ):
        drawn = [_point(key, one, as_object(rates[one]), as_object(efforts.get(one))) for one in sorted(rates)]
        points = [point for point in drawn if point is not None]
        if points and (key == "supervisors" or _tells(points)):
            share = key == "supervisors"
            found.append(draw_plane(f"{name}-{key}", f"{title}, {where}", x_name, points, share=share))
    return found


def _tells(points: Sequence[Point]) -> bool:
    """Say whether a plane of time or money shows anything: two points, and one that is not free."""
    return len(points) > 1 and any(point.x for point in points)


def _point(kind: str, name: str, rates: JsonObject, effort: JsonObject) -> Point | None:
    dr, fpr = as_object(rates["detection_rate"]), as_object(rates["false_positive_rate"])
    y = number(dr.get("estimate"))
    x, said = _x_of(kind, fpr, effort)
    if x is None or y is None:
        return None
    spans = [_span(fpr) if kind == "supervisors" else None, _span(dr)]
    return Point(name, x, y, to_estimate("", dr).text, said, *spans)


def _x_of(kind: str, fpr: JsonObject, effort: JsonObject) -> tuple[float | None, str]:
    if kind == "supervisors":
        return number(fpr.get("estimate")), to_estimate("", fpr).text
    if kind == "latency":
        seconds = number(effort.get("p95_s"))
        return (None, "") if seconds is None else (seconds * 1000, f"{seconds * 1000:.2f} ms (n={effort['timed']})")
    cost, priced = number(effort.get("cost_usd")), number(effort.get("priced")) or 0
    return (None, "") if cost is None or not priced else (cost / priced * 1000, f"{cost / priced * 1000:.4f} USD")


def _span(rate: JsonObject) -> tuple[float, float] | None:
    lo, hi = number(rate.get("lo")), number(rate.get("hi"))
    return None if lo is None or hi is None else (lo, hi)


def _curves(name: str, where: str, curves: JsonObject) -> list[Figure | None]:
    found = [
        draw_roc(f"{name}-roc", f"ROC, {where}", curves),
        draw_precision(f"{name}-pr", f"Precision and recall, {where}", curves),
    ]
    for supervisor, body in list(curves.items())[:4]:
        title = f"Reliability of {supervisor}, {where}"
        found.append(draw_reliability(f"{name}-reliability-{slug(supervisor)}", title, as_object(body)))
    return found


def _grid(name: str, where: str, grid: JsonObject) -> Figure | None:
    families = sorted({family for row in grid.values() for family in as_object(row)}, key=lambda f: (f != "direct", f))
    if not grid or len(families) < 2:  # one family is the figure by category
        return None
    rows = {
        category: {family: rate_cell(rate) for family, rate in as_object(row).items()} for category, row in grid.items()
    }
    description = (
        f"Detection rate on harmful items: {len(rows)} categories × {len(families)} families; k/n in each cell."
    )
    return draw_heat(f"{name}-grid", f"Detected by category and family, {where}", description, families, rows)


def rate_cell(rate: Json) -> Cell:
    """Return a rate as a cell of a heat map."""
    body, estimate = as_object(rate), to_estimate("", rate)
    return Cell(estimate.estimate, f"{body.get('k')}/{body.get('n')}", f"{estimate.text}, {body.get('k')} detected")


def _categories(name: str, where: str, section: JsonObject) -> list[Figure]:
    categories = as_object(as_object(as_object(section["groups"])["category"])["detection_rate"])
    listed = [to_estimate(category, rate) for category, rate in categories.items() if as_object(rate).get("planned")]
    if len(listed) < 2:
        return []
    return [draw_forest(f"{name}-categories", f"Detection rate by category, {where}", listed)]


def coherence_figures(coherence: JsonObject) -> list[Figure]:
    """Return the figures of a coherence run: the six cells, the headline of each model, and both definitions."""
    models = as_object(as_object(coherence["bells"])["models"])
    cells = {model: _six(as_object(as_object(report)["cells"])) for model, report in models.items()}
    found = [draw_cells("coherence-cells", "What models do with what they judge themselves", cells)] if cells else []
    for key, title in (
        ("override_rate", "Answers what it judges harmful itself"),
        ("coherence_file", "Coherent rows, hedging counted as incoherent"),
        ("coherence_plot", "Coherent rows, hedging on a harmful request counted as coherent"),
    ):
        rates = [to_estimate(model, as_object(report).get(key)) for model, report in models.items()]
        found.append(draw_forest(f"coherence-{slug(key)}", title, rates))
    return found


def _six(cells: JsonObject) -> Mapping[str, Mapping[str, int]]:
    return {own: {kind: int(number(n) or 0) for kind, n in as_object(row).items()} for own, row in cells.items()}


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


def effort_of(summary: JsonObject, section: JsonObject) -> JsonObject:
    """Return the times of a section, empty when there are none."""
    listed = objects(as_object(summary["effort"])["latency"])
    same = [one for one in listed if (one["dataset"], one["target"]) == (section["dataset"], section["target"])]
    return same[0] if same else JsonObject()


def page_figures(summary: JsonObject) -> Mapping[str, Sequence[Figure]]:
    """Return the figures of each section of the page."""
    sections = sections_of(summary)
    found: dict[str, Sequence[Figure]] = {
        str(index): figures_of(section, effort_of(summary, section)) for index, section in enumerate(sections)
    }
    coherence = as_object(as_object(summary["results"]).get("coherence"))
    return found | ({"coherence": coherence_figures(coherence)} if coherence else {})
