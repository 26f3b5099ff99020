"""Apply redactions to a wire body: spans merged per path, longest wins, JSON arguments stay valid (guarding §8)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from proxy.wire.body import is_too_deep, load_exactly
from proxy.wire.segments import as_list, unescape
from supervisors.types import Span

_CONTENTS: Final = ("/content", "/text")
"""Ends of the pointers where the families keep what a caller may parse as JSON."""


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


def redact_body(
    body: dict[str, Any], spans: Iterable[Span], *, json_content: bool = False, strip_signed: bool = False
) -> None:
    """Replace the spans in the body, in place.

    Args:
        body: request or reply.
        spans: what to replace.
        json_content: the caller will parse the content of messages as JSON, so it must stay JSON (G-37).
        strip_signed: remove a block whose signature covers a text to be redacted (W-32).

    Raises:
        RedactionImpossible: a path does not lead to a string, the text is signed, or JSON arguments would break or
            lose a key.
    """
    texts: dict[str, dict[str, list[Mark]]] = {}
    for path, marks in merge_spans(spans).items():
        pointer, _, inner = path.partition("#")
        texts.setdefault(pointer, {})[inner] = marks
    signed: list[str] = []
    for pointer, found in texts.items():
        holder, key = _find(body, pointer)
        value = holder[key]
        if isinstance(holder, dict) and "signature" in holder:
            signed.append(pointer)
        elif pointer.endswith("/input") and isinstance(value, dict | list):
            # Anthropic's tool input is an object; it was judged as its JSON text.
            text = orjson.dumps(value).decode()
            holder[key] = load_exactly(_mask_text(text, found, is_json=True))
        elif isinstance(value, str):
            in_json = json_content and pointer.endswith(_CONTENTS) and _is_json(value)
            holder[key] = _mask_text(value, found, is_json=in_json or pointer.endswith("/arguments"))
        else:
            msg = f"no text at {pointer}"
            raise RedactionImpossible(msg)
    _strip(body, signed, allowed=strip_signed)


def marks_at(marks: Mapping[str, Sequence[Mark]], pointer: str) -> dict[str, Sequence[Mark]]:
    """Return the marks of the text at a pointer, and of the strings inside it by their own pointers."""
    found: dict[str, Sequence[Mark]] = {}
    for path, own in marks.items():
        before, _, inner = path.partition("#")
        if before == pointer:
            found[inner] = own
    return found


def mask_json(text: str, found: Mapping[str, Sequence[Mark]]) -> str:
    """Return a JSON text with marks in it, and in the decoded strings inside it, applied.

    Raises:
        RedactionImpossible: it is no JSON, or a key or a value that is no string would change.
    """
    return _mask_text(text, found, is_json=True)


def _mask_text(text: str, found: Mapping[str, Sequence[Mark]], *, is_json: bool) -> str:
    strings = {path: marks for path, marks in found.items() if path}
    if strings:
        return _mask_inside(text, found.get("", []), strings)
    return mask_arguments(text, found[""]) if is_json else mask(text, found[""])


def _strip(body: dict[str, Any], pointers: Sequence[str], *, allowed: bool) -> None:
    """Remove the signed blocks that hold these texts from their lists."""
    blocks: list[tuple[list[Any], Any]] = []
    for pointer in pointers:
        holder, place = _find(body, pointer.rpartition("/")[0])
        siblings = as_list(holder)
        if not allowed or siblings is None:
            msg = f"a signature covers the text at {pointer}"
            raise RedactionImpossible(msg)
        blocks.append((siblings, siblings[place]))
    for siblings, block in blocks:
        siblings[:] = [other for other in siblings if other is not block]


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _find(body: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    holder: Any = body
    tokens = [unescape(token) for token in pointer.split("/")[1:]]
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
    if not isinstance(holder, list):
        return token
    if not token.isdecimal():
        raise KeyError(token)
    return int(token)


def _mask_inside(text: str, marks: Sequence[Mark], inner: Mapping[str, Sequence[Mark]]) -> str:
    """Mask a JSON text and, by their own offsets, the decoded strings in it that hide an escape.

    A string masked by its own offsets must not keep anything that was marked in the JSON text.
    """
    before: dict[str, Any] = {"": _parse(text)}
    after: dict[str, Any] = {"": _parse_exactly(mask_arguments(text, marks))}
    marked = [_decode(text[mark.start : mark.end]) for mark in marks]
    for path, own in inner.items():
        holder, key = _find(before, f"/{path}")
        leaf: object = holder[key]
        if not isinstance(leaf, str):
            msg = "a span inside arguments points at no string"
            raise RedactionImpossible(msg)
        masked = mask(leaf, own)
        if any(piece in masked for piece in marked):
            msg = "a span of the JSON text is not covered by those of the string it stands in"
            raise RedactionImpossible(msg)
        holder, key = _find(after, f"/{path}")
        holder[key] = masked
    return _write_exactly(after[""])


def _decode(piece: str) -> str:
    """Return part of a JSON string as the reader sees it; a part that is cut within an escape stays as it is."""
    try:
        return str(orjson.loads(f'"{piece}"'))
    except orjson.JSONDecodeError:
        return piece


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
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        msg = "the arguments are not valid JSON, or would not be after the redaction"
        raise RedactionImpossible(msg) from error
    if is_too_deep(text, value):
        msg = "the arguments are nested too deeply to be written again"
        raise RedactionImpossible(msg)
    return value


def _parse_exactly(text: str) -> Any:
    """Return the value of a text that `_parse` takes, with integers of any size."""
    try:
        return json.loads(text)
    except ValueError as error:  # an integer of thousands of digits
        msg = "a number in the arguments is too long to be written again"
        raise RedactionImpossible(msg) from error


def _write_exactly(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        msg = "a number in the arguments is too large to be written again"
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
