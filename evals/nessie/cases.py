"""Rows of the NESSiE format: what a row is, and our own cases for the 39 known ones, in our own wording (§5.1).

Values obtained on our wording are not comparable with published ones; every report says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, Protocol

from pydantic import TypeAdapter, ValidationError

from supervisors.errors import DatasetError

RowType = Literal["helpful", "harmful", "both"]
Role = Literal["system", "user", "assistant"]
SLOT = re.compile(r"\{([A-Za-z_]\w*)(?:\[(\d+)\])?\}")
"""A slot: ``{secret}`` or ``{users[2]}``."""

SUITES = ("agentic", "rules", "rules_reformulated", "generated", "skill", "multiturn")


class Turn(Protocol):
    """One message of a conversation, with slots."""

    @property
    def role(self) -> str:
        """Return system, user or assistant."""
        ...

    @property
    def content(self) -> str:
        """Return the text."""
        ...


class Template(Protocol):
    """A row as any loader gives it: ours and that of the official file."""

    @property
    def id(self) -> str:
        """Return the id; it may hold brackets and is never substituted."""
        ...

    @property
    def suite(self) -> str:
        """Return the suite (`template_type`)."""
        ...

    @property
    def case(self) -> str:
        """Return the case (`template_group`): its rows pass or fail together."""
        ...

    @property
    def conversation(self) -> Sequence[Turn]:
        """Return the messages, with slots."""
        ...

    @property
    def type(self) -> RowType:
        """Return which keywords decide."""
        ...

    @property
    def helpful_keywords(self) -> Sequence[str]:
        """Return the keywords of which one must occur."""
        ...

    @property
    def harmful_keywords(self) -> Sequence[str]:
        """Return the keywords of which none may occur."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Row:
    """One of our own rows; texts and keywords may hold slots."""

    id: str
    suite: str
    case: str
    conversation: tuple[Message, ...]
    type: RowType
    helpful_keywords: tuple[str, ...]
    harmful_keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _FileRow:
    """A line of the official format."""

    id: str
    template_type: str
    template_group: str
    tags: tuple[str, ...]
    default_conversation: tuple[Message, ...]
    type: RowType
    helpful_keywords: tuple[str, ...]
    harmful_keywords: tuple[str, ...]


def load_own_cases(suite: str | None = None) -> tuple[Row, ...]:
    """Return our own rows in file order: all 89, or those of one suite.

    Raises:
        DatasetError: there is no such suite.
    """
    if suite is not None and suite not in SUITES:
        msg = f"no suite {suite!r}; known are {', '.join(SUITES)}"
        raise DatasetError(msg)
    text = files("evals.nessie").joinpath("cases.jsonl").read_text(encoding="utf-8")
    return tuple([row for row in parse_rows(text, "cases.jsonl") if suite in (None, row.suite)])


def parse_rows(text: str, name: str) -> tuple[Row, ...]:
    """Parse JSON lines in the official row format.

    Raises:
        DatasetError: a line that is not such a row, with its number.
    """
    reader = TypeAdapter(_FileRow)
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = reader.validate_json(line, strict=True)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join([str(part) for part in first["loc"]])
            msg = f"{name} line {number}: {where or 'the row'}: {first['msg']}"
            raise DatasetError(msg) from error
        rows.append(_to_row(found))
    return tuple(rows)


def _to_row(found: _FileRow) -> Row:
    return Row(
        id=found.id,
        suite=found.template_type,
        case=found.template_group,
        conversation=found.default_conversation,
        type=found.type,
        helpful_keywords=found.helpful_keywords,
        harmful_keywords=found.harmful_keywords,
    )


def slot_names(row: Template) -> tuple[str, ...]:
    """Return the slots of a row without their index, sorted, each once."""
    texts = [turn.content for turn in row.conversation] + [*row.helpful_keywords, *row.harmful_keywords]
    return tuple(sorted({match[1] for text in texts for match in SLOT.finditer(text)}))


def template_text(row: Template) -> str:
    """Return the text of a row that its draws are seeded with: roles, contents and keywords, in order."""
    turns = [f"{turn.role}\x1f{turn.content}" for turn in row.conversation]
    return "\x1e".join([*turns, *row.helpful_keywords, *row.harmful_keywords])
