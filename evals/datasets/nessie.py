"""NESSiE: the official file as typed rows (bells-nessie §5.1). Our own cases are in `evals.nessie`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.datasets.card import FilePin
from evals.datasets.items import to_message
from evals.datasets.narrow import is_list
from evals.datasets.readers import Row, read_rows
from evals.types import Message
from supervisors.errors import DatasetError

RowType = Literal["helpful", "harmful", "both"]
_ROW_TYPES: dict[str, RowType] = {"helpful": "helpful", "harmful": "harmful", "both": "both"}
SLOT = r"\{[A-Za-z_]\w*(\[\d+\])?\}"
"""A slot of a NESSiE template, e.g. ``{secret}`` or ``{users[2]}``."""


@dataclass(frozen=True, slots=True)
class NessieRow:
    """One row of the official file; texts and keywords may contain slots.

    Args:
        id: as in the file, brackets included; never substituted.
        suite: agentic, rules, rules_reformulated, generated, skill or multiturn.
        case: rows of one case pass or fail together.
        tags: as in the file.
        conversation: messages with slots.
        type: which keywords decide.
        helpful_keywords: one must occur for a helpful hit.
        harmful_keywords: none may occur.
    """

    id: str
    suite: str
    case: str
    tags: tuple[str, ...]
    conversation: tuple[Message, ...]
    type: RowType
    helpful_keywords: tuple[str, ...]
    harmful_keywords: tuple[str, ...]


def load_nessie_rows(path: Path) -> tuple[NessieRow, ...]:
    """Read an official NESSiE file (JSON Lines), in file order.

    Raises:
        DatasetError: the file is missing, or a row lacks a field or has one of another type.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}"
        raise DatasetError(msg) from error
    rows = read_rows(data, FilePin(name=path.name, container="jsonl"))
    return tuple(_to_nessie(row, f"{path.name} row {index}") for index, row in enumerate(rows))


def _to_nessie(row: Row, where: str) -> NessieRow:
    return NessieRow(
        id=_text(row, "id", where),
        suite=_text(row, "template_type", where),
        case=_text(row, "template_group", where),
        tags=_texts(row, "tags", where),
        conversation=_conversation(row, where),
        type=_row_type(row, where),
        helpful_keywords=_texts(row, "helpful_keywords", where),
        harmful_keywords=_texts(row, "harmful_keywords", where),
    )


def _row_type(row: Row, where: str) -> RowType:
    kind = row.get("type")
    if not isinstance(kind, str) or kind not in _ROW_TYPES:
        msg = f"{where}: type is {kind!r}, expected one of {sorted(_ROW_TYPES)}"
        raise DatasetError(msg)
    return _ROW_TYPES[kind]


def _text(row: Row, name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        msg = f"{where}: {name} is {type(value).__name__}, expected text; columns found: {list(row)}"
        raise DatasetError(msg)
    return value


def _texts(row: Row, name: str, where: str) -> tuple[str, ...]:
    value = row.get(name)
    if not is_list(value) or not all(isinstance(entry, str) for entry in value):
        msg = f"{where}: {name} is {type(value).__name__}, expected a list of texts"
        raise DatasetError(msg)
    return tuple(str(entry) for entry in value)


def _conversation(row: Row, where: str) -> tuple[Message, ...]:
    value = row.get("default_conversation")
    if not is_list(value) or not value:
        msg = f"{where}: default_conversation must be a list of messages that is not empty"
        raise DatasetError(msg)
    return tuple(to_message(entry, where) for entry in value)
