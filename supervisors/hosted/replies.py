"""Read the JSON of a service strictly: a member that is missing or of another type is never a default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from supervisors.errors import ReplyError
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Cause, unknown

Json = Mapping[str, object]

UNREADABLE = unknown(Cause.UNPARSABLE, detail="missing_verdict")
"""The decisive member is missing or of another type."""

MISSING_FIELD = unknown(Cause.UNPARSABLE, detail="missing_field")
"""A member beside the decisive one is missing or of another type."""


class Broken(ReplyError):
    """A reply that lacks what its service promises.

    Args:
        detail: code word of the verdict.
    """

    def __init__(self, detail: str = "missing_verdict") -> None:
        super().__init__("the reply of the hosted guard breaks its contract", detail=detail)


def to_object(value: object, detail: str = "missing_verdict") -> Json:
    """Return a JSON object.

    Raises:
        Broken: it is something else.
    """
    if not isinstance(value, Mapping):
        raise Broken(detail)
    return cast("Json", value)


def to_list(value: object, detail: str = "missing_field") -> Sequence[object]:
    """Return a JSON array.

    Raises:
        Broken: it is something else.
    """
    if not isinstance(value, list):
        raise Broken(detail)
    return cast("list[object]", value)


def to_objects(value: object, detail: str = "missing_field") -> Sequence[Json]:
    """Return an array of objects; an absent one is empty.

    Raises:
        Broken: it is something else.
    """
    return [to_object(entry, detail) for entry in to_list([] if value is None else value, detail)]


def to_bool(value: object) -> bool:
    """Return a JSON boolean, the decisive member of many services.

    Raises:
        Broken: it is missing or something else; ``0``, ``"false"`` and null are no "false".
    """
    if not isinstance(value, bool):
        raise Broken
    return value


def to_number(value: object, top: float = 1.0, detail: str = "missing_field") -> float:
    """Return a finite number in 0..top.

    Raises:
        Broken: it is missing, something else, or outside.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= top:
        raise Broken(detail)
    return float(value)


def to_text(value: object) -> str:
    """Return a string; anything else is an empty one."""
    return value if isinstance(value, str) else ""


def canonical(table: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the canonical ids of a service's names."""
    return load_taxonomies()[table].to_canonical(names)


def iterate_strings(value: object) -> Iterator[str]:
    """Yield every string of a JSON value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in cast("Json", value).values():
            yield from iterate_strings(member)
    elif isinstance(value, list):
        for entry in cast("list[object]", value):
            yield from iterate_strings(entry)
