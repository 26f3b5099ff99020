"""Where a setting stands in its file: line and column, for the lines that say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from proxy.extent import BoundedLoader, read_bounded
from supervisors.errors import ConfigError

_SHORT: Final = ("input", "output")
"""Top-level stages of the short form; their settings carry the paths they would have without it."""


def name_file(file: object, lines: Iterable[str]) -> str:
    """Return lines about a config file, in its order, each as ``file:line:column: path: what is wrong``.

    A line that holds the name already stays as it is; without a name all do. The place is left out where it is not
    known: the file cannot be read or parsed any more, or holds nothing of the path.
    """
    name, lines = str(file or ""), list(lines)
    root = _compose(name) if name and not all(name in line for line in lines) else None
    marks = [(_mark(root, line), line) for line in lines]
    marks.sort(key=lambda found: (found[0].line, found[0].column) if found[0] is not None else (-1, -1))
    return "\n".join([line if name in line else f"{name}{_place(mark)}: {line}" for mark, line in marks])


def _compose(name: str) -> yaml.Node | None:
    try:
        text = read_bounded(Path(name))
        root: object = None if len(text) > _MOST_CHARS else BoundedLoader(text).get_single_node()
    except (ConfigError, yaml.YAMLError):
        return None
    return root if isinstance(root, yaml.Node) else None


_MOST_CHARS: Final = 256 * 1024
"""Of longer files no places are told: to find them takes as long as to read the file."""


def _mark(root: yaml.Node | None, line: str) -> yaml.Mark | None:
    path, colon, _ = line.partition(": ")
    return None if root is None or not colon or " " in path else locate(root, path)


def _place(mark: yaml.Mark | None) -> str:
    return f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""


def locate(root: yaml.Node, path: str) -> yaml.Mark | None:
    """Return where the setting of a dotted path begins, or the innermost of its parents that the file holds."""
    found = [_descend(root, written) for written in _spellings(path)]
    left, mark = min(found, key=lambda place: place[0])
    return mark if left < len(path) else None


def _spellings(path: str) -> list[str]:
    """Return a path as it may be written: the short form has the stages, and supervisors inside them, at the top."""
    short = [path.removeprefix("policies.default.")] if path.startswith("policies.default.") else []
    inline = [f"{stage}.{path}" for stage in _SHORT] if path.startswith("supervisors.") else []
    return [path, *short, *inline]


def _descend(root: yaml.Node, path: str) -> tuple[int, yaml.Mark | None]:
    """Return how many characters of the path the file does not hold, and where the rest begins."""
    node, rest, mark = root, path, None
    while rest:
        step = _step(node, rest)
        if step is None:
            break
        node, mark, rest = step
    return len(rest), mark


def _step(node: yaml.Node, rest: str) -> tuple[yaml.Node, yaml.Mark, str] | None:
    if isinstance(node, yaml.SequenceNode):
        index, _, left = rest.partition(".")
        if not index.isdecimal() or int(index) >= len(node.value):
            return None
        item: yaml.Node = node.value[int(index)]
        return item, item.start_mark, left
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
    # Names hold dots, as in gpt-4.1: the longest key that fits is the one meant.
    fitting = [pair for pair in pairs if _fits(pair[0], rest)]
    if not fitting:
        return None
    key, value = max(fitting, key=lambda pair: len(str(pair[0].value)))
    return value, key.start_mark, rest[len(str(key.value)) :].removeprefix(".")


def _fits(key: yaml.Node, rest: str) -> bool:
    word = str(key.value)
    return isinstance(key, yaml.ScalarNode) and (rest == word or rest.startswith(f"{word}."))
