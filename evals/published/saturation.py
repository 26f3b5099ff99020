"""How far a benchmark is used up: whether its best systems can still be told apart.

Source: "The Shelf Life of Safety Benchmarks", saturation index; the published file is evaleval/benchmark-saturation at
commit 6285e3dd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evals.published.values import Published
from supervisors.errors import DatasetError

Level = Literal["very low", "low", "moderate", "high", "very high"]
_LEVELS: tuple[tuple[float, Level], ...] = ((0.01, "very low"), (0.3, "low"), (0.7, "moderate"), (0.9, "high"))
_RANKS = 5


@dataclass(frozen=True, slots=True)
class Saturation:
    """How near the fifth best system is to the best one, in standard errors.

    Args:
        index: 1 where they cannot be told apart, 0 where they clearly can.
        level: the index in words.
        best, fifth: scores as fractions.
        n: items.
    """

    index: float
    level: Level
    best: float
    fifth: float
    n: int

    def __str__(self) -> str:
        return f"{self.index:.2f} ({self.level})"


def saturation(scores: Sequence[float], n: int) -> Saturation:
    """Return the saturation index of a benchmark: exp(−R²), R the gap of best and fifth over its standard error at √n.

    Args:
        scores: as fractions, more is better, in any order.
        n: items of the benchmark.

    Raises:
        DatasetError: fewer than five scores, a score outside 0..1, or no item.
    """
    if len(scores) < _RANKS or n < 1 or any(not 0 <= score <= 1 for score in scores):
        msg = f"saturation needs five scores in 0..1 and an item; got {len(scores)} scores and {n} items"
        raise DatasetError(msg)
    ranked = sorted(scores, reverse=True)
    best, fifth = ranked[0], ranked[_RANKS - 1]
    index = _index(best, fifth, math.sqrt(n))
    return Saturation(index, _level(index), best, fifth, n)


def _level(index: float) -> Level:
    for limit, level in _LEVELS:
        if index < limit:
            return level
    return "very high"


def _index(best: float, fifth: float, effective: float) -> float:
    if best == fifth:
        return 1.0
    variance = (best * (1 - best) + fifth * (1 - fifth)) / effective
    return math.exp(-((best - fifth) ** 2) / variance) if variance > 0 else 0.0


def saturation_of(numbers: Sequence[Published]) -> Saturation | None:
    """Return the saturation of numbers of one cohort; None without five of a known n, and for a rate of false alarms.

    A score of which less is better is turned first (DS-23): otherwise the worst five would be looked at.
    """
    sizes = {one.n for one in numbers}
    one_way = len({(one.named, one.metric, one.cohort) for one in numbers}) == 1
    n = next(iter(sizes), None)
    alone = not numbers or numbers[0].metric == "fpr" or any(not 0 <= one.value <= 1 for one in numbers)
    if not one_way or len(sizes) != 1 or n is None or len(numbers) < _RANKS or alone:
        return None
    return saturation([1 - one.value if one.lower_is_better else one.value for one in numbers], n)
