"""The report of what data sets share: a matrix, a table, the ids of every shared text, and no text (DS-14, DS-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from evals.datasets.overlap import Overlap
from evals.folder import make_folder, to_lines, write_file
from evals.journal import JsonObject
from evals.report.grids import Cell, draw_heat
from evals.report.html import frame
from evals.report.parts import data_table, figure_blocks
from evals.report.svg import Figure
from evals.types import Item

_MOST = 24
"""Sets the matrix shows: those that share most; the table has all pairs."""


def overlap_rows(found: Sequence[Overlap]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of the pairs that share something, the most shared texts first."""
    sharing = sorted([one for one in found if one.norm or one.near], key=lambda o: (-o.norm, o.left, o.right))
    rows: list[tuple[str, ...]] = [
        (
            one.left,
            one.right,
            str(one.exact),
            str(one.norm),
            "not looked for" if one.near is None else str(one.near),
            str(one.left_texts),
            str(one.right_texts),
            f"{one.contained:.3f}",
            _word(one),
        )
        for one in sharing
    ]
    header = ("left", "right", "exact", "normalised", "near", "left texts", "right texts", "of the smaller", "so")
    return header, rows


def _word(one: Overlap) -> str:
    if one.contained < 1:
        return "overlap"
    if one.left_texts == one.right_texts:
        return "copy"
    small, large = (one.left, one.right) if one.left_texts < one.right_texts else (one.right, one.left)
    return f"{small} is inside {large}"


def draw_overlap(found: Sequence[Overlap]) -> Figure:
    """Draw the sets that share most as a matrix: how much of the smaller one the other has."""
    weight: dict[str, int] = {}
    for one in found:
        for name in (one.left, one.right):
            weight[name] = weight.get(name, 0) + one.norm
    chosen = sorted(sorted(weight, key=lambda name: (-weight[name], name))[:_MOST])
    rows: dict[str, dict[str, Cell]] = {name: {} for name in chosen}
    for one in found:
        if one.left in rows and one.right in rows and one.norm:
            size = min(one.left_texts, one.right_texts)
            cell = Cell(one.contained, str(one.norm), f"{one.norm} texts shared, {one.contained:.1%} of {size}")
            rows[one.left][one.right] = rows[one.right][one.left] = cell
    description = (
        f"{len(chosen)} sets; each cell: distinct normalised texts both have, as dark as its share of the smaller."
    )
    return draw_heat("overlap", "Texts that data sets share", description, chosen, rows)


def write_overlap(
    found: Sequence[Overlap],
    sets: Mapping[str, Sequence[Item]],
    origins: Mapping[str, Mapping[str, int]],
    folder: Path,
) -> Path:
    """Write page, figure, table and ids, and return the page.

    Args:
        found: pairs.
        sets: the sets compared.
        origins: set → stated origin → items, of sets compiled from others.
        folder: to write to.
    """
    make_folder(folder)
    figure = draw_overlap(found)
    header, rows = overlap_rows(found)
    write_file(folder / "overlap.svg", figure.to_svg() + "\n")
    write_file(folder / "overlap.csv", "".join([",".join(row) + "\n" for row in (header, *rows)]))
    ids: list[JsonObject] = [
        {
            "left": one.left,
            "right": one.right,
            "key": text.key,
            "left_ids": list(text.left),
            "right_ids": list(text.right),
        }
        for one in found
        for text in one.shared
    ]
    write_file(folder / "overlap.jsonl", to_lines(ids))
    stated = [(name, origin, str(n)) for name, counts in origins.items() for origin, n in counts.items()]
    sizes = [(name, str(len(items)), str(len({item.norm for item in items}))) for name, items in sets.items()]
    near = any(one.near is not None for one in found)
    note = "" if near else " Near texts were not looked for."
    body = (
        "<h1>What data sets share</h1>"
        f"<p>{len(sets)} sets, {len(rows)} pairs with a shared text, counted as distinct texts.{escape(note)} "
        "A threshold set on one and tested on the other needs the shared items removed from the test side.</p>"
        f"{figure_blocks([figure])}<h2>Pairs</h2>{data_table(header, rows, 'Pairs that share a text')}"
        f"<h2>Stated origins</h2>{data_table(('set', 'origin', 'items'), stated, 'Origins that compiled sets state')}"
        f"<h2>Sets</h2>{data_table(('set', 'items', 'distinct texts'), sizes, 'Sets compared')}"
    )
    page = folder / "overlap.html"
    write_file(page, frame("What data sets share", body))
    return page
