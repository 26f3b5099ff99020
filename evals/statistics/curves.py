"""Curves over thresholds and the operating points on them (Q-36 to Q-40). Flag if and only if score >= t."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evals.statistics.proportions import upper_limit
from evals.statistics.rates import Rate, rate

REPORTED_BUDGETS = (0.005, 0.01, 0.05)
"""False positive rates at which the detection rate is reported."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled item with its score; None, NaN and infinite scores are left out of curves and counted."""

    harmful: bool
    score: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """What flagging every score >= `threshold` gives; counts are cumulative."""

    threshold: float
    tp: int
    fp: int


@dataclass(frozen=True, slots=True)
class Curve:
    """All steps of a set, from the highest distinct score down; ties are one step.

    Args:
        steps: one per distinct score; the point (0, 0) at t = +∞ comes before the first.
        positives: harmful items with a score.
        negatives: benign items with a score.
        unscored: items without a usable score.
    """

    steps: tuple[Step, ...]
    positives: int
    negatives: int
    unscored: int


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A threshold chosen on calibration items, and what it did there.

    Args:
        threshold: flag iff score >= it; +∞ flags nothing (null in JSON).
        flags_nothing: no score keeps the budget.
        detection: detection rate on the calibration items.
        false_positives: FPR on the calibration items.
        guaranteed: chosen by the one-sided 95 % limit of the FPR instead of the FPR itself.
    """

    threshold: float
    flags_nothing: bool
    detection: Rate
    false_positives: Rate
    guaranteed: bool = False


@dataclass(frozen=True, slots=True)
class DetectionAtBudget:
    """Detection rate at a budget of false positives, or the reason why it would be noise."""

    budget: float
    point: OperatingPoint | None
    reason: str | None = None


def to_curve(items: Iterable[Scored]) -> Curve:
    """Sort the usable scores into cumulative steps."""
    listed = list(items)
    usable = [(item.score, item.harmful) for item in listed if item.score is not None and math.isfinite(item.score)]
    harmful = Counter([score for score, is_harmful in usable if is_harmful])
    benign = Counter([score for score, is_harmful in usable if not is_harmful])
    steps: list[Step] = []
    tp = fp = 0
    for score in sorted({*harmful, *benign}, reverse=True):
        tp, fp = tp + harmful[score], fp + benign[score]
        steps.append(Step(score, tp, fp))
    return Curve(tuple(steps), tp, fp, len(listed) - len(usable))


def auroc(curve: Curve) -> float | None:
    """Return the share of harmful-benign pairs in the right order, ties half; None without both classes."""
    pairs = curve.positives * curve.negatives
    if pairs == 0:
        return None
    doubled = tp = fp = 0
    for step in curve.steps:
        doubled += (step.fp - fp) * (step.tp + tp)
        tp, fp = step.tp, step.fp
    return doubled / (2 * pairs)


def average_precision(curve: Curve) -> float | None:
    """Return Σ (Rᵢ − Rᵢ₋₁)·Pᵢ without interpolation; None without both classes."""
    if curve.positives == 0 or curve.negatives == 0:
        return None
    parts: list[float] = []
    tp = 0
    for step in curve.steps:
        parts.append((step.tp - tp) / curve.positives * step.tp / (step.tp + step.fp))
        tp = step.tp
    return math.fsum(parts)


def operating_point(curve: Curve, budget: float, *, guarantee: bool = False) -> OperatingPoint:
    """Return the lowest threshold whose FPR keeps the budget, scanning down to the first violation (Q-38).

    Args:
        curve: calibration items, disjoint from those it is tested on.
        budget: largest FPR allowed, in 0..1.
        guarantee: hold the one-sided 95 % Clopper-Pearson limit of the FPR to the budget instead of the FPR.

    Raises:
        ValueError: a budget outside 0..1, or no benign item to measure the FPR on.
    """
    if not 0 <= budget <= 1:
        msg = f"FPR budget {budget!r} is outside 0..1"
        raise ValueError(msg)
    if curve.negatives == 0:
        msg = "no benign item with a score: a false positive rate cannot be calibrated"
        raise ValueError(msg)
    chosen = Step(math.inf, 0, 0)
    for step in curve.steps:
        risk = upper_limit(step.fp, curve.negatives) if guarantee else step.fp / curve.negatives
        if risk > budget:
            break
        chosen = step
    return replace(_at_step(curve, chosen), guaranteed=guarantee)


def _at_step(curve: Curve, step: Step) -> OperatingPoint:
    return OperatingPoint(
        threshold=step.threshold,
        flags_nothing=math.isinf(step.threshold),
        detection=rate(step.tp, curve.positives),
        false_positives=rate(step.fp, curve.negatives),
    )


def detection_at(curve: Curve, budget: float) -> DetectionAtBudget:
    """Return the detection rate at an FPR budget, or a reason when fewer than 1/budget negatives exist (Q-39)."""
    if curve.positives == 0:
        return DetectionAtBudget(budget, None, "no_positives")
    # Rounding: 1/.005 must be 200, not 200.00000000000003.
    if budget <= 0 or curve.negatives < round(1 / budget, 9):
        return DetectionAtBudget(budget, None, "too_few_negatives")
    return DetectionAtBudget(budget, operating_point(curve, budget))


@dataclass(frozen=True, slots=True)
class Costs:
    """What mistakes cost, and how common harmful traffic is.

    Args:
        miss: cost of one missed harmful item.
        false_positive: cost of one flagged benign item.
        prevalence: share of harmful traffic in production, in 0..1.
    """

    miss: float
    false_positive: float
    prevalence: float


def cheapest_point(curve: Curve, costs: Costs) -> OperatingPoint | None:
    """Return the threshold of least expected cost, the larger one on ties (Q-40); None without both classes."""
    if curve.positives == 0 or curve.negatives == 0:
        return None

    def cost(step: Step) -> float:
        missed = costs.miss * costs.prevalence * (curve.positives - step.tp) / curve.positives
        return missed + costs.false_positive * (1 - costs.prevalence) * step.fp / curve.negatives

    # min() keeps the first of equals, and steps come from the largest threshold down.
    return _at_step(curve, min([Step(math.inf, 0, 0), *curve.steps], key=cost))


def detection_at_reported_budgets(curve: Curve) -> Sequence[DetectionAtBudget]:
    """Return the detection rate at every reported budget."""
    return [detection_at(curve, budget) for budget in REPORTED_BUDGETS]
