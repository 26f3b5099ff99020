"""What a threshold set on one data set does on every other one: the transfer matrix (H-160)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from evals.operating.logistic import Logistic, cross_fit, fit, joint_name, with_joint
from evals.operating.scores import Judged
from evals.operating.sources import drop_shared
from evals.operating.thresholds import Realised, realise, split
from evals.statistics.curves import operating_point, to_curve
from evals.statistics.rates import Rate
from evals.types import Item

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """One data set with its stored scores and its texts."""

    name: str
    judged: tuple[Judged, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A threshold set on one set and tested on another.

    Args:
        calibrated_on, tested_on: data sets.
        threshold: +∞ (null in JSON) flags nothing.
        negatives: benign calibration items with a score.
        detection: on the test set, None with a reason.
        false_positives: realised, None with a reason.
        removed: test trials removed because the calibration set has their items too.
        reasons: of what is missing: ``no_negatives``, ``too_few_negatives``, ``no_positives``, ``all_shared``,
            ``one_class`` (a logistic model needs both).
    """

    calibrated_on: str
    tested_on: str
    threshold: float | None
    negatives: int
    detection: Rate | None
    false_positives: Rate | None
    removed: int
    reasons: Mapping[str, str]

    @property
    def measured(self) -> bool:
        """Say whether there is a realised FPR."""
        return self.false_positives is not None and self.false_positives.lo is not None


@dataclass(frozen=True, slots=True)
class Matrix:
    """All cells at one budget.

    Args:
        budget: FPR budget of the calibration sets.
        supervisor: whose scores.
        names: data sets in order.
        cells: row by row.
        off_diagonal_minus_diagonal: mean DR off the diagonal minus mean DR on it, None without both.
        worst_false_positives: largest realised FPR off the diagonal, with its cell.
        excluding_budget: off-diagonal cells whose realised FPR interval does not contain the budget.
        measured: off-diagonal cells with a realised FPR.
        models: data set → the logistic model fitted on it, when the scores are those of one.
    """

    budget: float
    supervisor: str
    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    off_diagonal_minus_diagonal: float | None
    worst_false_positives: Cell | None
    excluding_budget: int
    measured: int
    models: Mapping[str, Logistic] = field(default_factory=dict[str, Logistic])


@dataclass(frozen=True, slots=True)
class Prepared:
    """Both sides of every pair, with what was removed; the texts are compared once for all budgets.

    Args:
        parts: data sets in order.
        tests: pair → test trials, and how many were removed.
        calibrations: pair → trials the threshold is set on.
        models: data set → the logistic model fitted on all of it.
        unfitted: pairs whose calibration side is of one class, so that no model was fitted.
    """

    parts: tuple[Part, ...]
    tests: Mapping[tuple[str, str], tuple[tuple[Judged, ...], int]]
    calibrations: Mapping[tuple[str, str], tuple[Judged, ...]]
    models: Mapping[str, Logistic] = field(default_factory=dict[str, Logistic])
    unfitted: frozenset[tuple[str, str]] = frozenset()


def prepare_pairs(parts: Sequence[Part], seed: int) -> Prepared:
    """Remove the overlap of every pair; on the diagonal a set is split in halves by root item."""
    tests: dict[tuple[str, str], tuple[tuple[Judged, ...], int]] = {}
    calibrations: dict[tuple[str, str], tuple[Judged, ...]] = {}
    for row in parts:
        for column in parts:
            key = (row.name, column.name)
            if row.name == column.name:
                calibrations[key], test = split(row.judged, _HALF, seed)
                tests[key] = (test, 0)
            else:
                calibrations[key] = row.judged
                tests[key] = drop_shared(column.judged, column.items, row.items)
    return Prepared(tuple(parts), tests, calibrations)


def model_pairs(prepared: Prepared, members: Sequence[str], seed: int) -> Prepared:
    """Fit a logistic model over several supervisors' scores on every calibration side, and score both sides with it.

    The calibration side gets the scores of models fitted on its other folds, the test side those of the whole fit.
    """
    name = joint_name(members)
    fitted: dict[tuple[str, bool], tuple[Logistic, tuple[Judged, ...]] | None] = {}
    tests = dict(prepared.tests)
    calibrations = dict(prepared.calibrations)
    unfitted: set[tuple[str, str]] = set()
    for pair, calibration in prepared.calibrations.items():
        key = (pair[0], pair[0] == pair[1])
        if key not in fitted:
            model, crossed = fit(calibration, members), cross_fit(calibration, members, seed)
            fitted[key] = None if model is None or crossed is None else (model, crossed)
        made = fitted[key]
        if made is None:
            unfitted.add(pair)
            continue
        test, removed = prepared.tests[pair]
        tests[pair] = (with_joint(test, made[0], name), removed)
        calibrations[pair] = made[1]
    models = {row: made[0] for (row, own), made in fitted.items() if made is not None and not own}
    return replace(prepared, tests=tests, calibrations=calibrations, models=models, unfitted=frozenset(unfitted))


def make_matrix(prepared: Prepared, supervisor: str, budget: float) -> Matrix:
    """Set a threshold on every set and test it on every other one."""
    names = tuple([part.name for part in prepared.parts])
    cells = tuple([_cell(prepared, row, column, supervisor, budget) for row in names for column in names])
    off = [cell for cell in cells if cell.calibrated_on != cell.tested_on]
    on = [cell for cell in cells if cell.calibrated_on == cell.tested_on]
    measured = [cell for cell in off if cell.measured]
    means = [_mean_detection(group) for group in (off, on)]
    return Matrix(
        budget=budget,
        supervisor=supervisor,
        names=names,
        cells=cells,
        off_diagonal_minus_diagonal=None if means[0] is None or means[1] is None else means[0] - means[1],
        worst_false_positives=max(measured, key=_false_positives, default=None),
        excluding_budget=sum([_excludes(cell.false_positives, budget) for cell in measured]),
        measured=len(measured),
        models=prepared.models,
    )


def _mean_detection(cells: Sequence[Cell]) -> float | None:
    found = [cell.detection.estimate for cell in cells if cell.detection and cell.detection.estimate is not None]
    return fmean(found) if found else None


def _false_positives(cell: Cell) -> float:
    return cell.false_positives.estimate or 0.0 if cell.false_positives else 0.0


def _excludes(rate: Rate | None, budget: float) -> bool:
    return rate is not None and rate.lo is not None and rate.hi is not None and not rate.lo <= budget <= rate.hi


def _cell(prepared: Prepared, row: str, column: str, supervisor: str, budget: float) -> Cell:
    calibration = prepared.calibrations[row, column]
    test, removed = prepared.tests[row, column]
    curve = to_curve([one.scored(supervisor) for one in calibration])
    reason = "one_class" if (row, column) in prepared.unfitted else _unusable(curve.negatives, budget)
    if reason is not None:
        return Cell(row, column, None, curve.negatives, None, None, removed, {"threshold": reason})
    point = operating_point(curve, budget)
    made = realise(test, supervisor, point.threshold)
    reasons = _missing(made, test)
    return Cell(
        calibrated_on=row,
        tested_on=column,
        threshold=point.threshold,
        negatives=curve.negatives,
        detection=None if "detection" in reasons else made.detection,
        false_positives=None if "false_positives" in reasons else made.false_positives,
        removed=removed,
        reasons=reasons,
    )


def _unusable(negatives: int, budget: float) -> str | None:
    if negatives == 0:
        return "no_negatives"
    return "too_few_negatives" if negatives < round(1 / budget, 9) else None


def _missing(made: Realised, test: Sequence[Judged]) -> Mapping[str, str]:
    if not test:
        return {"detection": "all_shared", "false_positives": "all_shared"}
    reasons: dict[str, str] = {}
    if not made.detection.n:
        reasons["detection"] = "no_positives"
    if not made.false_positives.n:
        reasons["false_positives"] = "no_negatives"
    return reasons
