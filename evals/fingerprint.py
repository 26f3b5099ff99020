"""A hash over configured objects that is the same in every process: sets are sorted, secrets stand by reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import cast

from pydantic import BaseModel

from evals.statistics.jsonable import Json
from supervisors.embedded.guard import EmbeddedGuard
from supervisors.secret import Secret
from supervisors.types import Supervisor

_PRINTS = ("prompt_sha256", "fingerprint")
"""Attributes by which a supervisor names the content of files it has read."""


def to_plain(value: object) -> Json:
    """Return a configured value as JSON; what has no JSON form stands as its text."""
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, Enum):
        return to_plain(value.value)
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, BaseModel):
        names = list(type(value).model_fields)
        return {
            "type": type(value).__name__,
            **{name: to_plain(getattr(value, name)) for name in names},
            **_prints(value),
        }
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **{one.name: to_plain(getattr(value, one.name)) for one in fields(value)}}
    return _collection(value)


def _collection(value: object) -> Json:
    # The casts say what isinstance cannot: the members may be anything.
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Set):
        return [*sorted([str(to_plain(item)) for item in cast("Set[object]", value)])]
    if isinstance(value, Sequence):
        return [to_plain(item) for item in cast("Sequence[object]", value)]
    return str(value)


def _prints(value: object) -> dict[str, Json]:
    found = {name: cast("object", getattr(value, name, None)) for name in _PRINTS}
    return {f"read:{name}": digest for name, digest in found.items() if isinstance(digest, str)}


def has_embedded(supervisors: Mapping[str, Supervisor]) -> bool:
    """Say whether the embedded guard is among the supervisors, on its own or inside a composite."""
    return any(_is_embedded(supervisor) for supervisor in supervisors.values())


def _is_embedded(supervisor: object) -> bool:
    if isinstance(supervisor, EmbeddedGuard):
        return True
    members: object = getattr(supervisor, "nested", None)
    return isinstance(members, Mapping) and any(_is_embedded(member) for member in list(members.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # names to supervisors
