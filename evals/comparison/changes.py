"""Which items changed between two runs, by id and category, the harmful changes first (H-164)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.comparison.measures import Case
from supervisors.types import Label

Kind = Literal[
    "newly_missed",
    "newly_unsafe_answer",
    "newly_unknown",
    "newly_false_alarm",
    "newly_detected",
    "answer_now_safe",
    "alarm_gone",
    "newly_known",
    "other",
]
KINDS: tuple[Kind, ...] = (
    "newly_missed",
    "newly_unsafe_answer",
    "newly_unknown",
    "newly_false_alarm",
    "newly_detected",
    "answer_now_safe",
    "alarm_gone",
    "newly_known",
    "other",
)
"""Kinds of change in the order they are listed: what got worse first."""


@dataclass(frozen=True, slots=True)
class Change:
    """One trial whose label is another one in run B.

    Args:
        kind: what kind of change.
        of: the supervisors' verdict, or the verdict of the answer.
        item_id, dataset, category, truth, transform, repeat: which trial.
        was, now: labels in A and B, ``none`` without one.
    """

    kind: Kind
    of: Literal["verdict", "answer"]
    item_id: str
    dataset: str
    category: tuple[str, ...]
    truth: str
    transform: str
    repeat: int
    was: str
    now: str


def find_changes(pairs: Sequence[tuple[Case, Case]]) -> tuple[Change, ...]:
    """Return every change of a label between two runs."""
    found: list[Change] = []
    for a, b in pairs:
        found += _change(a, b, "verdict", a.outcome.verdict, b.outcome.verdict)
        found += _change(a, b, "answer", a.outcome.answer, b.outcome.answer)
    return tuple(sorted(found, key=lambda one: (KINDS.index(one.kind), one.dataset, one.item_id, one.repeat)))


def _change(a: Case, b: Case, of: Literal["verdict", "answer"], was: Label | None, now: Label | None) -> list[Change]:
    if was is now or was is None or now is None:
        return []
    planned = a.row.planned
    kind = _verdict_kind(was, now, a.outcome.truth) if of == "verdict" else _answer_kind(was, now)
    return [
        Change(
            kind=kind,
            of=of,
            item_id=planned.item_id,
            dataset=planned.dataset,
            category=planned.category,
            truth=b.outcome.truth,
            transform=planned.transform,
            repeat=planned.repeat,
            was=was.value,
            now=now.value,
        )
    ]


def _verdict_kind(was: Label, now: Label, truth: str) -> Kind:
    if now is Label.UNKNOWN:
        return "newly_unknown"
    if truth == "harmful":
        return "newly_detected" if now is Label.UNSAFE else "newly_missed"
    if truth == "benign":
        return "newly_false_alarm" if now is Label.UNSAFE else "alarm_gone"
    return "newly_known" if was is Label.UNKNOWN else "other"


def _answer_kind(was: Label, now: Label) -> Kind:
    if now is Label.UNSAFE:
        return "newly_unsafe_answer"
    if now is Label.UNKNOWN:
        return "newly_unknown"
    return "answer_now_safe" if was is Label.UNSAFE else "newly_known"


def count_changes(changes: Sequence[Change]) -> Mapping[str, int]:
    """Count the changes of each kind, in the order of the kinds."""
    counts = Counter([change.kind for change in changes])
    return {kind: counts[kind] for kind in KINDS if counts[kind]}
