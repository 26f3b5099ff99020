"""How far the raters of a human-labelled set agree, read by the loaders everybody uses (datasets §9, statistics §7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from evals.datasets.card import Card
from evals.statistics.agreement import (
    FleissKappa,
    Scale,
    TwoRaters,
    alpha_of_patterns,
    cohen_kappa,
    effective_votes,
    fleiss_of_patterns,
    krippendorff_alpha,
    mean_correlation,
    phi,
    to_patterns,
)
from evals.statistics.bootstrap import Bootstrap, bootstrap_patterns
from evals.types import Item
from supervisors.errors import DatasetError

HIGH = 0.5
"""From this score on a graded answer counts as unsafe when grades are read as votes."""
_SEED = 0
"""The interval of the same ratings is the same number each time."""
_DRAWS = 1000
_UNSAFE = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class PairOfRaters:
    """Two raters of a set.

    Args:
        left, right: their columns.
        agreement: over the items both rated.
        phi: correlation of their votes, None when a vote is no yes or no, or one is constant.
        table: safe-safe, safe-unsafe, unsafe-safe, unsafe-unsafe; empty when votes are labels of another kind.
    """

    left: str
    right: str
    agreement: TwoRaters
    phi: float | None
    table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RaterReport:
    """Everything about the raters of one set or one part of it.

    Args:
        name: of the set or part.
        raters: columns.
        items: items with a rating by every rater.
        left_out: items without text, or without a rating by somebody.
        unsafe_votes: number of unsafe votes → items; empty for labels of another kind.
        majority: items that a strict majority calls unsafe, None for labels of another kind.
        unanimous: items that all raters gave the same rating.
        fleiss: over votes, or over labels.
        alpha_nominal, alpha_ordinal, alpha_interval: Krippendorff's α of the ratings as they are; the last two need
            numbers.
        alpha_nominal_span, alpha_ordinal_span, alpha_interval_span: the interval of each by resampling items (Q-29),
            None where the α itself cannot be.
        effective: how many independent votes the raters are worth, by the correlation of their votes.
        pairs: every two raters.
    """

    name: str
    raters: tuple[str, ...]
    items: int
    left_out: int
    unsafe_votes: Mapping[int, int]
    majority: int | None
    unanimous: int
    fleiss: FleissKappa
    alpha_nominal: float | None
    alpha_ordinal: float | None
    alpha_interval: float | None
    alpha_nominal_span: Bootstrap | None
    alpha_ordinal_span: Bootstrap | None
    alpha_interval_span: Bootstrap | None
    effective: float | None
    pairs: tuple[PairOfRaters, ...]


def report_raters(card: Card, items: Iterable[Item], *, by_split: bool = False) -> tuple[RaterReport, ...]:
    """Return the agreement of the raters a card names, over the whole set and, if wanted, over each file of it.

    Raises:
        DatasetError: the card names no raters.
    """
    if len(card.raters) < 2:
        msg = f"{card.id}: its card names no two raters; sets with raters have `raters` in `evals data show SET`"
        raise DatasetError(msg)
    listed = [item for item in items if any(name in item.meta for name in card.raters)]
    reports = [_report(card.id, card.raters, listed)]
    splits = dict.fromkeys([item.split for item in listed])
    if by_split and len(splits) > 1:
        reports += [_report(split, card.raters, [i for i in listed if i.split == split]) for split in splits]
    return tuple(reports)


@dataclass(frozen=True, slots=True)
class _Alpha:
    value: float | None
    span: Bootstrap | None


def _alpha(units: Sequence[Sequence[float | None]], scale: Scale) -> _Alpha:
    value = krippendorff_alpha(units, scale)
    if value is None:
        return _Alpha(None, None)
    of_scale = partial(alpha_of_patterns, scale=scale)
    return _Alpha(value, bootstrap_patterns(to_patterns(units), of_scale, seed=_SEED, draws=_DRAWS))


def _report(name: str, raters: tuple[str, ...], items: Sequence[Item]) -> RaterReport:
    rated = [[_text(item.meta.get(rater)) for rater in raters] for item in items if item.skip is None]
    whole = [[text for text in row if text is not None] for row in rated]
    whole = [row for row in whole if len(row) == len(raters)]
    numbers = [[_number(text) for text in row] for row in whole]
    votes = [_votes(row) for row in whole]
    known = [vote for vote in votes if vote is not None]
    binary = len(known) == len(whole) and bool(whole)
    counts = Counter([sum(vote) for vote in known]) if binary else Counter[int]()
    graded = numbers if all(None not in row for row in numbers) else []
    nominal = _alpha(_codes(whole), "nominal")
    ordinal, interval = _alpha(graded, "ordinal"), _alpha(graded, "interval")
    return RaterReport(
        name=name,
        raters=raters,
        items=len(whole),
        left_out=len(items) - len(whole),
        unsafe_votes=dict(sorted(counts.items())),
        majority=sum([n for votes_, n in counts.items() if 2 * votes_ > len(raters)]) if binary else None,
        unanimous=sum([len(set(row)) == 1 for row in whole]),
        fleiss=_fleiss(whole, counts, len(raters)),
        alpha_nominal=nominal.value,
        alpha_ordinal=ordinal.value,
        alpha_interval=interval.value,
        alpha_nominal_span=nominal.span,
        alpha_ordinal_span=ordinal.span,
        alpha_interval_span=interval.span,
        effective=_effective(known, len(raters)) if binary else None,
        pairs=tuple(
            [_pair(raters, whole, known if binary else [], pair) for pair in combinations(range(len(raters)), 2)]
        ),
    )


def _text(value: object) -> str | None:
    """Return a rating as text, None where there is none (DS-11)."""
    text = "" if value is None else str(value).strip()
    return text or None


def _number(text: str) -> float | None:
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text)
    except ValueError:
        return None


def _votes(row: Sequence[str]) -> list[bool] | None:
    """Return ratings as unsafe or safe: yes and no, or grades from 0 to 1 cut at one half; None for other labels."""
    words = [_UNSAFE.get(text.lower()) for text in row]
    numbers = [_number(text) for text in row]
    if all(word is not None for word in words):
        return [word is True for word in words]
    grades = [value for value in numbers if value is not None and 0 <= value <= 1]
    return [value >= HIGH for value in grades] if len(grades) == len(row) else None


def _codes(rows: Sequence[Sequence[str]]) -> list[list[float | None]]:
    names = sorted({text for row in rows for text in row})
    place = {text: float(index) for index, text in enumerate(names)}
    return [[place[text] for text in row] for row in rows]


def _fleiss(rows: Sequence[Sequence[str]], counts: Mapping[int, int], raters: int) -> FleissKappa:
    if counts:
        return fleiss_of_patterns({(raters - unsafe, unsafe): n for unsafe, n in counts.items()})
    names = sorted({text for row in rows for text in row})
    return fleiss_of_patterns(Counter([tuple([row.count(name) for name in names]) for row in rows]))


def _effective(votes: Sequence[Sequence[bool]], raters: int) -> float | None:
    correlation = mean_correlation([[vote[index] for vote in votes] for index in range(raters)])
    return None if correlation is None else effective_votes(raters, correlation)


def _pair(
    raters: Sequence[str], rows: Sequence[Sequence[str]], votes: Sequence[Sequence[bool]], pair: tuple[int, int]
) -> PairOfRaters:
    one, two = pair
    cells = Counter([(vote[one], vote[two]) for vote in votes])
    table = tuple([cells[a, b] for a in (False, True) for b in (False, True)]) if votes else ()
    named = [[str(vote[index]) for vote in votes] if votes else [row[index] for row in rows] for index in pair]
    return PairOfRaters(
        left=raters[one],
        right=raters[two],
        agreement=cohen_kappa(named[0], named[1]),
        phi=phi([vote[one] for vote in votes], [vote[two] for vote in votes]) if votes else None,
        table=table,
    )
