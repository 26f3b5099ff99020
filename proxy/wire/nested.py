"""Texts in lists of parts, however deep: which members hold running text that a reader joins, and what else is there.

Some servers give a text as parts, and parts of parts: ``thinking: [{"type": "text", "text": …}]``. What such members
say is of one kind and is read as one text; their types, ids and whatever else stands between the texts is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

from supervisors.types import Kind

At = tuple[str | int, ...]

TEXTS: Final[Mapping[str, Kind | None]] = {
    "text": None,
    "content": None,
    "value": None,
    "output_text": None,
    "input_text": None,
    "parts": None,
    "blocks": None,
    "items": None,
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_content": "reasoning",
    "reasoning_text": "reasoning",
    "summary": "reasoning",
    "summary_text": "reasoning",
    "thinking_blocks": "reasoning",
    "refusal": "refusal",
}
"""Members that hold running text, and its kind; None keeps the kind of what they stand in."""

RUNNING: Final[frozenset[Kind]] = frozenset({"text", "reasoning", "refusal"})
"""Kinds of text that a model says."""
PARTED: Final[frozenset[Kind]] = frozenset(
    {"text", "reasoning", "refusal", "prediction", "suffix", "transcript", "tool_result"}
)
"""Kinds of text that may be given as parts."""

_TYPES: Final = frozenset(
    {
        *("text", "input_text", "output_text", "refusal", "thinking", "reasoning", "summary_text", "reasoning_text"),
        *("reasoning.text", "reasoning.summary", "summary"),
    }
)


class Leaf(NamedTuple):
    """One member of a tree of parts.

    Args:
        at: keys that lead to it.
        path: the same as in a pointer, with the number that a part gives itself in place of where it stands.
        ids: the same with the id of a part, where it has one.
        kind: of the text it is; None: no running text but any value, under the name that `at` ends with.
        value: a text that is not empty, or any value.
        numbered: a part that it stands in has a number or an id of its own.
    """

    at: At
    path: tuple[str, ...]
    ids: tuple[str, ...]
    kind: Kind | None
    value: object
    numbered: bool


def kind_in(key: str, kind: Kind, part: Mapping[str, object] | None = None) -> Kind | None:
    """Return what the text of a member is that stands in a text of this kind; None if it is no running text.

    Args:
        key: the member's.
        kind: what the text is.
        part: that the member stands in: one that is named like the part's type holds its text.
    """
    if key in TEXTS:
        return TEXTS[key] or kind
    return kind if part is not None and part.get("type") == key and isinstance(part.get(key), str) else None


def walk_parts(value: object, kind: Kind) -> Iterator[Leaf]:
    """Yield the texts of a part or a list of parts, and every other member, in order.

    Args:
        value: what stands where a text may.
        kind: what text there is.
    """
    return _walk(value, kind, Leaf((), (), (), kind, None, numbered=False))


def _walk(value: object, kind: Kind, where: Leaf) -> Iterator[Leaf]:
    if isinstance(value, str):
        if value:
            yield where._replace(kind=kind, value=value)
    elif isinstance(value, dict):
        yield from _walk_part(cast("dict[str, object]", value), kind, where)
    elif isinstance(value, list):
        for position, child in enumerate(cast("list[object]", value)):
            names = name_entry(child, position)
            numbered = names.numbered or where.numbered
            path, ids = (*where.path, names.by_number), (*where.ids, names.by_id)
            yield from _walk(
                child, kind, where._replace(at=(*where.at, position), path=path, ids=ids, numbered=numbered)
            )


class Names(NamedTuple):
    """What an entry of a list is called in a stream, by whoever tells entries apart by number, or by id.

    Args:
        by_number: the number that it gives itself, of whatever type, or where it stands.
        by_id: its id, or the same.
        numbered: it has a number or an id.
    """

    by_number: str
    by_id: str
    numbered: bool


def name_entry(entry: object, position: int) -> Names:
    """Return the names of an entry at this position."""
    members = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    number, own = write_number(members.get("index")), members.get("id")
    index = f"{position}~" if number is None else number
    name = index if own is None or own == "" else f"{own}~id"
    return Names(index, name, number is not None or name != index)


def write_number(value: object) -> str | None:
    """Return the number of an entry as most clients would use it for a key: 0, 0.0 and "0" are one."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def _walk_part(part: Mapping[str, object], kind: Kind, where: Leaf) -> Iterator[Leaf]:
    for key, child in part.items():
        if key == "type" and isinstance(child, str) and child in _TYPES:
            continue
        inside = where._replace(at=(*where.at, key), path=(*where.path, key), ids=(*where.ids, key))
        found = kind_in(key, kind, part)
        if found is None:
            yield inside._replace(kind=None, value=child)
        else:
            yield from _walk(child, found, inside)
