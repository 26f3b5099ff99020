"""Tool definitions and schemas as canonical segments: text that the model reads, in a scope of its own. Pure."""

from __future__ import annotations

from typing import Final

from proxy.wire.names import SCHEMA
from proxy.wire.segments import SegmentList, all_keys, as_list, as_object, escape, is_word

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


def add_definitions(segments: SegmentList, value: object, path: str) -> None:
    """Add a list of tool definitions."""
    definitions = as_list(value)
    if definitions is None:
        add_definition(segments, value, path)
        return
    for index, definition in enumerate(definitions):
        add_definition(segments, definition, f"{path}/{index}")


def add_definition(segments: SegmentList, definition: object, path: str) -> None:
    """Add a tool definition or schema: names, descriptions, enums and keys are text the model reads.

    The keys are one segment at the definition's own path; there is no way to redact a key.
    """
    for leaf_path, text in _definition_texts(definition, path):
        segments.add(leaf_path, "tool_def", text)
    own = [key for key in all_keys(definition) if key not in SCHEMA]
    if own:
        segments.add(path, "tool_def", "\n".join(own))


def _definition_texts(value: object, path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    obj = as_object(value)
    if obj is not None:
        for key, child in obj.items():
            if not (key == "type" and is_word(child, _SCHEMA_TYPES)):
                found += _definition_texts(child, f"{path}/{escape(key)}")
    elif isinstance(value, str):
        found.append((path, value))
    else:
        for index, child in enumerate(as_list(value) or []):
            found += _definition_texts(child, f"{path}/{index}")
    return found
