"""How far the members of a panel agree, over a sliding window of votes (G-32)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import fsum

WINDOW = 1000

Ballot = tuple[tuple[str, bool], ...]
"""One vote: member name and whether it said unsafe; members that gave no answer are left out."""


class Agreement:
    """The last votes of one panel."""

    def __init__(self) -> None:
        self._ballots: deque[Ballot] = deque(maxlen=WINDOW)

    def add(self, ballot: Ballot) -> None:
        """Add one vote; with fewer than two answers there is nothing to compare."""
        if len(ballot) > 1:
            self._ballots.append(ballot)

    def ballots(self) -> Sequence[Ballot]:
        """Return a copy of the window."""
        return tuple(self._ballots)


def pairwise(ballots: Iterable[Ballot]) -> float | None:
    """Return agreeing pairs / answered pairs, None without any pair."""
    agree = pairs = 0
    for ballot in ballots:
        for (_, one), (_, other) in combinations(ballot, 2):
            pairs += 1
            agree += one == other
    return agree / pairs if pairs else None


def kappa(ballots: Iterable[Ballot]) -> float | None:
    """Return Cohen's kappa, the mean over the pairs of members; None when no pair has one.

    A pair has none when both members always gave the same answer: chance agreement is then 1.

    Source:
        Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960).
    """
    tables: dict[tuple[str, str], list[int]] = {}
    for ballot in ballots:
        for (name, one), (peer, other) in combinations(ballot, 2):
            tables.setdefault((name, peer), [0, 0, 0, 0])[2 * one + other] += 1
    values = [value for table in tables.values() if (value := _pair_kappa(table)) is not None]
    return fsum(values) / len(values) if values else None


def _pair_kappa(table: Sequence[int]) -> float | None:
    neither, second, first, both = table
    n = neither + second + first + both
    observed = (neither + both) / n
    expected = ((first + both) * (second + both) + (neither + second) * (neither + first)) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else None
