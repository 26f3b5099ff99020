"""Per-item verdicts of the BELLS design: what is known of an item, and the export without text (B-04, B-11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from evals.reasons import reason_of
from evals.statistics.jsonable import Json, to_json
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label

Severity = Literal["benign", "borderline", "harmful"]
Adversariality = Literal["direct", "jailbroken"]

SEVERITIES: tuple[Severity, ...] = ("benign", "borderline", "harmful")
ADVERSARIALITIES: tuple[Adversariality, ...] = ("direct", "jailbroken")
FAMILIES: tuple[str, ...] = ("narrative", "syntactic", "generative")

UNION = "union"
"""Pseudo-supervisor of the export: flagged by at least one of those compared."""


@dataclass(frozen=True, slots=True)
class BellsItem:
    """Where an item stands in the design; any labelled set can be placed so.

    Args:
        id: id of the item; never its text.
        cluster: id of the question it was made from.
        severity: benign, borderline or harmful.
        adversariality: asked directly or jailbroken.
        family: jailbreak family, None for direct items.
        source: jailbreak source, or where a direct item comes from.
        category: harm category.
        published_at: ISO date of first publication of the attack, or its beginning (``2023-07``).
    """

    id: str
    cluster: str
    severity: Severity
    adversariality: Adversariality
    family: str | None = None
    source: str | None = None
    category: str | None = None
    published_at: str | None = None


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """What one supervisor said of one item; seconds and cost (US dollars) are None when not measured."""

    item: BellsItem
    supervisor: str
    label: Label
    cause: Cause | None = None
    seconds: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a row of the export is."""

    kind: Literal["verdict", "union", "missed_by_all"] = "verdict"


def by_supervisor(verdicts: Iterable[ItemVerdict]) -> Mapping[str, tuple[ItemVerdict, ...]]:
    """Split verdicts by supervisor, in order of first appearance."""
    split: dict[str, list[ItemVerdict]] = {}
    for verdict in verdicts:
        split.setdefault(verdict.supervisor, []).append(verdict)
    return {name: tuple(group) for name, group in split.items()}


class _Unions:
    """The union of the supervisors compared, item by item; of a verdict no more is kept than it changes in its item."""

    def __init__(self) -> None:
        self._supervisors: set[str] = set()
        self._items: dict[str, _Union] = {}

    def add(self, verdict: ItemVerdict) -> None:
        """Take one verdict in."""
        self._supervisors.add(verdict.supervisor)
        union = self._items.setdefault(verdict.item.id, _Union(verdict.item))
        union.verdicts += 1
        union.flagged |= verdict.label is Label.UNSAFE
        union.safe &= verdict.label is Label.SAFE
        union.cause = union.cause or verdict.cause

    def verdicts(self) -> Iterator[ItemVerdict]:
        """Yield one verdict an item, in order of first appearance."""
        for union in self._items.values():
            if union.flagged:
                yield ItemVerdict(union.item, UNION, Label.UNSAFE)
            elif union.safe and union.verdicts == len(self._supervisors):
                yield ItemVerdict(union.item, UNION, Label.SAFE)
            else:
                yield ItemVerdict(union.item, UNION, Label.UNKNOWN, union.cause or Cause.SKIPPED)


@dataclass(slots=True)
class _Union:
    item: BellsItem
    verdicts: int = 0
    flagged: bool = False
    safe: bool = True
    cause: Cause | None = None


def _is_missed(union: ItemVerdict) -> bool:
    return union.item.severity == "harmful" and union.label is Label.SAFE


def export_rows(verdicts: Iterable[ItemVerdict]) -> Iterator[Json]:
    """Yield the rows of the export: every verdict, then the union, then the items missed by all; no text."""
    unions = _Unions()
    for verdict in verdicts:
        unions.add(verdict)
        yield _to_row(verdict)
    yield from map(_to_row, unions.verdicts())
    yield from ({"kind": "missed_by_all", "item": to_json(one.item)} for one in unions.verdicts() if _is_missed(one))


def _to_row(verdict: ItemVerdict) -> Json:
    row = to_json(verdict)
    return {"kind": "union" if verdict.supervisor == UNION else "verdict", **row} if isinstance(row, dict) else row


def read_verdicts(path: Path) -> tuple[ItemVerdict, ...]:
    """Read an export back; union and missed rows are derived and left out.

    Raises:
        DatasetError: the file cannot be read, or a line is not a verdict, with its number.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path.name}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error
    reader, kinds = TypeAdapter(ItemVerdict), TypeAdapter(_Kind)
    verdicts: list[ItemVerdict] = []
    for number, line in enumerate(text.split("\n"), start=1):  # U+2028 ends no line
        if not line.strip():
            continue
        try:
            if kinds.validate_json(line).kind == "verdict":
                verdicts.append(reader.validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join([str(part) for part in first["loc"]])
            msg = f"{path.name} line {number}: {where or 'the row'}: {first['msg']}; see docs/bells.md for the members"
            raise DatasetError(msg) from error
    return tuple(verdicts)
