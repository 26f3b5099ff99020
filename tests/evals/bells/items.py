"""Eight items of every kind and a supervisor that flags those it is told to, for tests of tables and unions."""

from __future__ import annotations

from evals.bells.verdicts import Adversariality, BellsItem, ItemVerdict, Severity
from supervisors.types import Label


def make_item(name: str, severity: Severity, adversariality: Adversariality = "direct", **more: str) -> BellsItem:
    """Return an item that is a cluster of its own."""
    return BellsItem(name, name, severity, adversariality, **more)


ITEMS = [
    make_item("n1", "harmful", "jailbroken", family="narrative", source="hub", published_at="2023-07"),
    make_item("s1", "harmful", "jailbroken", family="syntactic", source="hex", published_at="2025-02-01"),
    make_item("g1", "harmful", "jailbroken", family="generative", source="PAIR", published_at="2023-10"),
    make_item("d1", "harmful", category="Privacy"),
    make_item("d2", "harmful", category="CBRN"),
    make_item("b1", "benign"),
    make_item("b2", "benign"),
    make_item("g2", "borderline"),
]


def judge_all(
    supervisor: str, flagged: str, *, seconds: float | None = None, cost: float | None = None
) -> list[ItemVerdict]:
    """Return one supervisor's verdicts on all items; `flagged` names those it flags."""
    names = flagged.split()
    return [
        ItemVerdict(item, supervisor, Label.UNSAFE if item.id in names else Label.SAFE, seconds=seconds, cost=cost)
        for item in ITEMS
    ]
