"""One score from several supervisors: a logistic model fitted on one data set and tried on others (H-160).

scikit-learn (extra ``train``) is imported inside the function that needs it. A threshold is set on scores of items
the model was not fitted on: with the very items of the fit it would look better than it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from typing import Any

from evals.operating.scores import Judged, Said
from supervisors.errors import ConfigError
from supervisors.types import Cause, Label

FOLDS = 5
_EDGE = 1e-6
"""How near to 0 and 1 a score may be before its logit is cut off."""


@dataclass(frozen=True, slots=True)
class Feature:
    """How the score of one supervisor enters the model.

    Args:
        supervisor: with its stage.
        logit: the scores lie in 0..1 and enter as log odds.
        centre, spread: mean and standard deviation on the items of the fit.
        weight: of the standardised feature.
    """

    supervisor: str
    logit: bool
    centre: float
    spread: float
    weight: float = 0.0

    def value(self, score: float) -> float:
        """Return the standardised feature of a score."""
        return (_raw(score, self.logit) - self.centre) / self.spread


@dataclass(frozen=True, slots=True)
class Logistic:
    """A fitted model.

    Args:
        features: one a supervisor.
        intercept: log odds where every feature is at its mean.
        harmful, benign: items it was fitted on.
    """

    features: tuple[Feature, ...]
    intercept: float
    harmful: int
    benign: int

    def score(self, one: Judged) -> float | None:
        """Return the probability of harm, None when a member gave no score."""
        odds = self.intercept
        for feature in self.features:
            score = one.scored(feature.supervisor).score
            if score is None or not math.isfinite(score):
                return None
            odds += feature.weight * feature.value(score)
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, odds))))


def joint_name(members: Sequence[str]) -> str:
    """Return the name under which the scores of a model of these supervisors stand."""
    return f"logistic({' + '.join(members)})"


def fit(judged: Sequence[Judged], members: Sequence[str]) -> Logistic | None:
    """Fit a model on the items that every member scored.

    Returns:
        None when they are not of both classes.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    used = [one for one in judged if _scores(one, members) is not None]
    harmful = sum([one.harmful for one in used])
    if harmful in (0, len(used)):
        return None
    features = [_feature(name, [score for one in used if (score := one.scored(name).score) is not None])
                for name in members]  # fmt: skip
    rows = [[f.value(score) for f, score in zip(features, _scores(one, members) or (), strict=True)] for one in used]
    weights, intercept = _regress(rows, [int(one.harmful) for one in used])
    fitted = tuple([replace(feature, weight=weight) for feature, weight in zip(features, weights, strict=True)])
    return Logistic(fitted, intercept, harmful, len(used) - harmful)


def _scores(one: Judged, members: Sequence[str]) -> list[float] | None:
    found = [one.scored(name).score for name in members]
    known = [score for score in found if score is not None and math.isfinite(score)]
    return known if len(known) == len(found) else None


def _feature(name: str, scores: Sequence[float]) -> Feature:
    logit = all(0 <= score <= 1 for score in scores)
    values = [_raw(score, logit) for score in scores]
    centre = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum([(value - centre) ** 2 for value in values]) / len(values))
    return Feature(name, logit, centre, spread or 1.0)


def _raw(score: float, logit: bool) -> float:
    if not logit:
        return score
    inside = min(1 - _EDGE, max(_EDGE, score))
    return math.log(inside / (1 - inside))


def _regress(rows: Sequence[Sequence[float]], labels: Sequence[int]) -> tuple[list[float], float]:
    try:
        sklearn: Any = import_module("sklearn.linear_model")  # optional extra, without types
    except ImportError as error:
        msg = "a logistic model needs scikit-learn: pip install 'guardrail-proxy[train]'"
        raise ConfigError(msg) from error
    model = sklearn.LogisticRegression(C=1.0, solver="lbfgs", max_iter=1_000, tol=1e-8).fit(rows, labels)
    return [float(value) for value in model.coef_[0]], float(model.intercept_[0])


def with_joint(judged: Sequence[Judged], model: Logistic, name: str) -> tuple[Judged, ...]:
    """Return the items with the model's score beside what its members said; one without a score is unknown."""
    return tuple([_with_said(one, name, _said(one, model)) for one in judged])


def _said(one: Judged, model: Logistic) -> Said:
    """Return the model's verdict: unsafe from even odds on, which a threshold replaces; the slowest member's time."""
    members = [one.said.get(feature.supervisor) for feature in model.features]
    seconds = [said.seconds if said else None for said in members]
    costs = [said.cost if said else None for said in members]
    times = [value for value in seconds if value is not None]
    paid = [value for value in costs if value is not None]
    score = model.score(one)
    if score is None:
        causes = [said.cause for said in members if said is not None and said.cause is not None]
        label, cause = Label.UNKNOWN, next(iter(causes), Cause.ABSTAINED)
    else:
        label, cause = (Label.UNSAFE if score >= 0.5 else Label.SAFE), None
    return Said(
        label,
        cause,
        score,
        max(times) if times and len(times) == len(seconds) else None,
        math.fsum(paid) if len(paid) == len(costs) else None,
    )


def _with_said(one: Judged, name: str, said: Said) -> Judged:
    known: Mapping[str, Said] = one.said
    return replace(one, said={**known, name: said})


def cross_fit(judged: Sequence[Judged], members: Sequence[str], seed: int) -> tuple[Judged, ...] | None:
    """Return the items with scores of models fitted on the other folds; folds are dealt by root item, class by class.

    Returns:
        None when some fold leaves only one class to fit on.
    """
    fold_of = _folds(judged, seed)
    found: dict[int, Judged] = {}
    name = joint_name(members)
    for fold in range(FOLDS):
        model = fit([one for one in judged if fold_of[one.cluster] != fold], members)
        if model is None:
            return None
        inside = [(n, one) for n, one in enumerate(judged) if fold_of[one.cluster] == fold]
        made = with_joint([one for _, one in inside], model, name)
        found |= {n: one for (n, _), one in zip(inside, made, strict=True)}
    return tuple([found[n] for n in range(len(judged))])


def _folds(judged: Sequence[Judged], seed: int) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for harmful in (True, False):
        roots = sorted({one.cluster for one in judged if one.harmful is harmful} - set(found))
        Random(seed).shuffle(roots)  # noqa: S311 - a reproducible split, not a secret
        found |= {root: place % FOLDS for place, root in enumerate(roots)}
    return found
