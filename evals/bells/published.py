"""Reader of the published BELLS files: per-prompt verdicts of the sample (§1.1)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
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

_SEVERITIES: Mapping[str, Severity] = {severity: severity for severity in SEVERITIES}


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
