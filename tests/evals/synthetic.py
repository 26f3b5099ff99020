"""Sides of a comparison made of counts, for tests of what is decided and not of how it was measured."""

from __future__ import annotations

from evals.comparison.measures import Case
from evals.comparison.sides import Key, Side
from evals.effort import Spent
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.metrics import Outcome, Truth
from evals.plan import Plan, PlannedTrial
from evals.rows import Row
from evals.state import counting_lines
from evals.summary import Loaded
from supervisors.types import Cause, Label

_LABELS = {"1": Label.UNSAFE, "0": Label.SAFE, "?": Label.UNKNOWN}


def planned(number: int, truth: str, dataset: str = "made-up", category: str = "umbrellas") -> PlannedTrial:
    """Return a planned trial."""
    item = f"{dataset}/all/{number:06d}-{truth}"
    return PlannedTrial(
        trial_key=item,
        dataset=dataset,
        item_id=item,
        cluster_id=item,
        truth=truth,
        severity=None,
        adversariality=None,
        family=None,
        source=None,
        published_at=None,
        category=(category,),
        transform="none",
        repeat=0,
        target="*",
        arm="check",
        guard="",
        composition="plain-1",
        prompt_sha256="",
        chars=1,
        contamination="clean",
    )


def side(name: str, harmful: str = "", benign: str = "", *, category: str = "umbrellas") -> Side:
    """Return a run of the made-up set: one letter an item, 1 flagged, 0 not flagged, ? unknown."""
    cases: dict[Key, Case] = {}
    for number, letter in enumerate(harmful + benign):
        truth: Truth = "harmful" if number < len(harmful) else "benign"
        trial = planned(number, truth, category=category)
        label = _LABELS[letter]
        cause = Cause.ABSTAINED if label is Label.UNKNOWN else None
        line: JsonObject = {"status": "ok", "flagged": label is Label.UNSAFE}
        outcome = Outcome(trial.item_id, trial.cluster_id, truth, label, cause)
        key = Key(trial.dataset, trial.item_id, trial.transform, trial.repeat)
        cases[key] = Case(Row(trial, line, None, None), outcome, None)
    return Side(name, Loaded(manifest(), Plan(), (), counting_lines(()), (), Spent()), None, (), cases)


def manifest() -> Manifest:
    """Return a manifest of no run."""
    return Manifest(1, "made-up", "", "direct", (), {}, {}, {}, "", {}, "", 0, {}, {})
