"""Turn results into JSON values; what is not a number becomes null, never NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from typing import TypeAlias, cast

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def to_json(value: object) -> Json:
    """Return `value` as plain JSON: dataclasses become objects, non-finite numbers null, dates ISO text.

    Raises:
        TypeError: a value that has no JSON form, naming its type.
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        # float() also turns numpy's float64, a subclass, into the plain type.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    return _container_to_json(value)


def _container_to_json(value: object) -> Json:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    # The casts say what isinstance cannot: the members may be anything, and are checked one by one.
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [to_json(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, set | frozenset):
        return [to_json(item) for item in sorted(cast("Set[object]", value), key=str)]
    msg = f"{type(value).__name__} has no JSON form; give dataclasses, mappings, sequences, text or numbers"
    raise TypeError(msg)
