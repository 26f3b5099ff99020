"""Hold a replay of stored replies against the published columns of the same file (C-01, §2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evals.attempts import as_object
from evals.client import number
from evals.datasets.bells import load_metacognitive_rows
from evals.journal import JsonObject
from evals.report.coherence import six_cells
from evals.report.table import layout
from evals.types import Truth

_KINDS = ("answers", "hedges", "refuses")


@dataclass(frozen=True, slots=True)
class Stated:
    """What the file itself says of one model: the six cells, and how many rows it calls coherent."""

    cells: tuple[int, ...]
    coherent: int


def read_stated(path: Path) -> Mapping[str, Stated]:
    """Count the file's own columns, touching nothing of ours but the reader.

    Raises:
        DatasetError: the file is missing or malformed.
    """
    cells: dict[str, Counter[tuple[Truth, str]]] = {}
    coherent: Counter[str] = Counter()
    for row in load_metacognitive_rows(path):
        cells.setdefault(row.model, Counter())[row.harmfulness, row.response_type] += 1
        coherent[row.model] += row.is_coherent
    order = [(own, kind) for own in (Truth.HARMFUL, Truth.BENIGN) for kind in _KINDS]
    return {model: Stated(tuple([found[cell] for cell in order]), coherent[model]) for model, found in cells.items()}


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours beside theirs.

    Args:
        lines: a table.
        equal: models whose cells and coherent rows are equal.
        models: models compared.
    """

    lines: tuple[str, ...]
    equal: int
    models: int


def compare_with_file(summary: JsonObject, path: Path) -> Compared:
    """Compare the coherence of a run with the columns of the file it was replayed from."""
    coherence = as_object(as_object(summary["results"])["coherence"])
    ours = as_object(as_object(coherence["bells"])["models"])
    rows: list[tuple[str, ...]] = []
    equal = 0
    stated = {model: found for model, found in read_stated(path).items() if model in ours}
    for model, theirs in stated.items():
        report = as_object(ours[model])
        cells = tuple(six_cells(report))
        coherent = int(number(as_object(report["coherence_file"])["k"]) or 0)
        same = cells == theirs.cells and coherent == theirs.coherent
        equal += same
        rows.append(
            (model, _text(cells), _text(theirs.cells), f"{coherent} / {theirs.coherent}", "yes" if same else "NO")
        )
    header = ("model", "six cells, ours", "as published", "coherent, ours / published", "equal")
    return Compared((*layout(header, rows), f"reproduced: {equal} of {len(stated)} models"), equal, len(stated))


def _text(cells: tuple[int, ...]) -> str:
    return " ".join(map(str, cells))
