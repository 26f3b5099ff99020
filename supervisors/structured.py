"""Structured output: the schema of a verdict, and the form of it that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Structured = Literal["json_schema", "json_object", "none"]


def reply_schema(words: Sequence[str], categories: Sequence[str], *, needs_score: bool) -> dict[str, Any]:
    """Return the JSON schema of a reply.

    Every member is required and the optional ones may be null, because strict modes know no optional members. The
    nonce is a plain string: a constant would make every call a new grammar, and prove nothing.
    """
    category: dict[str, Any] = {"type": "string"}
    if categories:
        category["enum"] = list(categories)
    properties: dict[str, Any] = {
        "nonce": {"type": "string"},
        "reason": {"type": "string"},
        "categories": {"type": "array", "items": category},
        "score": {"type": "number"} if needs_score else {"type": ["number", "null"]},
        "label": {"type": "string", "enum": list(words)},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def to_response_format(mode: Structured, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the strongest form to ask for; `supervisors.chat` finds out which weaker one a server takes (LU-23)."""
    match mode:
        case "json_schema":
            return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}
        case "json_object":
            return {"type": "json_object"}
        case "none":
            return None
