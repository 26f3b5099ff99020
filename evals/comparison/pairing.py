"""Compare two runs trial by trial, or on different items; all p values are one family (H-163, Q-15 to Q-20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.comparison.changes import Change, find_changes
from evals.comparison.measures import Case, Measure, find_measure, observations, to_case
from evals.comparison.sides import Key, Side, cautions, refusals
from evals.metrics import Direction
from evals.statistics.multiple import Adjustment, adjust
from evals.statistics.paired import Comparison, Pair, compare_paired, flip_rate
from evals.statistics.rates import Observation, Rate, rate_of
from evals.statistics.unpaired import UnpairedComparison, compare_unpaired
from supervisors.errors import ConfigError

Design = Literal["paired", "unpaired"]
Word = Literal["better", "worse", "higher", "lower", "no difference shown", "undecided"]
"""What is said of B: ``undecided`` when the missing verdicts could turn the direction (Q-04)."""
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """How runs are compared.

    Args:
        measures: what is compared.
        design: on the same items, or on different ones.
        method: how p values are adjusted.
        seed: of permutation draws.
        forced: compare although the runs are not comparable; every table says so.
    """

    measures: tuple[str, ...]
    design: Design = "paired"
    method: Adjustment = "holm"
    seed: int = 0
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure on one data set under two runs.

    Args:
        dataset: data set, or ``all items`` for unpaired runs that share none.
        measure: what was measured.
        higher_is: what more of it means.
        a, b: rates of the two runs, over the items compared.
        paired: the test on the same items, None for unpaired runs.
        unpaired: the test on different items.
        change: rate B − rate A with its interval, None when nothing is left to compare.
        p, p_adjusted: raw, and over the whole family.
        flips_a, flips_b: how often a label differs between repeats of one run; None when nothing was repeated.
        word: what may be said of B.
    """

    dataset: str
    measure: str
    higher_is: Direction
    a: Rate
    b: Rate
    paired: Comparison | None
    unpaired: UnpairedComparison | None
    change: tuple[float, float | None, float | None] | None
    p: float | None
    flips_a: Rate | None
    flips_b: Rate | None
    p_adjusted: float | None = None
    word: Word = "no difference shown"


@dataclass(frozen=True, slots=True)
class Compared:
    """One run held against the first one.

    Args:
        a, b: names of the runs.
        design: paired or unpaired.
        matched: trials both have.
        only_a, only_b: item ids of trials that only one has; they are in no number.
        differences: per data set and measure.
        changes: trials whose label changed, the harmful changes first.
        not_comparable: why the runs should not be compared; empty unless it was forced.
        cautions: what to know of runs that may be compared: other models answered, or a fake one.
    """

    a: str
    b: str
    design: Design
    matched: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    not_comparable: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All comparisons of one question, their p values adjusted together (Q-19)."""

    method: Adjustment
    family: int
    compared: tuple[Compared, ...]


def compare_sides(sides: Sequence[Side], plan: Plan) -> Report:
    """Compare the first run with each of the others.

    Raises:
        ConfigError: the runs are not comparable, or share no trial.
    """
    first, *others = sides
    made = [_compare(first, other, plan) for other in others]
    raw = {
        f"{number} {index}": difference.p
        for number, compared in enumerate(made)
        for index, difference in enumerate(compared.differences)
        if difference.p is not None
    }
    family = adjust(raw, plan.method)
    adjusted = {name: member.adjusted for name, member in family.members.items()}
    done = [
        replace(
            compared,
            differences=tuple(
                [_conclude(one, adjusted.get(f"{number} {index}")) for index, one in enumerate(compared.differences)]
            ),
        )
        for number, compared in enumerate(made)
    ]
    return Report(plan.method, family.size, tuple(done))


def _compare(a: Side, b: Side, plan: Plan) -> Compared:
    reasons = refusals(a, b)
    if reasons and not plan.forced:
        listed = "\n  ".join(reasons)
        msg = f"{a.name} and {b.name} are not comparable:\n  {listed}\n--force compares them all the same and says so"
        raise ConfigError(msg)
    shared = sorted(a.cases.keys() & b.cases.keys())
    if plan.design == "unpaired":
        differences = _unpaired(a, b, plan)
        told = (tuple(reasons), tuple(cautions(a, b)))
        return Compared(a.name, b.name, "unpaired", len(shared), (), (), differences, (), *told)
    if not shared:
        msg = f"{a.name} and {b.name} share no trial; --unpaired compares different items"
        raise ConfigError(msg)
    return Compared(
        a=a.name,
        b=b.name,
        design="paired",
        matched=len(shared),
        only_a=_items(a.cases.keys() - b.cases.keys()),
        only_b=_items(b.cases.keys() - a.cases.keys()),
        differences=_paired(a, b, shared, plan),
        changes=find_changes([(a.cases[key], b.cases[key]) for key in shared]),
        not_comparable=tuple(reasons),
        cautions=tuple(cautions(a, b)),
    )


def _items(keys: set[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([key.item_id for key in sorted(keys)]))


def _paired(a: Side, b: Side, shared: Sequence[Key], plan: Plan) -> tuple[Difference, ...]:
    found: list[Difference] = []
    for dataset in dict.fromkeys([key.dataset for key in shared]):
        keys = [key for key in shared if key.dataset == dataset]
        for name in plan.measures:
            measure = find_measure(name)
            cases = [(a.cases[key], b.cases[key]) for key in keys]
            seen = [(measure.observe(one), measure.observe(other)) for one, other in cases]
            both = [(one, other) for one, other in seen if one is not None and other is not None]
            if both:
                test = compare_paired(to_pairs(measure, both), seed=plan.seed)
                flips = (flips_of(a, measure, dataset), flips_of(b, measure, dataset))
                found.append(_difference(dataset, measure, both, test, flips))
    return tuple(found)


def to_pairs(measure: Measure, both: Sequence[tuple[Observation, Observation]]) -> list[Pair]:
    """Return the pairs of a measure: who got which trial wrong."""
    return [Pair(one.cluster, measure.is_wrong(one), measure.is_wrong(other)) for one, other in both]


def _difference(
    dataset: str,
    measure: Measure,
    both: Sequence[tuple[Observation, Observation]],
    test: Comparison,
    flips: tuple[Rate | None, Rate | None],
) -> Difference:
    change: tuple[float, float | None, float | None] | None = None
    if test.difference is not None:
        found = test.difference
        # The test counts what A gets wrong more often; for a rate of wrong trials that is A − B.
        change = (found.raw, found.lo, found.hi)
        if measure.higher_is != "safer":
            change = (0.0 - found.raw, 0.0 - found.hi, 0.0 - found.lo)
    return Difference(
        dataset=dataset,
        measure=measure.name,
        higher_is=measure.higher_is,
        a=rate_of([one for one, _ in both]),
        b=rate_of([other for _, other in both]),
        paired=test,
        unpaired=None,
        change=change,
        p=test.test.p if test.test else None,
        flips_a=flips[0],
        flips_b=flips[1],
    )


def flips_of(side: Side, measure: Measure, dataset: str) -> Rate | None:
    """Return how often a label differs between the first two repeats of one run, None without repeats (Q-47).

    In a paired run the two calls past the proxy are the repeats of an answer.
    """
    through = [case for key, case in side.cases.items() if key.dataset == dataset]
    rate = _flips(measure, through)
    if rate is not None or not measure.of_answers:
        return rate
    return _flips(
        measure, [to_case(r) for r in side.rows if r.planned.arm == "direct" and r.planned.dataset == dataset]
    )


def _flips(measure: Measure, cases: Sequence[Case]) -> Rate | None:
    repeats: list[dict[tuple[str, str, str], Observation]] = [{}, {}]
    for case in cases:
        planned = case.row.planned
        seen = measure.observe(case)
        if planned.repeat < 2 and seen is not None:
            repeats[planned.repeat][planned.item_id, planned.transform, planned.target] = seen
    shared = [key for key in repeats[0] if key in repeats[1]]
    return flip_rate([repeats[0][key] for key in shared], [repeats[1][key] for key in shared]) if shared else None


def _unpaired(a: Side, b: Side, plan: Plan) -> tuple[Difference, ...]:
    sets = [{key.dataset for key in side.cases} for side in (a, b)]
    groups: list[str | None] = [*sorted(sets[0] & sets[1])] or [None]
    found: list[Difference] = []
    for group in groups:
        for name in plan.measures:
            measure = find_measure(name)
            rates = [
                rate_of(
                    observations(measure, [case for key, case in side.cases.items() if group in (None, key.dataset)])
                )
                for side in (a, b)
            ]
            if all(rate.planned for rate in rates):
                found.append(_unpaired_difference(group or "all items", measure, rates[0], rates[1]))
    return tuple(found)


def _unpaired_difference(dataset: str, measure: Measure, a: Rate, b: Rate) -> Difference:
    test = compare_unpaired(b, a)
    change = None if test.difference is None else (test.difference, test.lo, test.hi)
    return Difference(dataset, measure.name, measure.higher_is, a, b, None, test, change, test.p, None, None)


def _conclude(difference: Difference, adjusted: float | None) -> Difference:
    return replace(difference, p_adjusted=adjusted, word=_word(difference, adjusted))


_WORDS: Mapping[tuple[Direction, bool], Word] = {
    ("safer", True): "better",
    ("safer", False): "worse",
    ("worse", True): "worse",
    ("worse", False): "better",
    ("neutral", True): "higher",
    ("neutral", False): "lower",
}


def _word(difference: Difference, adjusted: float | None) -> Word:
    if difference.change is None or adjusted is None or adjusted >= _LEVEL:
        return "no difference shown"
    if _may_turn(difference.paired):
        return "undecided"
    return _WORDS[difference.higher_is, difference.change[0] > 0]


def _may_turn(test: Comparison | None) -> bool:
    """Say whether the missing verdicts could turn the direction."""
    if test is None or test.bound_lo is None or test.bound_hi is None:
        return False
    return test.dropped > 0 and test.bound_lo <= 0 <= test.bound_hi
