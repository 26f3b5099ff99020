"""The matrix as text: how many cells, by outcome, and every one that is a gap. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from proxy.matrix.cells import FAILING, LISTED, MEANINGS, NOBODY, Cell, Outcome
from proxy.matrix.run import Matrix

_SAME: Final = ("outcome", "supervisor", "route", "stage", "role", "kind")
"""What the cells of one line have in common."""
_MERGED: Final = ("turn", "choice", "stream", "shape")
_FEW: Final = 4
"""Words of one field that a line holds; the rest is counted."""


def has_failed(matrix: Matrix) -> bool:
    """Say whether a cell is silent or leaked, or a control did not pass."""
    return bool(matrix.unsound) or any(cell.outcome in FAILING for cell in matrix.cells)


def write_text(matrix: Matrix, shown: Collection[Outcome] = LISTED) -> str:
    """Return the report for people.

    Args:
        matrix: what came of a run.
        shown: outcomes whose cells are listed, equal ones in one line.
    """
    return "\n".join(_lines(matrix, shown)) + "\n"


def _lines(matrix: Matrix, shown: Collection[Outcome]) -> Iterator[str]:
    yield (
        f"{len(matrix.cells)} cells: each a supervisor, a place where text can stand "
        "(route, stage, role, turn, kind, choice, shape), and a way of delivery"
    )
    counts = Counter(cell.outcome for cell in matrix.cells)
    for outcome, meaning in MEANINGS.items():
        if counts[outcome] or outcome in FAILING:
            yield f"{counts[outcome]:>7} {outcome.value:<12} {meaning}"
    causes = Counter(cell.cause for cell in matrix.cells if cell.cause)
    if causes:
        yield "causes of unknown: " + ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
    yield from _notes(matrix)
    listed = [cell for cell in matrix.cells if cell.outcome in shown]
    alone = Counter(_side(cell) for cell in listed if cell.supervisor == NOBODY)
    for side, count in alone.items():
        yield f"nobody judges {side}: {count} cells"
    yield from _table([cell.row() for cell in listed if cell.supervisor != NOBODY])


def _table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield one line for all cells that differ in no more than turn, choice, delivery and shape."""
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        groups.setdefault(tuple([row[name] for name in _SAME]), []).append(row)
    lines = [
        (*same, str(len(group)), *[_words([row[name] for row in group]) for name in _MERGED])
        for same, group in groups.items()
    ]
    if lines:
        lines = [(*_SAME, "cells", *_MERGED), *lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        yield ""
        for line in lines:
            yield "  ".join([word.ljust(width) for word, width in zip(line, widths, strict=True)]).rstrip()


def _words(words: Sequence[str]) -> str:
    found = list(dict.fromkeys(words))
    more = f" and {len(found) - _FEW} more" if len(found) > _FEW else ""
    return ", ".join(found[:_FEW]) + more


def _notes(matrix: Matrix) -> Iterator[str]:
    if matrix.stand_ins:
        yield f"with a stand-in that looks where they are set to look: {', '.join(matrix.stand_ins)}"
    for route in matrix.unguarded:
        yield f"declared in unguarded_routes, judged by nobody, recorded and counted: {route}"
    for lane in matrix.unsound:
        yield f"a harmless exchange does not pass, so blocks prove nothing: {lane}"


def _side(cell: Cell) -> str:
    policies = ", ".join(cell.policies) or "no policy"
    return f"the {cell.place.stage} of {cell.place.route} under {policies}"


def write_json(matrix: Matrix) -> str:
    """Return the report for programs: every cell."""
    counts = Counter(cell.outcome.value for cell in matrix.cells)
    document = {
        "cells": len(matrix.cells),
        "outcomes": {outcome.value: counts[outcome.value] for outcome in Outcome},
        "stand_ins": list(matrix.stand_ins),
        "unsound": list(matrix.unsound),
        "unguarded_routes": list(matrix.unguarded),
        "rows": [cell.row() for cell in matrix.cells],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
