"""The setting somebody probably meant: known options of the object that a misspelt one stands in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.wire.segments import as_list, as_object
from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean
from supervisors.plugins import find_plugins, load_kind


def suggest(path: str, tree: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return ``; did you mean …?``, or nothing.

    Args:
        path: dotted path of the unknown setting.
        tree: the file, resolved.
        schema: JSON Schema of the whole config.
    """
    *parents, name = path.split(".")
    root: Mapping[str, Any] = schema
    node: Mapping[str, Any] = schema
    value: Any = tree
    for part in parents:
        node, value = _descend(root, node, part, value), _child(value, part)
        use = (as_object(value) or {}).get("use")
        if isinstance(use, str) and parents[0] == "supervisors":
            root = node = _schema_of(use)
    return did_you_mean(name, _options(root, node, value))


def _schema_of(use: str) -> Mapping[str, Any]:
    point = find_plugins().get(use)
    try:
        kind: Any = load_kind(point) if point is not None else None
    except ConfigError:
        return {}
    return kind.model_json_schema() if hasattr(kind, "model_json_schema") else {}


def _child(value: Any, part: str) -> Any:
    items = as_list(value)
    if items is not None:
        return items[int(part)] if part.isdigit() and int(part) < len(items) else None
    return (as_object(value) or {}).get(part)


def _variants(root: Mapping[str, Any], node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the schemas a node stands for: itself, what it refers to, each of its alternatives."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        node = root.get("$defs", {}).get(reference.rpartition("/")[2], {})
    inner = [one for word in ("anyOf", "oneOf", "allOf") for one in node.get(word, ())]
    return [node, *[found for one in inner for found in _variants(root, one)]]


def _descend(root: Mapping[str, Any], node: Mapping[str, Any], part: str, value: Any) -> Mapping[str, Any]:
    for one in _variants(root, node):
        found = one.get("properties", {}).get(part) or one.get("items")
        found = found or one.get("additionalProperties")
        if isinstance(found, dict):
            return {"anyOf": [found]}
    return {}


def _options(root: Mapping[str, Any], node: Mapping[str, Any], value: Any) -> list[str]:
    return [name for one in _variants(root, node) for name in one.get("properties", {})]
