"""Choose thresholds and cascades under a budget, and say honestly what they will do (cross-validation by root item)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from evals.nouns import count_of
from evals.operating.candidates import Budget, Candidate, Rated, choose_best
from evals.operating.combine import Decided, p95, rates_of
from evals.operating.scores import Judged
from evals.statistics.rates import Rate
from supervisors.errors import ConfigError


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What the choice does on items it was not made on.

    Args:
        method: ``5-fold cross-validation by root item`` or the names of test runs.
        detection, false_positives: rates over the held-out items; unknown verdicts are in neither.
        p95_s: seconds of the slowest twentieth, None when never measured.
        unknown: held-out items without a verdict.
        nothing_found: folds in which nothing kept the budget; their items count as not flagged.
        chosen: what was chosen in how many folds.
    """

    method: str
    detection: Rate
    false_positives: Rate
    p95_s: float | None
    unknown: int
    nothing_found: int
    chosen: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tuned:
    """A choice with its evidence.

    Args:
        budget: what it had to keep.
        supervisors: it could choose from.
        items, harmful, benign: it was made on.
        chosen: on all of them, None when nothing keeps the budget.
        apparent: what it does on the very items it was made on: too good.
        held_out: what it does on others.
        keeps_budget: whether the held-out FPR says so: ``yes`` the whole interval, ``no`` not even its lower end,
            ``unclear`` otherwise.
    """

    budget: Budget
    supervisors: tuple[str, ...]
    items: int
    harmful: int
    benign: int
    chosen: Candidate | None
    apparent: Rated | None
    held_out: HeldOut | None
    keeps_budget: str


def tune(judged: Sequence[Judged], names: Sequence[str], budget: Budget, folds: int, seed: int) -> Tuned:
    """Choose on all items, and cross-validate the whole choice.

    Raises:
        ConfigError: too few items of a class, or folds, to choose and to test.
    """
    check_enough(judged, folds)
    held_out = cross_validate(judged, names, budget, folds, seed)
    return conclude(judged, names, budget, held_out)


def tune_and_test(
    judged: Sequence[Judged], test: Sequence[Judged], names: Sequence[str], budget: Budget, method: str
) -> Tuned:
    """Choose on some items and test on others.

    Raises:
        ConfigError: too few items of a class to choose or to test.
    """
    check_enough(judged, 2)
    check_enough(test, 2)
    best = choose_best(judged, names, budget)
    found = [(one, _decide(best, one)) for one in test]
    return conclude(judged, names, budget, _held_out(method, found, [best]))


def check_enough(judged: Sequence[Judged], folds: int) -> None:
    """Refuse what cannot be split.

    Raises:
        ConfigError: fewer than two folds, or fewer root items of a class than folds.
    """
    if folds < 2:
        msg = f"--folds {folds}: expected 2 or more"
        raise ConfigError(msg)
    for harmful, word in ((True, "harmful"), (False, "benign")):
        roots = len({one.cluster for one in judged if one.harmful is harmful})
        if roots < folds:
            few = count_of(roots, f"{word} root item is", f"{word} root items are")
            msg = f"{few} too few to choose and test on; {folds} folds need at least {folds}"
            raise ConfigError(msg)


def conclude(judged: Sequence[Judged], names: Sequence[str], budget: Budget, held_out: HeldOut) -> Tuned:
    """Make the choice on all items and put the evidence beside it."""
    best = choose_best(judged, names, budget)
    harmful = sum([one.harmful for one in judged])
    return Tuned(
        budget=budget,
        supervisors=tuple(names),
        items=len(judged),
        harmful=harmful,
        benign=len(judged) - harmful,
        chosen=best.candidate if best else None,
        apparent=best,
        held_out=held_out,
        keeps_budget=_keeps(held_out.false_positives, budget.max_fpr),
    )


def _keeps(rate: Rate, limit: float) -> str:
    if rate.lo is None or rate.hi is None:
        return "unclear"
    if rate.hi <= limit:
        return "yes"
    return "no" if rate.lo > limit else "unclear"


def cross_validate(judged: Sequence[Judged], names: Sequence[str], budget: Budget, folds: int, seed: int) -> HeldOut:
    """Choose on all folds but one and judge that one, each in turn; a root item is in one fold only."""
    fold_of = assign_folds(judged, folds, seed)
    found: list[tuple[Judged, Decided]] = []
    made: list[Rated | None] = []
    for fold in range(folds):
        best = choose_best([one for one in judged if fold_of[one.cluster] != fold], names, budget)
        made.append(best)
        found += [(one, _decide(best, one)) for one in judged if fold_of[one.cluster] == fold]
    return _held_out(f"{folds}-fold cross-validation by root item, seed {seed}", found, made)


def assign_folds(judged: Sequence[Judged], folds: int, seed: int) -> Mapping[str, int]:
    """Return root item → fold, evenly for each label."""
    assigned: dict[str, int] = {}
    for harmful in (True, False):
        roots = sorted({one.cluster for one in judged if one.harmful is harmful} - assigned.keys())
        Random(seed).shuffle(roots)  # noqa: S311 - a reproducible split, not a secret
        assigned |= {root: number % folds for number, root in enumerate(roots)}
    return assigned


def _decide(best: Rated | None, one: Judged) -> Decided:
    return best.candidate.decide(one) if best else Decided(False, None, None)


def _held_out(method: str, found: Sequence[tuple[Judged, Decided]], made: Sequence[Rated | None]) -> HeldOut:
    decided = [each for _, each in found]
    detection, alarms = rates_of([one for one, _ in found], decided)
    words = [f"{one.candidate.shape} {' + '.join(one.candidate.members)}" for one in made if one]
    return HeldOut(
        method=method,
        detection=detection,
        false_positives=alarms,
        p95_s=p95([each.seconds for each in decided]),
        unknown=sum([each.flag is None for each in decided]),
        nothing_found=made.count(None),
        chosen=dict(Counter(words).most_common()),
    )
