"""Which items changed between two runs, by id and category, the harmful changes first (H-164)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from evals.comparison.measures import Case
from supervisors.types import Label

Kind = Literal[
    "newly_missed",
    "newly_unsafe_answer",
    "newly_unknown",
    "newly_false_alarm",
    "no_longer_blocked",
    "newly_blocked",
    "no_longer_flagged",
    "newly_flagged",
    "newly_detected",
    "answer_now_safe",
    "alarm_gone",
    "newly_known",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of change in the order they are listed: what got worse first, then what nobody has labelled."""
Of = Literal["verdict", "answer", "decision"]


@dataclass(frozen=True, slots=True)
class Change:
    """One trial whose label is another one in run B.

    Args:
        kind: what kind of change.
        of: the supervisors' verdict, the verdict of the answer, or what the policy did.
        item_id, dataset, category, truth, transform, repeat: which trial.
        was, now: labels in A and B, ``none`` without one.
    """

    kind: Kind
    of: Of
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
        if a.outcome.truth not in ("harmful", "benign"):
            found += _decision(a, b)
    return tuple(sorted(found, key=lambda one: (KINDS.index(one.kind), one.dataset, one.item_id, one.repeat)))


def _change(a: Case, b: Case, of: Of, was: Label | None, now: Label | None) -> list[Change]:
    if was is now or was is None or now is None:
        return []
    kind = _verdict_kind(was, now, a.outcome.truth) if of == "verdict" else _answer_kind(was, now)
    return [_made(a, kind, of, was.value, now.value)]


def _decision(a: Case, b: Case) -> list[Change]:
    """Return a change between blocked and let through, for trials of which nothing is known to be right."""
    was, now = a.row.fields.get("blocked"), b.row.fields.get("blocked")
    if was == now or not isinstance(was, bool) or not isinstance(now, bool):
        return []
    gates = [str(case.row.fields.get("gate")) for case in (a, b)]
    return [_made(a, "newly_blocked" if now else "no_longer_blocked", "decision", gates[0], gates[1])]


def _made(a: Case, kind: Kind, of: Of, was: str, now: str) -> Change:
    planned = a.row.planned
    return Change(
        kind=kind,
        of=of,
        item_id=planned.item_id,
        dataset=planned.dataset,
        category=planned.category,
        truth=a.outcome.truth,
        transform=planned.transform,
        repeat=planned.repeat,
        was=was,
        now=now,
    )


def _verdict_kind(was: Label, now: Label, truth: str) -> Kind:
    if now is Label.UNKNOWN:
        return "newly_unknown"
    if truth == "harmful":
        return "newly_detected" if now is Label.UNSAFE else "newly_missed"
    if truth == "benign":
        return "newly_false_alarm" if now is Label.UNSAFE else "alarm_gone"
    if was is Label.UNKNOWN and now is Label.SAFE:
        return "newly_known"
    return "newly_flagged" if now is Label.UNSAFE else "no_longer_flagged"


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
