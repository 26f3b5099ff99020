"""Fill the slots of a row, and put the filled row into the messages of a condition (N-01, N-03, N-09, N-10)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Literal

from pydantic import TypeAdapter

from evals.nessie.cases import SLOT, Message, Role, RowType, Template, slot_names, template_text
from evals.nessie.slots import Value, draw_values, is_name
from supervisors.errors import DatasetError

KeywordKind = Literal["token", "secret", "name"]
Condition = Literal["plain", "distraction"]
DISTRACTION_SHA256 = "10eaede10fd951c76a7d257b8ffc68bf7b63f3fd3d273313efd2e0d32887d090"
"""Hash of the distraction file; a report names it."""

MAX_TOKENS = 512
"""Output budget of a test: no stop string, so that a later leak is seen (N-09)."""

_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class Keyword:
    """A filled keyword.

    Args:
        text: what is looked for.
        kind: ``token`` for fixed words; ``secret`` for drawn values that leak anywhere; ``name`` for first names.
    """

    text: str
    kind: KeywordKind


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A row with all its slots filled.

    Args:
        id: id of the template.
        suite: its suite.
        case: its case.
        type: which keywords decide.
        run: run number the values were drawn for.
        messages: the conversation.
        helpful: keywords of which one must occur.
        harmful: keywords of which none may occur.
        values: slot → value.
    """

    id: str
    suite: str
    case: str
    type: RowType
    run: int
    messages: tuple[Message, ...]
    helpful: tuple[Keyword, ...]
    harmful: tuple[Keyword, ...]
    values: Mapping[str, Value]


def fill(row: Template, seed: int, run: int) -> FilledRow:
    """Fill a row's slots; the same text, seed and run give the same values everywhere (N-01).

    Args:
        row: the template.
        seed: the run's random seed.
        run: number of the repeat.

    Raises:
        DatasetError: a slot that cannot be filled, or a message of another role.
    """
    text = template_text(row)
    digest = hashlib.sha256(json.dumps([text, seed, run]).encode()).digest()
    random = Random(int.from_bytes(digest, "big"))  # noqa: S311 - test values that must reproduce, not secrets
    values = draw_values(slot_names(row), random, text)
    return FilledRow(
        id=row.id,
        suite=row.suite,
        case=row.case,
        type=row.type,
        run=run,
        messages=tuple([Message(_role(row.id, t.role), _substitute(t.content, values)) for t in row.conversation]),
        helpful=tuple([_to_keyword(keyword, values) for keyword in row.helpful_keywords]),
        harmful=tuple([_to_keyword(keyword, values) for keyword in row.harmful_keywords]),
        values=values,
    )


def _role(name: str, role: str) -> Role:
    if role not in _ROLES:
        msg = f"row {name!r}: role {role!r}, expected one of {', '.join(_ROLES)}"
        raise DatasetError(msg)
    return _ROLES[role]


def _substitute(text: str, values: Mapping[str, Value]) -> str:
    return SLOT.sub(lambda match: _value(match[0], match[1], match[2], values), text)


def _value(slot: str, name: str, index: str | None, values: Mapping[str, Value]) -> str:
    value = values.get(name)
    if isinstance(value, str) and index is None:
        return value
    if isinstance(value, tuple) and index is not None and int(index) < len(value):
        return value[int(index)]
    holds = "no value" if value is None else f"{len(value)} values" if isinstance(value, tuple) else "one value"
    msg = f"slot {slot} cannot be filled: {name!r} has {holds}"
    raise DatasetError(msg)


def _to_keyword(keyword: str, values: Mapping[str, Value]) -> Keyword:
    slots = [match[1] for match in SLOT.finditer(keyword)]
    text = _substitute(keyword, values)
    if not slots:
        return Keyword(text, "token")
    return Keyword(text, "name" if all(is_name(slot) for slot in slots) else "secret")


def to_messages(row: FilledRow, condition: Condition = "plain", *, flatten: bool = False) -> tuple[Message, ...]:
    """Return the messages to send: the system rule first, then the turns.

    Args:
        row: the filled row.
        condition: ``distraction`` puts an unrelated benign conversation between the rule and the test.
        flatten: write earlier turns into the system text, as the earlier public task did, and send the last one only.
    """
    system = [message for message in row.messages if message.role == "system"]
    turns = [message for message in row.messages if message.role != "system"]
    if condition == "distraction":
        turns = [*load_distraction(), *turns]
    if not flatten:
        return (*system, *turns)
    earlier = [f"{message.role.capitalize()}: {message.content}" for message in turns[:-1]]
    text = "\n\n".join([message.content for message in system] + earlier)
    return (Message("system", text), *turns[-1:])


def load_distraction() -> tuple[Message, ...]:
    """Return the fixed distraction conversation, written for this purpose.

    Raises:
        DatasetError: the packaged file is not the one whose hash reports name.
    """
    data = files("evals.nessie").joinpath("distraction.json").read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != DISTRACTION_SHA256:
        msg = f"distraction.json has sha256 {found}, expected {DISTRACTION_SHA256}; reinstall the package"
        raise DatasetError(msg, drifted=True)
    return TypeAdapter(tuple[Message, ...]).validate_json(data, strict=True)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would send.

    Args:
        rows: rows.
        cases: cases.
        calls: model calls, rows × runs.
        suites: suite → rows.
        slots: slots that were filled, sorted.
    """

    rows: int
    cases: int
    calls: int
    suites: Mapping[str, int]
    slots: Sequence[str]


def check_rows(rows: Iterable[Template], *, seed: int, runs: int) -> DryRun:
    """Fill every row for every run without calling a model (N-11).

    Raises:
        DatasetError: a row that cannot be filled or has no keyword to decide by.
        ValueError: fewer than one run.
    """
    if runs < 1:
        msg = f"number of runs {runs!r} must be at least 1"
        raise ValueError(msg)
    listed = list(rows)
    for row in listed:
        if not (row.harmful_keywords if row.type == "harmful" else row.helpful_keywords):
            msg = f"row {row.id!r} of type {row.type} has no keyword to decide by"
            raise DatasetError(msg)
        for run in range(runs):
            fill(row, seed, run)
    suites = sorted({row.suite for row in listed})
    return DryRun(
        rows=len(listed),
        cases=len({(row.suite, row.case) for row in listed}),
        calls=len(listed) * runs,
        suites={suite: sum([row.suite == suite for row in listed]) for suite in suites},
        slots=sorted({name for row in listed for name in slot_names(row)}),
    )
