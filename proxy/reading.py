"""From the text of a config file to its tree: JSON or YAML, no key twice, nothing executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from typing import Any, cast

import yaml

from supervisors.errors import ConfigError


def read_tree(text: str, name: str) -> dict[str, Any]:
    """Return the tree of a file.

    Args:
        text: whole text.
        name: of the file, for errors.

    Raises:
        ConfigError: it is no YAML, has a key twice, or holds no mapping.
    """
    tree = _read_text(text, name)
    if not isinstance(tree, dict):
        msg = f"{name}: the file must hold a mapping with at least 'upstreams'"
        raise ConfigError(msg)
    return cast("dict[str, Any]", tree)


def _read_text(text: str, name: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            parsed: object = json.loads(text, object_pairs_hook=_refuse_repeats)
        except json.JSONDecodeError:
            pass  # YAML may begin with a brace too
        except ConfigError as error:
            msg = f"{name}: {error}"
            raise ConfigError(msg) from error
        else:
            return parsed
    try:
        loader = _StrictLoader(text)
        loader.name = name  # what its errors call the file
        found: object = loader.get_single_data()
    except yaml.YAMLError as error:
        said = " ".join(str(error).split()).replace("<unicode string>", name)
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        msg = f"{name}: not valid YAML{where}: {said}"
        raise ConfigError(msg) from error
    return found


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, count in Counter([key for key, _ in pairs]).items() if count > 1)
        msg = f"not valid: the key {repeated!r} occurs twice"
        raise ConfigError(msg)
    return found


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    construct: Any = cast("Any", loader).construct_object  # PyYAML has no types for it
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key: Any = construct(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
        if key in mapping:
            problem = f"the key {key!r} occurs twice"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        mapping[key] = construct(value_node, deep=True)
    return mapping


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)
