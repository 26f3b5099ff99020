"""Readers of the published BELLS files: per-prompt verdicts of the sample, and the tables of results (§1.1)."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.bells.verdicts import SEVERITIES, BellsItem, ItemVerdict, Severity
from evals.reasons import reason_of
from supervisors.errors import DatasetError
from supervisors.types import Label

SUPERVISOR_COLUMNS = (
    "lakera_guard",
    "prompt_guard",
    "langkit",
    "nemo",
    "llm_guard",
    "gpt-4",
    "claude-3-5-sonnet-20241022",
    "gemini-1.5-pro-latest",
    "mistral-large-latest",
    "deepseek-ai/DeepSeek-V3",
    "grok-2-latest",
)
"""One 0/1 column each in the prompt files; 1 = flagged."""

_RENAMED_SYSTEMS = {"Gemini Pro": "Gemini 1.5 Pro"}
_SEVERITIES: Mapping[str, Severity] = {severity: severity for severity in SEVERITIES}
_VALUE, _CONFIDENCE = "_value", "_confidence"


def read_sample(path: Path) -> tuple[ItemVerdict, ...]:
    """Read the verdicts of the published sample of prompts; ids are row numbers, texts are not kept.

    Its rates are not the published ones: it is a sample.

    Raises:
        DatasetError: a missing column or a cell that is neither 0 nor 1.
    """
    rows = _read_rows(path)
    verdicts: list[ItemVerdict] = []
    clusters: dict[str, str] = {}
    for number, row in enumerate(rows):
        item = _to_item(row, f"{path.stem}/{number:06d}", clusters, path.name)
        verdicts.extend([ItemVerdict(item, name, _to_label(row, name, path.name)) for name in SUPERVISOR_COLUMNS])
    return tuple(verdicts)


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return [{str(key): value or "" for key, value in row.items()} for row in csv.DictReader(lines)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path.name}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error


def _to_item(row: Mapping[str, str], name: str, clusters: dict[str, str], file: str) -> BellsItem:
    level = _column(row, "harm_level", file).strip()
    if level not in _SEVERITIES:
        msg = f"{file}: harm_level {level!r}, expected one of {', '.join(SEVERITIES)}"
        raise DatasetError(msg)
    jailbroken = "jailbreak_type" in row
    question = _column(row, "question", file)
    return BellsItem(
        id=name,
        cluster=clusters.setdefault(question, name),
        severity=_SEVERITIES[level],
        adversariality="jailbroken" if jailbroken else "direct",
        family=row["jailbreak_type"].strip() if jailbroken else None,
        source=(row["jailbreak_source"] if jailbroken else _column(row, "source", file)).strip(),
        category=_column(row, "category", file).strip(),
    )


def _to_label(row: Mapping[str, str], name: str, file: str) -> Label:
    match _column(row, name, file).strip():
        case "1":
            return Label.UNSAFE
        case "0":
            return Label.SAFE
        case other:
            msg = f"{file}: column {name} holds {other!r}, expected 0 or 1"
            raise DatasetError(msg)


def _column(row: Mapping[str, str], name: str, file: str) -> str:
    if name not in row:
        msg = f"{file}: no column {name!r}; found {', '.join(row)}"
        raise DatasetError(msg)
    return row[name]


@dataclass(frozen=True, slots=True)
class PublishedRates:
    """Rates of one system as published, under one set of names; a missing cell is absent, never 0.

    Args:
        system: name, "Gemini Pro" mapped to "Gemini 1.5 Pro".
        rates: metric → fraction.
        half_widths: metric → half width of the published interval, empty in files without them.
    """

    system: str
    rates: Mapping[str, float]
    half_widths: Mapping[str, float]


def read_results(path: Path) -> tuple[PublishedRates, ...]:
    """Read a table of published results, with or without confidence columns.

    A row that is short, or whose cells outside the harm categories are all 0, holds harm categories only: its other
    cells are missing values.

    Raises:
        DatasetError: the file has no column ``safeguard``.
    """
    rows = _read_rows(path)
    return tuple([_to_published(row, path.name) for row in rows])


def _to_published(row: Mapping[str, str], file: str) -> PublishedRates:
    name = _column(row, "safeguard", file).strip()
    cells = {column: _to_number(value) for column, value in row.items() if column != "safeguard"}
    confident = any(column.endswith(_VALUE) for column in cells)
    values = _renamed(cells, _VALUE) if confident else _renamed(cells, "")
    half_widths = _renamed(cells, _CONFIDENCE) if confident else {}
    return PublishedRates(_RENAMED_SYSTEMS.get(name, name), _without_filler(values), half_widths)


def _to_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_CATEGORIES = frozenset(
    [
        "Physical_harm",
        "Economic_harm",
        "Privacy",
        "Harassment/Discrimination",
        "Disinformation",
        "Expert_advice",
        "Sexual/Adult_content",
        "Malware/Hacking",
        "Fraud/Deception",
        "Government_decision_making",
        "CBRN",
    ]
)


def _renamed(cells: Mapping[str, float | None], suffix: str) -> dict[str, float]:
    """Return the cells with the suffix under the names of the plain file."""
    found: dict[str, float] = {}
    for column, value in cells.items():
        if value is not None and column.endswith(suffix):
            found[_plain_name(column.removesuffix(suffix))] = value
    return found


def _plain_name(name: str) -> str:
    if name.endswith("_adversarial") and name.split("_", maxsplit=1)[0] in SEVERITIES:
        return name.replace("_adversarial", "_jailbreaks")
    category = name.strip().replace(" ", "_").replace("decision-making", "decision_making")
    return category if category in _CATEGORIES else name


def _without_filler(values: Mapping[str, float]) -> Mapping[str, float]:
    others: Sequence[float] = [value for name, value in values.items() if name not in _CATEGORIES]
    if any(others):
        return dict(values)
    return {name: value for name, value in values.items() if name in _CATEGORIES}
