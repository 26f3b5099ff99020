"""How far raters agree, and how many independent votes a panel is worth (Q-28 to Q-30)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

Scale = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class TwoRaters:
    """Agreement of two raters; κ is never shown without the rest, it collapses when one class dominates.

    Args:
        n: items both rated.
        dropped: items a rater left out.
        observed: share of items rated alike, None without a common item.
        expected: share expected by chance from the marginals.
        kappa: Cohen's κ, None when `expected` is 1.
        pabak: 2·observed − 1, for two classes; None for more.
        marginals_a: label → share, first rater.
        marginals_b: label → share, second rater.
    """

    n: int
    dropped: int
    observed: float | None
    expected: float | None
    kappa: float | None
    pabak: float | None
    marginals_a: Mapping[str, float]
    marginals_b: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FleissKappa:
    """Fleiss' κ with its parts; κ is None when chance agreement is 1."""

    items: int
    raters: int
    observed: float
    expected: float
    kappa: float | None


def cohen_kappa(a: Sequence[str | None], b: Sequence[str | None]) -> TwoRaters:
    """Return the agreement of two raters over the items both rated; None is a missing rating.

    Raises:
        ValueError: the raters have different numbers of items.
    """
    if len(a) != len(b):
        msg = f"raters have {len(a)} and {len(b)} items; give one rating or None for each"
        raise ValueError(msg)
    table = Counter([(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None])
    return cohen_of_table(table, dropped=len(a) - sum(table.values()))


def cohen_of_table(table: Mapping[tuple[str, str], int], *, dropped: int = 0) -> TwoRaters:
    """Return the agreement of two raters from the count of each pair of labels.

    Source: Cohen (1960), Educ Psychol Meas 20, 37-46; PABAK: Byrt, Bishop & Carlin (1993), J Clin Epidemiol 46.
    """
    n = sum(table.values())
    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    for (x, y), count in sorted(table.items()):
        rows[x] += count
        columns[y] += count
    if n == 0:
        return TwoRaters(0, dropped, None, None, None, None, {}, {})
    alike = sum([count for (x, y), count in table.items() if x == y])
    by_chance = sum([count * columns[label] for label, count in rows.items()])
    return TwoRaters(
        n=n,
        dropped=dropped,
        observed=alike / n,
        expected=by_chance / (n * n),
        kappa=None if by_chance == n * n else (n * alike - by_chance) / (n * n - by_chance),
        pabak=2 * alike / n - 1 if len({*rows, *columns}) <= 2 else None,
        marginals_a={label: count / n for label, count in sorted(rows.items())},
        marginals_b={label: count / n for label, count in sorted(columns.items())},
    )


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> FleissKappa:
    """Return Fleiss' κ of items rated by the same number of raters.

    Args:
        counts: for each item the number of ratings in each category.

    Raises:
        ValueError: no item, fewer than two ratings an item, or unequal numbers; use `krippendorff_alpha` then.
    """
    return fleiss_of_patterns(Counter([tuple(row) for row in counts]))


def fleiss_of_patterns(patterns: Mapping[tuple[int, ...], int]) -> FleissKappa:
    """Return Fleiss' κ from how often each row of category counts occurs.

    Raises:
        ValueError: as `fleiss_kappa`.

    Source: Fleiss (1971), Psychol Bull 76, 378-382.
    """
    shapes = {(sum(row), len(row)) for row in patterns}
    raters, categories = max(shapes, default=(0, 0))
    if raters < 2 or len(shapes) > 1:
        msg = "every item needs the same number of ratings, at least two; use krippendorff_alpha for missing ones"
        raise ValueError(msg)
    items = sum(patterns.values())
    pairs = sum([times * count * (count - 1) for row, times in patterns.items() for count in row])
    observed = pairs / (items * raters * (raters - 1))
    totals = [sum([times * row[j] for row, times in patterns.items()]) for j in range(categories)]
    expected = sum([total * total for total in totals]) / (items * raters) ** 2
    kappa = None if expected == 1 else (observed - expected) / (1 - expected)
    return FleissKappa(items, raters, observed, expected, kappa)


def krippendorff_alpha(units: Sequence[Sequence[float | None]], scale: Scale = "nominal") -> float | None:
    """Return Krippendorff's α over units, each with its ratings; None ratings are missing.

    Args:
        units: for each item its ratings as numbers (codes for nominal labels).
        scale: how far apart two values are.

    Returns:
        α, or None when fewer than two values can be paired or only one value occurs.
    """
    return alpha_of_patterns(to_patterns(units), scale)


def to_patterns(units: Sequence[Sequence[float | None]]) -> Counter[tuple[float, ...]]:
    """Count how often each set of ratings occurs; who gave which does not matter to α."""
    return Counter([tuple(sorted([value for value in unit if value is not None])) for unit in units])


def alpha_of_patterns(patterns: Mapping[tuple[float, ...], int], scale: Scale = "nominal") -> float | None:
    """Return α from how often each set of ratings occurs.

    Source: Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    parts: dict[tuple[float, float], list[float]] = {}
    for ratings, times in patterns.items():
        values, size = Counter(ratings), len(ratings)
        if size < 2:
            continue
        for a, b in product(values, repeat=2):
            parts.setdefault((a, b), []).append(times * values[a] * (values[b] - (a == b)) / (size - 1))
    return _alpha({pair: math.fsum(weights) for pair, weights in parts.items()}, scale)


def _alpha(coincidences: Mapping[tuple[float, float], float], scale: Scale) -> float | None:
    values = sorted({a for a, _ in coincidences})
    totals = {v: math.fsum([weight for (a, _), weight in coincidences.items() if a == v]) for v in values}
    n = math.fsum(totals.values())
    distances = _distances(values, totals, scale)
    observed = math.fsum([weight * distances[pair] for pair, weight in coincidences.items()])
    expected = math.fsum([totals[a] * totals[b] * distance for (a, b), distance in distances.items()])
    if n < 2 or expected == 0:
        return None
    return 1 - (n - 1) * observed / expected


def _distances(
    values: Sequence[float], totals: Mapping[float, float], scale: Scale
) -> Mapping[tuple[float, float], float]:
    """Return the squared distance of every ordered pair of values."""
    below: dict[float, float] = {}  # ratings below a value, plus half of its own: its middle rank
    seen = 0.0
    for value in values:
        below[value] = seen + totals[value] / 2
        seen += totals[value]
    match scale:
        case "nominal":
            return {(a, b): float(a != b) for a, b in product(values, repeat=2)}
        case "ordinal":
            return {(a, b): (below[a] - below[b]) ** 2 for a, b in product(values, repeat=2)}
        case "interval":
            return {(a, b): (a - b) ** 2 for a, b in product(values, repeat=2)}


def phi(a: Sequence[bool | None], b: Sequence[bool | None]) -> float | None:
    """Return the correlation of two 0/1 series over the items where both are known, None if one is constant.

    Raises:
        ValueError: the series have different lengths.
    """
    table = Counter([(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None])
    both, neither = table[True, True], table[False, False]
    only_a, only_b = table[True, False], table[False, True]
    spread = (both + only_a) * (neither + only_b) * (both + only_b) * (neither + only_a)
    return None if spread == 0 else (both * neither - only_a * only_b) / math.sqrt(spread)


def mean_correlation(series: Sequence[Sequence[bool | None]]) -> float | None:
    """Return the mean φ over all pairs of series: votes, or errors when truth is known.

    Pairs with a constant series have no φ and are left out; None when no pair has one.
    """
    found = [phi(a, b) for a, b in combinations(series, 2)]
    known = [value for value in found if value is not None]
    return math.fsum(known) / len(known) if known else None


def effective_votes(judges: int, correlation: float) -> float:
    """Return how many independent votes `judges` correlated ones are worth: k/(1 + (k − 1)ρ).

    A negative mean correlation counts as 0: a panel is never worth more votes than it has.

    Raises:
        ValueError: no judge, or a correlation outside −1..1.

    Source: Kish (1965), Survey Sampling, §8.2.
    """
    if judges < 1 or not -1 <= correlation <= 1:
        msg = f"need at least one judge and a correlation in -1..1, got {judges!r} and {correlation!r}"
        raise ValueError(msg)
    return judges / (1 + (judges - 1) * max(0.0, correlation))
