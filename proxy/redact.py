"""Apply redactions to a wire body: spans merged per path, longest wins, JSON arguments stay valid (guarding §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from supervisors.types import Span


class RedactionImpossible(ValueError):
    """The text cannot be redacted without breaking what it stands in; the content is blocked instead."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One merged span of a text and what stands in its place."""

    start: int
    end: int
    category: str

    @property
    def placeholder(self) -> str:
        """Return the text that replaces the span."""
        return f"[REDACTED:{self.category}]"


def merge_spans(spans: Iterable[Span]) -> dict[str, list[Mark]]:
    """Merge overlapping and touching spans per path; the first in config order names the category (G-35)."""
    by_path: dict[str, list[Span]] = {}
    for span in spans:
        by_path.setdefault(span.path, []).append(span)
    return {path: _merge(found) for path, found in by_path.items()}


def _merge(spans: Sequence[Span]) -> list[Mark]:
    marks: list[Mark] = []
    order = {id(span): position for position, span in enumerate(spans)}
    owner: list[int] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if marks and span.start <= marks[-1].end:
            last = marks[-1]
            first = order[id(span)] < owner[-1]
            owner[-1] = min(owner[-1], order[id(span)])
            category = span.category if first else last.category
            marks[-1] = Mark(last.start, max(last.end, span.end), category)
        else:
            marks.append(Mark(span.start, span.end, span.category))
            owner.append(order[id(span)])
    return marks


def mask(text: str, marks: Sequence[Mark]) -> str:
    """Return the text with every mark replaced; marks are disjoint and ascending."""
    parts: list[str] = []
    position = 0
    for mark in marks:
        parts += [text[position : mark.start], mark.placeholder]
        position = mark.end
    parts.append(text[position:])
    return "".join(parts)


def redact_body(body: dict[str, Any], spans: Iterable[Span]) -> None:
    """Replace the spans in the body, in place.

    Raises:
        RedactionImpossible: a path does not lead to a string, or JSON arguments would break or lose a key.
    """
    for path, marks in merge_spans(spans).items():
        pointer, _, inner = path.partition("#")
        holder, key = _find(body, pointer)
        text = holder[key]
        if not isinstance(text, str):
            msg = f"no text at {pointer}"
            raise RedactionImpossible(msg)
        if inner:
            holder[key] = _mask_inside(text, inner, marks)
        elif pointer != "/input" and pointer.endswith(("/arguments", "/input")):
            holder[key] = mask_arguments(text, marks)
        else:
            holder[key] = mask(text, marks)


def _find(body: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    holder: Any = body
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    if not tokens:
        msg = "an empty path"
        raise RedactionImpossible(msg)
    try:
        for token in tokens[:-1]:
            holder = holder[_key(holder, token)]
        key = _key(holder, tokens[-1])
        _ = holder[key]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        msg = f"no text at {pointer}"
        raise RedactionImpossible(msg) from error
    return holder, key


def _key(holder: Any, token: str) -> Any:
    return int(token) if isinstance(holder, list) else token


def _mask_inside(text: str, inner: str, marks: Sequence[Mark]) -> str:
    arguments = _parse(text)
    holder, key = _find({"": arguments}, f"/{inner}")
    leaf = holder[key]
    if not isinstance(leaf, str):
        msg = "a span inside arguments points at no string"
        raise RedactionImpossible(msg)
    holder[key] = mask(leaf, marks)
    return orjson.dumps(arguments).decode()


def mask_arguments(text: str, marks: Sequence[Mark]) -> str:
    """Mask spans in the JSON text of arguments; keys and non-strings must survive (G-37)."""
    before = _parse(text)
    masked = mask(text, marks)
    if _skeleton(_parse(masked)) != _skeleton(before):
        msg = "a span touches a key or a value that is no string"
        raise RedactionImpossible(msg)
    return masked


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        msg = "the arguments are not valid JSON, or would not be after the redaction"
        raise RedactionImpossible(msg) from error


def _skeleton(value: object) -> object:
    """Return the value with every string replaced by one word: what a redaction must not change."""
    if isinstance(value, str):
        return ""
    if isinstance(value, dict):
        return {key: _skeleton(child) for key, child in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [_skeleton(child) for child in cast("list[object]", value)]
    return value
