"""Thresholds by false-positive budget, Platt calibration, calibration error. Pure, standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, floor, isfinite, log, log1p
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from supervisors.embedded.model import HeadName
from supervisors.errors import ConfigError

BUDGETS = ("0.05", "0.02", "0.01", "0.002")
_LOGIT = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold and how many of the calibration texts lie strictly above it."""

    z: float
    flagged: int
    total: int


def parse_budget(text: str) -> Fraction:
    """Read a budget exactly.

    Raises:
        ConfigError: not a decimal number in 0 ≤ f < 1.
    """
    try:
        budget = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        msg = f"budget {text!r} is not a number; right would be e.g. 0.01"
        raise ConfigError(msg) from error
    if not 0 <= budget < 1:
        msg = f"budget {text!r} is outside 0 ≤ budget < 1"
        raise ConfigError(msg)
    return budget


def find_threshold(logits: Sequence[float], budget: str) -> Threshold:
    """Return the threshold that flags at most the budgeted share of benign texts; ties are not flagged.

    Args:
        logits: of benign texts.
        budget: decimal text such as ``0.05``; ⌊budget·n⌋ is computed exactly.

    Raises:
        ConfigError: no logits, or one that is not finite.
    """
    if not logits or not all(map(isfinite, logits)):
        msg = "a threshold needs at least one benign text, and finite logits"
        raise ConfigError(msg)
    ranked = sorted(logits, reverse=True)
    z = ranked[floor(parse_budget(budget) * len(ranked))]
    return Threshold(z, sum(value > z for value in ranked), len(ranked))


def fit_platt(logits: Sequence[float], labels: Sequence[bool]) -> tuple[float, float]:
    """Fit slope and offset of a calibrated score σ(a·z + b) by Newton's method with smoothed targets.

    Source: Platt 1999 with the targets (N₊+1)/(N₊+2) and 1/(N₋+2), iteration of Lin, Lin and Weng 2007.
    """
    positives = sum(labels)
    negatives = len(labels) - positives
    high, low = (positives + 1) / (positives + 2), 1 / (negatives + 2)
    targets = [high if label else low for label in labels]
    a, b = 0.0, log((positives + 1) / (negatives + 1))
    loss = _platt_loss(a, b, logits, targets)
    for _ in range(100):
        step = _newton_step(a, b, logits, targets)
        scale = 1.0
        while scale > 1e-10:
            tried = _platt_loss(a + scale * step[0], b + scale * step[1], logits, targets)
            if tried < loss:
                break
            scale /= 2
        else:
            break
        a, b = a + scale * step[0], b + scale * step[1]
        if loss - tried < 1e-10:
            break
        loss = tried
    return a, b


def _platt_loss(a: float, b: float, logits: Sequence[float], targets: Sequence[float]) -> float:
    total = 0.0
    for z, target in zip(logits, targets, strict=True):
        value = a * z + b
        total += max(value, 0.0) - target * value + log1p(exp(-abs(value)))
    return total


def _newton_step(a: float, b: float, logits: Sequence[float], targets: Sequence[float]) -> tuple[float, float]:
    g_a = g_b = h_ab = 0.0
    h_aa = h_bb = 1e-12
    for z, target in zip(logits, targets, strict=True):
        p = sigmoid(a * z + b)
        d, w = p - target, p * (1 - p)
        g_a, g_b = g_a + d * z, g_b + d
        h_aa, h_ab, h_bb = h_aa + w * z * z, h_ab + w * z, h_bb + w
    determinant = h_aa * h_bb - h_ab * h_ab
    return (h_ab * g_b - h_bb * g_a) / determinant, (h_ab * g_a - h_aa * g_b) / determinant


def sigmoid(value: float) -> float:
    """Return 1/(1+e^−value) without overflow."""
    if value < 0:
        grown = exp(value)
        return grown / (1.0 + grown)
    return 1.0 / (1.0 + exp(-value))


def prior_shift(prior: float, training_share: float) -> float:
    """Return what to add to the Platt offset when a share `prior` of the traffic is harmful, not the training share."""
    return log(prior / (1 - prior)) - log(training_share / (1 - training_share))


def calibration_error(scores: Sequence[float], labels: Sequence[bool], bins: int = 10) -> float:
    """Return the expected calibration error over equal-count bins of the sorted scores."""
    ranked = sorted(zip(scores, labels, strict=True))
    total = len(ranked)
    error = 0.0
    for number in range(bins):
        part = ranked[number * total // bins : (number + 1) * total // bins]
        if part:
            gap = sum(score for score, _ in part) - sum(label for _, label in part)
            error += abs(gap) / total
    return error


class ThresholdsFile(BaseModel):
    """A user's own thresholds, made by ``guardrail-proxy guard calibrate``.

    Args:
        card: guard they belong to.
        weights_sha256: weights they were measured with; others refuse them.
        calibrated_on: name and sha256 of the benign file.
        texts: number of benign texts.
        thresholds: head → budget → logit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    card: str
    weights_sha256: str
    calibrated_on: str
    texts: int = Field(gt=0)
    thresholds: Mapping[HeadName, Mapping[str, _LOGIT]]


def read_thresholds(path: Path) -> ThresholdsFile:
    """Read a thresholds file.

    Raises:
        ConfigError: it is missing or not of that form.
    """
    try:
        return ThresholdsFile.model_validate_json(path.read_bytes())
    except OSError as error:
        msg = f"thresholds file {path} cannot be read: {error.strerror}"
        raise ConfigError(msg, "thresholds") from error
    except ValidationError as error:
        problems = error.error_count()
        msg = f"thresholds file {path} is not one that 'guardrail-proxy guard calibrate' wrote: {problems} problem(s)"
        raise ConfigError(msg, "thresholds") from error


def write_thresholds(path: Path, thresholds: ThresholdsFile) -> None:
    """Write a thresholds file."""
    path.write_text(json.dumps(thresholds.model_dump(mode="json"), indent=2) + "\n", "utf-8")
