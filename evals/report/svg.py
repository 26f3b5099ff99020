"""Figures as SVG: each with a title, a description, and the numbers it shows as CSV (H-180).

A figure is 480 units wide, so that its letters are readable on a phone without zooming. Colours come from classes, and
no colour is the only carrier of meaning: series differ in dashes and marks, bad counts are hatched, cells hold numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from evals.report.assets import figure_style

WIDTH = 480
SERIES = 6
"""Classes of series there are; further ones begin again."""
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Args:
        name: of its files.
        title: what it shows.
        description: for those who cannot see it.
        body: SVG elements.
        height: in units.
        header: columns of the numbers.
        rows: the numbers.
        width: in units.
        extra: attributes of the page's figure element, for its script.
    """

    name: str
    title: str
    description: str
    body: str
    height: float
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    width: float = WIDTH
    extra: tuple[tuple[str, str], ...] = ()

    def to_svg(self, *, alone: bool = True) -> str:
        """Return the figure as an SVG element.

        Args:
            alone: with its own style, as a file; without it, as a part of the page.
        """
        style = f"<style>{figure_style()}</style>" if alone else ""
        ids = f"{self.name}-t", f"{self.name}-d"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{ids[0]} {ids[1]}" class="fig" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}">'
            f'<title id="{ids[0]}">{escape(self.title)}</title><desc id="{ids[1]}">{escape(self.description)}</desc>'
            f"{style}{self.body}</svg>"
        )

    def to_csv(self) -> str:
        """Return the numbers of the figure."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()


def cell(value: float | None) -> str:
    """Return a number as it stands in the CSV; empty where there is none."""
    return "" if value is None else f"{value:.6f}"


def word(x: float, y: float, said: str, *, anchor: Anchor = "start", kind: str = "ink") -> str:
    """Return a line of text.

    Args:
        x: place of its base line.
        y: the same.
        said: the text, not yet escaped.
        anchor: which end of it lies at x.
        kind: class: ink, muted, strong.
    """
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line of a class."""
    return f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" class="{kind}"/>'


def tip(element: str, said: str) -> str:
    """Return an element with its text for pointers, keys and screen readers.

    Args:
        element: SVG elements.
        said: what they show, in words and numbers.
    """
    return f'<g class="tip" data-tip="{escape(said)}"><title>{escape(said)}</title>{element}</g>'


def mark(index: int, x: float, y: float) -> str:
    """Return the mark of a series: circle, square, diamond, triangle, in turn."""
    kind = f"p{index % SERIES}"
    match index % 4:
        case 0:
            return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="5" class="{kind}"/>'
        case 1:
            return f'<rect x="{x - 4.5:.2f}" y="{y - 4.5:.2f}" width="9" height="9" class="{kind}"/>'
        case 2:
            return f'<path d="M{x:.2f} {y - 6:.2f}l6 6l-6 6l-6 -6z" class="{kind}"/>'
        case _:
            return f'<path d="M{x:.2f} {y - 6:.2f}l6 11h-12z" class="{kind}"/>'


def clip(said: str, letters: int) -> str:
    """Return a text of at most so many letters; the whole of it stands in the tip and the CSV."""
    return said if len(said) <= letters else said[: letters - 1] + "…"


def clip_name(said: str, letters: int) -> str:
    """Return a text of at most so many letters of which the numbers stay whole: the name before them is cut (H-180)."""
    if len(said) <= letters:
        return said
    name, colon, numbers = said.rpartition(": ")
    if colon and len(colon + numbers) < letters - 8:
        return clip(name, letters - len(colon + numbers)) + colon + numbers
    head, comma, count = said.rpartition(", n=")
    return clip(head, letters - len(comma + count)) + comma + count if comma else clip(said, letters)


@dataclass(frozen=True, slots=True)
class Plane:
    """A square plane with two axes from 0 to 1, or to given ends.

    Args:
        left, top, side: its place and size.
        x_name, y_name: what its axes are.
        x_end: right end of the x axis.
    """

    x_name: str
    y_name: str
    left: float = 56
    top: float = 14
    side: float = 300
    wide: float = 404
    x_end: float = 1.0

    @property
    def bottom(self) -> float:
        """Return where the x axis lies."""
        return self.top + self.side

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point."""
        return self.left + x / self.x_end * self.wide, self.bottom - y * self.side

    def frame(self) -> str:
        """Return axes, grid and names."""
        parts = [f'<rect x="{self.left}" y="{self.top}" width="{self.wide}" height="{self.side}" class="frame"/>']
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
            x, y = self.at(tick * self.x_end, tick)
            if 0 < tick < 1:
                parts.append(rule(x, self.top, x, self.bottom, "grid"))
                parts.append(rule(self.left, y, self.left + self.wide, y, "grid"))
            parts.append(word(x, self.bottom + 17, _tick(tick * self.x_end), anchor="middle", kind="muted"))
            parts.append(word(self.left - 7, y + 4, f"{tick:g}", anchor="end", kind="muted"))
        parts.append(word(self.left + self.wide / 2, self.bottom + 36, self.x_name, anchor="middle"))
        middle = self.top + self.side / 2
        parts.append(
            f'<text x="15" y="{middle:g}" transform="rotate(-90 15 {middle:g})" text-anchor="middle" class="ink">'
            f"{escape(self.y_name)}</text>"
        )
        return "".join(parts)

    def polyline(self, points: Sequence[tuple[float, float]], kind: str) -> str:
        """Return a line through points."""
        places = " ".join([f"{x:.2f},{y:.2f}" for x, y in [self.at(*point) for point in points]])
        return f'<polyline points="{places}" class="{kind}"/>'


def _tick(value: float) -> str:
    return f"{value:.3g}"


def legend(entries: Sequence[tuple[int, str]], top: float) -> str:
    """Return one line a series: its mark, and what it is.

    Args:
        entries: index of the series and its text.
        top: where the first line begins.
    """
    parts: list[str] = []
    for row, (index, said) in enumerate(entries):
        y = top + 20 * row
        parts.append(f'<line x1="14" x2="46" y1="{y:g}" y2="{y:g}" class="s{index % SERIES}"/>{mark(index, 30, y)}')
        parts.append(word(54, y + 4, clip_name(said, 58)))
    return "".join(parts)
