"""Leaderboards of users: one CSV row a score, with its unit and direction declared (DS-23)."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.reasons import reason_of
from supervisors.errors import DatasetError

COLUMNS = ("benchmark", "model", "score", "n", "direction", "unit", "source", "date")
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Score:
    """A published score of a model.

    Args:
        benchmark: what was measured.
        model: whose score it is.
        score: as a fraction in 0..1, in the direction of the benchmark.
        n: items behind it, None when nobody said.
        direction: ``higher`` or ``lower`` is better.
        source: where it was published.
        date: when, ISO or its beginning.
    """

    benchmark: str
    model: str
    score: float
    n: int | None
    direction: Direction
    source: str
    date: str


def read_leaderboard(path: Path) -> tuple[Score, ...]:
    """Read a leaderboard.

    Raises:
        DatasetError: a column is missing, or a row declares no unit or direction we know; file and row are named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [{str(key): (value or "").strip() for key, value in row.items()} for row in csv.DictReader(lines)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path.name}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error
    missing = [name for name in COLUMNS if rows and name not in rows[0]]
    if missing or not rows:
        msg = f"{path.name}: no column {', '.join(missing) or 'at all'}; expected {', '.join(COLUMNS)}"
        raise DatasetError(msg)
    return tuple([_to_score(row, f"{path.name}, row {number}") for number, row in enumerate(rows, 1)])


def _to_score(row: dict[str, str], where: str) -> Score:
    scale = {"percent": 100.0, "proportion": 1.0}.get(row["unit"])
    directions: dict[str, Direction] = {"higher": "higher", "lower": "lower"}
    direction = directions.get(row["direction"])
    if scale is None or direction is None:
        unit, turn = row["unit"], row["direction"]
        msg = f"{where}: unit {unit!r} must be percent or proportion, direction {turn!r} higher or lower"
        raise DatasetError(msg)
    try:
        score = float(row["score"]) / scale
        n = int(row["n"].replace(",", "")) if row["n"] else None
    except ValueError as error:
        msg = f"{where}: score {row['score']!r} and n {row['n']!r} must be numbers"
        raise DatasetError(msg) from error
    if not math.isfinite(score) or not 0 <= score <= 1:
        msg = f"{where}: score {row['score']!r} in {row['unit']} is outside its range"
        raise DatasetError(msg)
    return Score(row["benchmark"], row["model"], score, n, direction, row["source"], row["date"])
