"""What a config file may be at most: its bytes, how deep it nests, how many values it comes to, and of which kinds.

A file within these bounds is read in bounded time and memory; nobody's config comes near them.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Generator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast

import yaml

from supervisors.errors import ConfigError, GuardrailError

log = logging.getLogger(__name__)

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_DEPTH: Final = 48
"""Lists and mappings inside one another; composites, the deepest part of a config, take three levels each."""
MOST_VALUES: Final = 100_000
"""Keys, values, lists and mappings, those that an alias repeats counted as often as it does."""
TOO_MANY: Final = f"the file comes to more than {MOST_VALUES:,} values, those that its aliases repeat included"
_MOST_INTEGER: Final = 2**63
TOO_DEEP: Final = f"lists and mappings nest more than {MOST_DEPTH} deep"


@contextmanager
def refusing(file: object) -> Generator[None]:
    """Make a config error of whatever the check of a file trips over: a file may be odd in ways nobody thought of.

    Args:
        file: name of what is checked in the body of the `with`.

    Raises:
        ConfigError: the body's own, or in the place of any other exception.
    """
    try:
        yield
    except GuardrailError:
        raise
    except Exception as error:
        log.warning("the check of a config failed", exc_info=True, extra={"file": str(file)})
        msg = f"{file} cannot be checked, which is a bug ({type(error).__name__}: {str(error)[:_LONGEST_PATH]})"
        raise ConfigError(" ".join(msg.split())) from error


def read_bounded(path: Path) -> str:
    """Return the text of a config file.

    Raises:
        ConfigError: it cannot be read, is larger than `MOST_BYTES`, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a path may hold what no path can
        msg = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(msg) from error
    if len(raw) > MOST_BYTES:
        msg = f"{path} is larger than {MOST_BYTES // 1024 // 1024} MiB, which no config needs"
        raise ConfigError(msg)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8: byte {error.start} cannot be read"
        raise ConfigError(msg) from error


def is_regular(path: Path) -> bool:
    """Say whether a path leads to a regular file, which can be read again and never makes its reader wait."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


class BoundedLoader(yaml.SafeLoader):
    """A safe loader that refuses what nests too deep before it goes down there itself."""

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node."""
        self._depth += 1
        self._nodes += 1
        if self._nodes > MOST_VALUES:
            raise yaml.YAMLError(TOO_MANY)
        if self._depth > MOST_DEPTH + 1:  # what a list or mapping holds is one level further down
            here: Any = cast("Any", self).peek_event()  # PyYAML has no types for it
            raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=here.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def check_extent(tree: object) -> None:
    """Refuse a tree that is too deep or too large once every alias in it is followed, and values no setting takes.

    Raises:
        ConfigError: with the path of the place.
    """
    left = MOST_VALUES
    waiting: list[tuple[_Place | None, int, object]] = [(None, 0, tree)]
    while waiting:
        place, depth, value = waiting.pop()
        problem = TOO_DEEP if depth > MOST_DEPTH else _problem_of(value)
        if problem is not None:
            raise ConfigError(problem, _path_of(place))
        parts = _parts_of(value)
        left -= 1 + len(parts)
        if left < 0:
            raise ConfigError(TOO_MANY)
        waiting += [((place, key), depth + 1, part) for key, part in parts]


_Place = tuple[Any, object]
"""Where a value stands: the place of what holds it, and its key there."""


def _path_of(place: _Place | None) -> str:
    keys: list[str] = []
    while place is not None:
        place, key = place
        keys.append(str(key))
    path = ".".join(reversed(keys))
    return path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"


def _parts_of(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return list(cast("dict[object, object]", value).items())
    return list(enumerate(cast("list[object]", value))) if isinstance(value, list) else []


def _problem_of(value: object) -> str | None:
    match value:
        case None | bool() | list():
            return None
        case dict():
            return next(filter(None, map(_problem_of_key, cast("dict[object, object]", value))), None)
        case float():
            return None if isfinite(value) else f"{value} is no number to work with"
        case int():
            return None if -_MOST_INTEGER <= value < _MOST_INTEGER else "the number is too large"
        case str():
            return _problem_of_text(value)
        case _:
            return f"a {type(value).__name__} is no setting; put it in quotes if it is a text"


def _problem_of_key(key: object) -> str | None:
    if not isinstance(key, str):
        return f"a key is a {type(key).__name__}, must be a word; put it in quotes if it is one"
    if len(key) > _LONGEST_KEY:
        return f"the key {key[:20]}… has {len(key)} characters, at most {_LONGEST_KEY} are read"
    return _problem_of_text(key)


def _problem_of_text(text: str) -> str | None:
    if text.isascii():
        return "the text holds a character with the code 0" if "\0" in text else None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text holds half of a surrogate pair"
    return "the text holds a character with the code 0" if "\0" in text else None


_LONGEST_PATH: Final = 200
_LONGEST_KEY: Final = 256
