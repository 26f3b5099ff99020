"""Tool definitions and schemas as canonical segments: text that the model reads, in a scope of its own. Pure."""

from __future__ import annotations

from typing import Final

from proxy.wire.segments import SegmentList, as_list, as_object, escape

_SCHEMA_TYPES: Final = frozenset(
    {
        "function",
        "custom",
        "json_schema",
        "json_object",
        "text",
        "object",
        "array",
        "string",
        "number",
        "integer",
        "boolean",
        "null",
    }
)


def add_definitions(segments: SegmentList, value: object, path: str, *, single: bool = False) -> None:
    """Add tool definitions and schemas: names, descriptions, enums and keys are text the model reads.

    Args:
        segments: where they go.
        value: a list of definitions, or one.
        path: JSON Pointer of `value`.
        single: `value` is one definition itself.
    """
    for index, definition in enumerate([value] if single else as_list(value) or [value]):
        at = path if single else f"{path}/{index}"
        for leaf_path, text in _definition_texts(definition, at):
            segments.add(leaf_path, "tool_def", text)


def _definition_texts(value: object, path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    obj = as_object(value)
    if obj is not None:
        for key, child in obj.items():
            if not (key == "type" and isinstance(child, str) and child in _SCHEMA_TYPES):
                found += _definition_texts(child, f"{path}/{escape(key)}")
    elif isinstance(value, str):
        found.append((path, value))
    else:
        for index, child in enumerate(as_list(value) or []):
            found += _definition_texts(child, f"{path}/{index}")
    return found
