"""ROC and precision-recall curves, and reliability diagrams, from the curves of a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.report.svg import Figure, Plane, cell, legend, mark, rule, tip
from evals.report.table import span_of
from evals.statistics.jsonable import Json

_MOST = 6


@dataclass(frozen=True, slots=True)
class _Series:
    """One supervisor's curve as the summary has it."""

    name: str
    body: JsonObject

    @property
    def positives(self) -> int:
        return int(number(self.body.get("positives")) or 0)

    @property
    def negatives(self) -> int:
        return int(number(self.body.get("negatives")) or 0)

    @property
    def steps(self) -> list[tuple[float, int, int]]:
        listed = self.body.get("steps")
        rows = listed if isinstance(listed, list) else []
        cells = [[number(value) or 0.0 for value in row] for row in rows if isinstance(row, list)]
        return [(row[0], int(row[1]), int(row[2])) for row in cells]

    def area(self, name: str) -> str:
        found = as_object(self.body.get(name))
        value, lo, hi = [number(found.get(key)) for key in ("estimate", "lo", "hi")]
        span = "" if lo is None or hi is None else f" [{lo:.3f}, {hi:.3f}]"
        return "n/a" if value is None else f"{value:.3f}{span}"


def _usable(curves: Mapping[str, Json]) -> list[_Series]:
    """Return the curves with both classes, at most six: the largest areas first, for a figure that can be read."""
    listed = [_Series(name, as_object(body)) for name, body in curves.items()]
    both = [one for one in listed if one.positives and one.negatives]
    return sorted(both, key=lambda one: (-(number(as_object(one.body["auroc"]).get("estimate")) or 0.0), one.name))[
        :_MOST
    ]


def draw_roc(name: str, title: str, curves: Mapping[str, Json]) -> Figure | None:
    """Draw detection against false positives over all thresholds; None without both classes."""
    series = _usable(curves)
    if not series:
        return None
    plane = Plane("false positive rate", "detection rate")
    parts = [plane.frame(), rule(*plane.at(0, 0), *plane.at(1, 1), "diag")]
    rows: list[tuple[str, ...]] = []
    for index, one in enumerate(series):
        points = [(fp / one.negatives, tp / one.positives) for _, tp, fp in one.steps]
        parts.append(_group(index, one, plane.polyline([(0.0, 0.0), *points], f"s{index}") + _marks(plane, index, one)))
        rows += [_row(one, step) for step in one.steps]
    texts = [f"{one.name}: AUROC {one.area('auroc')}, n={one.positives}+{one.negatives}" for one in series]
    top = plane.bottom + 58
    parts.append(legend(list(enumerate(texts)), top))
    description = "Each step is one threshold; the diagonal is guessing; n is harmful + benign. " + "; ".join(texts)
    header = ("supervisor", "threshold", "detection_rate", "false_positive_rate", "tp", "fp", "harmful", "benign")
    height = top + 20 * len(series)
    return Figure(name, title, description, "".join(parts), height, header, tuple(rows), extra=(("data-kind", "roc"),))


def _group(index: int, one: _Series, drawn: str) -> str:
    return f'<g data-series="{index}">{drawn}</g>'


def _row(one: _Series, step: tuple[float, int, int]) -> tuple[str, ...]:
    threshold, tp, fp = step
    shares = cell(tp / one.positives), cell(fp / one.negatives)
    return (one.name, cell(threshold), *shares, str(tp), str(fp), str(one.positives), str(one.negatives))


def _marks(plane: Plane, index: int, one: _Series) -> str:
    """Mark a curve where the summary has an operating point."""
    parts: list[str] = []
    for budget in objects(one.body.get("budgets")):
        point = as_object(budget.get("point"))
        dr, fpr = as_object(point.get("detection")), as_object(point.get("false_positives"))
        x, y = number(fpr.get("estimate")), number(dr.get("estimate"))
        if x is None or y is None or point.get("flags_nothing") is True:
            continue
        said = (
            f"{one.name} at FPR budget {budget['budget']}: threshold {number(point['threshold']):.4f}, "
            f"DR {y:.3f} ({dr['k']}/{dr['n']}), FPR {x:.3f} ({fpr['k']}/{fpr['n']})"
        )
        parts.append(tip(mark(index, *plane.at(x, y)), said))
    return "".join(parts)


def draw_precision(name: str, title: str, curves: Mapping[str, Json]) -> Figure | None:
    """Draw precision against recall over all thresholds; None without both classes."""
    series = _usable(curves)
    if not series:
        return None
    plane = Plane("recall (detection rate)", "precision")
    parts = [plane.frame()]
    rows: list[tuple[str, ...]] = []
    for index, one in enumerate(series):
        points = [(tp / one.positives, tp / (tp + fp)) for _, tp, fp in one.steps]
        share = one.positives / (one.positives + one.negatives)
        line = plane.polyline(points, f"s{index}") + _few_marks(plane, index, one, points)
        parts.append(_group(index, one, line + rule(*plane.at(0, share), *plane.at(1, share), "diag")))
        rows += [
            (one.name, cell(step[0]), cell(x), cell(y), str(one.positives), str(one.negatives))
            for step, (x, y) in zip(one.steps, points, strict=True)
        ]
    texts = [f"{one.name}: AP {one.area('average_precision')}, n={one.positives}+{one.negatives}" for one in series]
    top = plane.bottom + 58
    parts.append(legend(list(enumerate(texts)), top))
    description = "Dashed lines: what flagging everything gives, the share of harmful items. " + "; ".join(texts)
    header = ("supervisor", "threshold", "recall", "precision", "harmful", "benign")
    height = top + 20 * len(series)
    return Figure(name, title, description, "".join(parts), height, header, tuple(rows), extra=(("data-kind", "pr"),))


def _few_marks(plane: Plane, index: int, one: _Series, points: Sequence[tuple[float, float]]) -> str:
    parts: list[str] = []
    chosen = list(zip(one.steps, points, strict=True))
    for (threshold, tp, fp), (x, y) in chosen[:: max(1, len(chosen) // 8)]:
        said = f"{one.name} at threshold {threshold:.4f}: recall {x:.3f}, precision {y:.3f} ({tp}/{tp + fp})"
        parts.append(tip(mark(index, *plane.at(x, y)), said))
    return "".join(parts)


def draw_reliability(name: str, title: str, body: JsonObject) -> Figure | None:
    """Draw mean score against the share that is harmful, with interval and count of each bin.

    Returns:
        None without bins, and where every item is of one class: the share says nothing of the score then.
    """
    found = as_object(body.get("calibration"))
    bins = objects(found.get("bins"))
    if not bins or not number(body.get("positives")) or not number(body.get("negatives")):
        return None
    plane = Plane("mean score of the bin", "share that is harmful")
    parts = [plane.frame(), rule(*plane.at(0, 0), *plane.at(1, 1), "diag")]
    rows: list[tuple[str, ...]] = []
    path: list[tuple[float, float]] = []
    for one in bins:
        rate = as_object(one["harmful"])
        x, y = number(one["mean_score"]) or 0.0, number(rate["estimate"]) or 0.0
        lo, hi = number(rate.get("lo")), number(rate.get("hi"))
        path.append((x, y))
        span = "" if lo is None or hi is None else rule(*plane.at(x, lo), *plane.at(x, hi), "span")
        said = f"mean score {x:.3f}: {y:.3f} harmful ({rate['k']}/{rate['n']})"
        parts.append(tip(span + mark(0, *plane.at(x, y)), said))
        rows.append((cell(x), cell(y), cell(lo), cell(hi), str(rate["k"]), str(rate["n"])))
    parts.append(plane.polyline(path, "s0"))
    spans = {"ECE": span_of(body.get("ece_interval"))}
    texts = [f"{name_} {value:.3f} {spans.get(name_, '')}".rstrip() for name_, value in _numbers(found)]
    flags = found.get("flags")
    unstable = ", unstable below 100 items" if isinstance(flags, list) and flags else ""
    description = f"On the diagonal a score means what it says. {', '.join(texts)}, n={found['n']}{unstable}"
    top = plane.bottom + 58
    parts.append(legend([(0, f"{', '.join(texts)}, n={found['n']}{unstable}")], top))
    header = ("mean_score", "share_harmful", "lo", "hi", "harmful", "n")
    return Figure(name, title, description, "".join(parts), top + 20, header, tuple(rows))


def _numbers(found: JsonObject) -> list[tuple[str, float]]:
    listed = [("Brier", found.get("brier")), ("ECE", found.get("ece")), ("largest gap", found.get("max_gap"))]
    return [(name, value) for name, value in [(name, number(value)) for name, value in listed] if value is not None]
