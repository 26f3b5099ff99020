"""Text planted anywhere in a body, and the pointer to it: what the properties of every route family are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson

Path = tuple[str | int, ...]


def leaves(value: object, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every string leaf."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield from leaves(child, (*at, key))
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[object]", value)):
            yield from leaves(child, (*at, index))


def planted(value: Any, at: Path, text: str) -> Any:
    """Return a copy with another text at one path."""
    copy: Any = orjson.loads(orjson.dumps(value))
    holder = copy
    for part in at[:-1]:
        holder = holder[part]
    holder[at[-1]] = text
    return copy


def pointer(at: Path) -> str:
    """Return the JSON pointer of a path."""
    return "".join([f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in at])
