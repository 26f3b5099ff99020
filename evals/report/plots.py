"""Forests of rates, bars of counts, and planes of supervisors with their Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evals.nouns import count_of
from evals.report.svg import Figure, Plane, cell, clip, legend, mark, rule, tip, word

_LEFT, _RIGHT = 12, 468
HATCH = (
    '<defs><pattern id="{id}" width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="badbase"/><line x1="0" y1="0" x2="0" y2="6" class="badline"/></pattern></defs>'
)
"""A hatched fill for what should not happen, to be formatted with the id it gets."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate to be drawn; None where there is none."""

    label: str
    n: int
    estimate: float | None
    lo: float | None
    hi: float | None
    bound_lo: float | None
    bound_hi: float | None

    @property
    def text(self) -> str:
        """Return the rate in words, never without its n."""
        if self.estimate is None:
            return f"n/a (n={self.n})"
        span = "" if self.lo is None or self.hi is None else f" [{self.lo:.3f}, {self.hi:.3f}]"
        return f"{self.estimate:.3f}{span} (n={self.n})"


def _x(value: float) -> float:
    return round(_LEFT + value * (_RIGHT - _LEFT), 2)


def draw_forest(name: str, title: str, rates: Sequence[Estimate]) -> Figure:
    """Draw rates with their intervals, and the worst-case bounds as thin lines; none without its n."""
    height = 34 + 42 * len(rates)
    parts = [_axis(height - 24)]
    for index, rate in enumerate(rates):
        parts.append(_forest_row(rate, 10 + 42 * index))
    description = (
        f"{count_of(len(rates), 'rate')} on an axis from 0 to 1 with 95 % intervals; thin lines are worst-case bounds."
    )
    header = ("rate", "n", "estimate", "lo", "hi", "bound_lo", "bound_hi")
    rows = tuple([(r.label, str(r.n), *map(cell, (r.estimate, r.lo, r.hi, r.bound_lo, r.bound_hi))) for r in rates])
    return Figure(name, title, description, "".join(parts), height, header, rows)


def _forest_row(rate: Estimate, top: float) -> str:
    y = top + 22
    drawn: list[str] = []
    for lo, hi, kind in ((rate.bound_lo, rate.bound_hi, "bound"), (rate.lo, rate.hi, "span")):
        if lo is not None and hi is not None:
            drawn.append(rule(_x(lo), y, max(_x(hi), _x(lo) + 1), y, kind))
    if rate.estimate is not None:
        drawn.append(f'<circle cx="{_x(rate.estimate):g}" cy="{y:g}" r="5" class="p0"/>')
    said = word(_RIGHT, top + 8, rate.text, anchor="end")
    return (
        tip("".join(drawn) or "<g/>", f"{rate.label}: {rate.text}") + word(_LEFT, top + 8, clip(rate.label, 34)) + said
    )


def _axis(y: float) -> str:
    parts = [rule(_LEFT, y, _RIGHT, y, "frame")]
    for tick, anchor in ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")):
        parts.append(rule(_x(tick), 4, _x(tick), y, "grid"))
        parts.append(f'<text x="{_x(tick):g}" y="{y + 16:g}" class="muted" text-anchor="{anchor}">{tick:g}</text>')
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Point:
    """A supervisor in a plane: less of x and more of y is better.

    Args:
        label: its name.
        x: false positive rate, seconds or dollars.
        y: detection rate.
        detection, price: both in words, with n and interval.
        x_span, y_span: intervals, None without.
    """

    label: str
    x: float
    y: float
    detection: str
    price: str
    x_span: tuple[float, float] | None = None
    y_span: tuple[float, float] | None = None


def draw_plane(name: str, title: str, x_name: str, points: Sequence[Point], *, share: bool = True) -> Figure:
    """Draw supervisors by detection rate against what it costs, and mark those no other one beats.

    Args:
        name: of its files.
        title: what it shows.
        x_name: name of the x axis.
        points: supervisors.
        share: x is a rate, with a diagonal for those that do not discriminate.
    """
    end = 1.0 if share else _round_up(max([point.x for point in points], default=0.0) * 1.05 or 1.0)
    plane = Plane(x_name, "detection rate", x_end=end)
    parts = [plane.frame()]
    if share:
        parts.append(rule(*plane.at(0, 0), *plane.at(1, 1), "diag"))
    front = [point for point in points if is_on_front(point, points)]
    parts.append(plane.polyline(sorted({(point.x, point.y) for point in front}), "s5"))
    entries: list[tuple[int, str]] = []
    for index, point in enumerate(points):
        best = "best trade-off: " if point in front else ""
        text = f"{point.label}: {best}detection {point.detection}, {x_name} {point.price}"
        parts.append(tip(_cross(plane, point, end) + mark(index, *plane.at(point.x, point.y)), text))
        star = "★ " if point in front else ""
        entries.append((index, f"{star}{point.label}: {point.y:.3f}, {point.price}"))
    top = plane.bottom + 60
    parts.append(legend(entries, top))
    description = (
        f"{count_of(len(points), 'supervisor')}; ★ and the dashed line: no other one detects as much for as little."
        f"{' The diagonal is guessing.' if share else ''}"
    )
    header = ("supervisor", x_name.replace(" ", "_"), "detection_rate", "on_front", "x_in_words", "detection_in_words")
    rows = tuple([(p.label, cell(p.x), cell(p.y), "yes" if p in front else "no", p.price, p.detection) for p in points])
    return Figure(name, title, description, "".join(parts), top + 20 * len(points), header, rows)


def _cross(plane: Plane, point: Point, end: float) -> str:
    parts: list[str] = []
    if point.x_span is not None:
        ends = [plane.at(min(x, end), point.y) for x in point.x_span]
        parts.append(rule(*ends[0], *ends[1], "cross"))
    if point.y_span is not None:
        ends = [plane.at(point.x, y) for y in point.y_span]
        parts.append(rule(*ends[0], *ends[1], "cross"))
    return "".join(parts)


def is_on_front(point: Point, points: Sequence[Point]) -> bool:
    """Tell whether no other point has at most the same x and at least the same y, and one of them better."""
    return not any(o.x <= point.x and o.y >= point.y and (o.x, o.y) != (point.x, point.y) for o in points)


def draw_bars(name: str, title: str, bars: Sequence[tuple[str, int, bool]]) -> Figure:
    """Draw counts as bars.

    Args:
        name: of its files.
        title: what it shows.
        bars: label, count, and whether it is something bad, which is drawn hatched as well as red.
    """
    most = max([count for _, count, _ in bars], default=0) or 1
    total = sum([count for _, count, _ in bars])
    parts = [HATCH.format(id=f"{name}-hatch")]
    for index, (label, count, bad) in enumerate(bars):
        y = 6 + 40 * index
        length = round(count / most * (_RIGHT - _LEFT), 2)
        fill = f'fill="url(#{name}-hatch)"' if bad else 'class="bar"'
        share = "" if total == 0 else f" ({count / total:.0%} of {total})"
        drawn = f'<rect x="{_LEFT}" y="{y + 15:g}" width="{max(length, 1):g}" height="14" rx="2" {fill}/>'
        parts.append(tip(drawn, f"{label}: {count}{share}"))
        parts.append(word(_LEFT, y + 9, label) + word(_RIGHT, y + 9, f"{count}{share}", anchor="end"))
    description = f"{len(bars)} counts that add up to {total}; hatched bars are what should not happen."
    rows = tuple([(label, str(count)) for label, count, _ in bars])
    return Figure(name, title, description, "".join(parts), 10 + 40 * len(bars), ("what", "count"), rows)


def draw_steps(name: str, title: str, points: Sequence[tuple[float, float]], n: int) -> Figure:
    """Draw the share of values up to each value, as steps: an ECDF in milliseconds.

    Args:
        name: of its files.
        title: what it shows.
        points: (seconds, share), ascending.
        n: values behind it.
    """
    end = max([seconds for seconds, _ in points], default=0.0) * 1000 or 1.0
    plane = Plane("milliseconds", "share of exchanges", x_end=_round_up(end))
    path: list[tuple[float, float]] = [(0.0, 0.0)]
    for seconds, share in points:
        path += [(seconds * 1000, path[-1][1]), (seconds * 1000, share)]
    parts = [plane.frame(), plane.polyline(path, "s0")]
    for seconds, share in points[:: max(1, len(points) // 12)]:
        x, y = plane.at(seconds * 1000, share)
        parts.append(tip(mark(0, x, y), f"{share:.0%} of exchanges took at most {seconds * 1000:.2f} ms (n={n})"))
    rows = tuple([(f"{seconds * 1000:.3f}", cell(share), str(n)) for seconds, share in points])
    description = f"What the guard added to {n} exchanges: share of them up to each time."
    return Figure(name, title, description, "".join(parts), plane.bottom + 46, ("ms", "share", "n"), rows)


def _round_up(value: float) -> float:
    scale = math.pow(10, math.floor(math.log10(value)))
    return next(step * scale for step in (1, 2, 4, 5, 8, 10, 20) if step * scale >= value * 0.999)
