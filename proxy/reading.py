"""From the text of a config file to its tree: JSON or YAML, no key twice, nothing executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from typing import Any, Final, cast

import yaml

from proxy.extent import MOST_VALUES, TOO_DEEP, TOO_MANY, BoundedLoader, check_extent
from supervisors.errors import ConfigError, why_no_yaml


def read_tree(text: str, name: str, holds: str = "at least 'upstreams'") -> dict[str, Any]:
    """Return the tree of a file, within the bounds of `proxy.extent`.

    Args:
        text: whole text.
        name: of the file, for errors.
        holds: what the mapping has, for whoever gave something else.

    Raises:
        ConfigError: it is no YAML, has a key twice, is too deep or too large, or holds no mapping.
    """
    try:
        tree = _read_text(text)
        check_extent(tree)
    except yaml.YAMLError as error:
        raise ConfigError(why_no_yaml(name, error)) from error
    except ConfigError as error:
        msg = f"{name}: {error}"
        raise ConfigError(msg) from error
    if not isinstance(tree, dict):
        msg = f"{name}: the file must hold a mapping with {holds}"
        raise ConfigError(msg)
    return cast("dict[str, Any]", tree)


def _read_text(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return _read_json(text)
        except json.JSONDecodeError:
            pass  # YAML may begin with a brace too
    found: object = _StrictLoader(text).get_single_data()
    return found


def _read_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeats)
    except RecursionError as error:
        raise ConfigError(TOO_DEEP) from error
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        msg = f"not valid: {error}"
        raise ConfigError(msg) from error


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, count in Counter([key for key, _ in pairs]).items() if count > 1)
        msg = f"not valid: the key {repeated!r} occurs twice"
        raise ConfigError(msg)
    return found


class _StrictLoader(BoundedLoader):
    """A safe loader that refuses duplicate keys, and scalars that are not what their tag says.

    A merge key (``<<``, https://yaml.org/type/merge.html) gives what the mapping does not have itself; of several
    mappings that it names, the first one with a key counts.
    """

    _merged = 0

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct the value of one node."""
        try:
            return cast("Any", super()).construct_object(node, deep)  # PyYAML has no types for it
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # PyYAML takes for granted that `!!int` stands before a number, and that every date is one.
            problem = f"the value is no {node.tag.rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error

    def merge_into(self, mapping: dict[Any, Any], node: yaml.Node) -> None:
        """Give a mapping the keys that it does not have from what its merge key names."""
        found: object = self.construct_object(node, deep=True)
        sources = cast("list[object]", found) if isinstance(found, list) else [found]
        for source in sources:
            if not isinstance(source, dict):
                problem = "a merge key (<<) takes a mapping, or a list of mappings"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
            given = cast("dict[object, object]", source)
            self._merged += len(given)
            if self._merged > MOST_VALUES:
                raise yaml.YAMLError(TOO_MANY)
            for key, value in given.items():
                mapping.setdefault(key, value)


_MERGE: Final = "tag:yaml.org,2002:merge"


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    construct: Any = cast("Any", loader).construct_object
    mapping: dict[Any, Any] = {}
    merges: list[yaml.Node] = []
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE and not merges:
            merges.append(value_node)
            continue
        key: Any = key_node.value if key_node.tag == _MERGE else construct(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
        if key in mapping or key_node.tag == _MERGE:
            problem = f"the key {key!r} occurs twice"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        mapping[key] = construct(value_node, deep=True)
    for merged in merges:
        loader.merge_into(mapping, merged)
    return mapping


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)
