"""The setting somebody probably meant: an option of the object that a misspelt one stands in, or of those around."""

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
    above: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    for part in parents:
        above.append((root, node))
        node, value = _descend(root, node, part), _child(value, part)
        use = (as_object(value) or {}).get("use")
        if isinstance(use, str) and parents[0] == "supervisors":
            root = node = _schema_of(use)
    known = _options(root, node)
    return _find_elsewhere(name, parents, [*above, (root, node)]) or did_you_mean(name, known)


def _find_elsewhere(
    name: str, parents: Sequence[str], places: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> str:
    """Return where an option of this very name belongs: one level below or beside, or further up."""
    for depth in range(len(parents), -1, -1):
        root, node = places[depth]
        here, options = list(parents[:depth]), _options(root, node)
        if depth < len(parents) and name in options:
            return f"; it belongs under {'.'.join(here)};" if here else "; it belongs at the top of the file;"
        for child in options if depth >= len(parents) - 1 else ():
            if name in _options(root, _descend(root, node, child)):
                return f"; it belongs under {'.'.join([*here, child])};"
    return ""


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


def _descend(root: Mapping[str, Any], node: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    for one in _variants(root, node):
        found = one.get("properties", {}).get(part) or one.get("items")
        found = found or one.get("additionalProperties")
        if isinstance(found, dict):
            return {"anyOf": [found]}
    return {}


def _options(root: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    return [name for one in _variants(root, node) for name in one.get("properties", {})]
