"""Figures as inline SVG: each with a title, a description, and the numbers it shows as CSV (H-180)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 760
_INK, _FAINT, _BLUE, _RED = "#1f2933", "#cbd2d9", "#1f5fa8", "#b3261e"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Args:
        name: of its files.
        title: what it shows.
        description: for those who cannot see it.
        body: SVG elements.
        height: in pixels.
        header: columns of the numbers.
        rows: the numbers.
    """

    name: str
    title: str
    description: str
    body: str
    height: int
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_svg(self) -> str:
        """Return the figure as an SVG element."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {self.height}" '
            f'width="{_WIDTH}" height="{self.height}" font-family="sans-serif" font-size="12" fill="{_INK}">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.description)}</desc>{self.body}</svg>"
        )

    def to_csv(self) -> str:
        """Return the numbers of the figure."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()


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


_LEFT, _RIGHT, _STEP = 300, 700, 22


def _x(value: float) -> float:
    return round(_LEFT + value * (_RIGHT - _LEFT), 2)


def draw_forest(name: str, title: str, rates: Sequence[Estimate]) -> Figure:
    """Draw rates with their intervals, and the worst-case bounds as thin lines; none without its n."""
    height = 50 + _STEP * len(rates)
    parts = [_axis(height - 22)]
    for index, rate in enumerate(rates):
        y = 22 + _STEP * index
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(rate.label)} (n={rate.n})</text>')
        parts.append(_whiskers(rate, y))
    description = f"{len(rates)} rates on an axis from 0 to 1 with 95 % intervals; thin lines are worst-case bounds."
    header = ("rate", "n", "estimate", "lo", "hi", "bound_lo", "bound_hi")
    rows = tuple([(r.label, str(r.n), *map(_cell, (r.estimate, r.lo, r.hi, r.bound_lo, r.bound_hi))) for r in rates])
    return Figure(name, title, description, "".join(parts), height, header, rows)


def _whiskers(rate: Estimate, y: int) -> str:
    parts: list[str] = []
    for lo, hi, width, colour in ((rate.bound_lo, rate.bound_hi, 1, _FAINT), (rate.lo, rate.hi, 3, _BLUE)):
        if lo is not None and hi is not None:
            parts.append(
                f'<line x1="{_x(lo)}" x2="{_x(hi)}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="{width}"/>'
            )
    if rate.estimate is None:
        parts.append(f'<text x="{_LEFT + 6}" y="{y + 4}">n/a</text>')
    else:
        parts.append(f'<circle cx="{_x(rate.estimate)}" cy="{y}" r="4" fill="{_BLUE}"/>')
        parts.append(f'<text x="{_RIGHT + 8}" y="{y + 4}">{rate.estimate:.3f}</text>')
    return "".join(parts)


def _axis(y: int) -> str:
    parts = [f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y}" y2="{y}" stroke="{_INK}"/>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<line x1="{_x(tick)}" x2="{_x(tick)}" y1="8" y2="{y}" stroke="{_FAINT}" stroke-dasharray="2 4"/>'
        )
        parts.append(f'<text x="{_x(tick)}" y="{y + 16}" text-anchor="middle">{tick:g}</text>')
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Point:
    """A supervisor in the plane of false positives and detections."""

    label: str
    fpr: float
    dr: float
    n_benign: int
    n_harmful: int


def draw_plane(name: str, title: str, points: Sequence[Point]) -> Figure:
    """Draw supervisors by false positive and detection rate, with the diagonal of those that do not discriminate."""
    side, left, top = 320, 70, 16
    bottom = top + side

    def place(point: Point) -> tuple[float, float]:
        return left + point.fpr * side, bottom - point.dr * side

    parts = [
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="{_INK}"/>',
        f'<line x1="{left}" y1="{bottom}" x2="{left + side}" y2="{top}" stroke="{_FAINT}" stroke-dasharray="4 4"/>',
        f'<text x="{left + side / 2}" y="{bottom + 32}" text-anchor="middle">false positive rate</text>',
        f'<text x="16" y="{top + side / 2}" transform="rotate(-90 16 {top + side / 2})" '
        f'text-anchor="middle">detection rate</text>',
    ]
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{left + tick * side}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{left - 8}" y="{bottom - tick * side + 4}" text-anchor="end">{tick:g}</text>')
    for index, point in enumerate(points):
        x, y = place(point)
        parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="5" fill="{_front(point, points)}"/>')
        note = f"{index + 1}: {point.label} (n={point.n_harmful} harmful, {point.n_benign} benign)"
        parts.append(f'<text x="{x + 8:.2f}" y="{y + 4:.2f}">{index + 1}</text>')
        parts.append(f'<text x="{left + side + 24}" y="{top + 16 + 18 * index}">{escape(note)}</text>')
    description = "Each point is a supervisor; blue ones are on the Pareto front. The dashed line is guessing."
    rows = tuple([(p.label, _cell(p.fpr), _cell(p.dr), str(p.n_benign), str(p.n_harmful)) for p in points])
    header = ("supervisor", "false_positive_rate", "detection_rate", "n_benign", "n_harmful")
    return Figure(name, title, description, "".join(parts), bottom + 44, header, rows)


def _front(point: Point, points: Sequence[Point]) -> str:
    beaten = any(o.fpr <= point.fpr and o.dr >= point.dr and (o.fpr, o.dr) != (point.fpr, point.dr) for o in points)
    return _FAINT if beaten else _BLUE


def draw_bars(name: str, title: str, bars: Sequence[tuple[str, int, bool]]) -> Figure:
    """Draw counts as bars.

    Args:
        name: of its files.
        title: what it shows.
        bars: label, count, and whether it is something bad, which is drawn hatched as well as red.
    """
    most = max([count for _, count, _ in bars], default=0) or 1
    height = 20 + _STEP * len(bars)
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{_RED}"/><line x1="0" y1="0" x2="0" y2="6" stroke="#fff" stroke-width="2"/>'
        "</pattern></defs>"
    )
    parts = [hatch]
    for index, (label, count, bad) in enumerate(bars):
        y = 10 + _STEP * index
        length = round(count / most * (_RIGHT - _LEFT), 2)
        fill = "url(#hatch)" if bad else _BLUE
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length}" height="{_STEP - 6}" fill="{fill}"/>')
        parts.append(f'<text x="{_LEFT + length + 6}" y="{y + 12}">{count}</text>')
    total = sum([count for _, count, _ in bars])
    description = f"{len(bars)} counts that add up to {total}; hatched bars are what should not happen."
    rows = tuple([(label, str(count)) for label, count, _ in bars])
    return Figure(name, title, description, "".join(parts), height, ("what", "count"), rows)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
