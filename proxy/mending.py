"""A tree with stand-ins for what is wrong in it, so that the rest of a file can be checked too. Nothing serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from proxy.wire.segments import as_list, as_object
from supervisors.secret import PLAIN, Secret

STAND_IN: Final = {"use": "rules", "keywords": ["stand-in for a supervisor that is wrong"]}
_NAME: Final = "stand-in"
_SECRET: Final = Secret("stand-in", "a secret that nobody has, longer than any must be")
_ALONE: Final = frozenset({"use", "base_url", "vendor", "allow_link_local"})
"""Settings of an upstream that say what its others mean: with a wrong one nothing can be said about them."""
_ROUNDS: Final = 7
"""As deep as the tree of settings: each round takes what is still wrong one level further up."""
_REFERRED: Final = frozenset({"upstreams", "models", "keys", "supervisors", "policies"})
"""Sections that others name parts of: without one of them nothing can be said about the others."""

_LEADS: Final = {".attach.tags": "keys.", ".bypass": "bypass"}
"""Ends of paths whose findings hang on another part of the file, and where that is."""
Path = Sequence[str | int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mended(Generic[T]):
    """What could be made of a tree.

    Args:
        value: what the tree validates to.
        changed: dotted paths of the parts with stand-ins; what is found under them is not said of the file.
    """

    value: T
    changed: frozenset[str]

    def tells(self, path: str) -> bool:
        """Say whether a finding at a path is about what the file says, not about a stand-in."""
        if any(path.endswith(end) and one.startswith(start) for end, start in _LEADS.items() for one in self.changed):
            return False
        return not any(path == one or path.startswith(f"{one}.") for one in self.changed)


def named_supervisors(tree: dict[str, Any]) -> Iterator[tuple[str, str, Sequence[object]]]:
    """Yield each policy, place in it, and the supervisors it names there, of a tree that may be wrong elsewhere."""
    for name, policy in (as_object(tree.get("policies")) or {}).items():
        for stage in ("input", "output"):
            settings = as_object((as_object(policy) or {}).get(stage)) or {}
            for how in ("forced", "optional"):
                yield name, f"{stage}.{how}", as_list(settings.get(how)) or ()


def mend(tree: dict[str, Any], changed: Iterable[str], validate: Callable[[Any], T]) -> Mended[T] | None:
    """Return what the tree validates to once everything wrong in it has a stand-in, or None.

    Args:
        tree: secrets resolved; it is not changed.
        changed: paths where something has a stand-in already.
        validate: raises `ValidationError`.
    """
    copy = as_object(_copy(tree)) or {}
    paths = {*changed, *_define_names(copy)}
    for _ in range(_ROUNDS):
        try:
            return Mended(validate(copy), frozenset(paths))
        except ValidationError as error:
            plain, wrong = _sort(error)
        if plain:
            paths |= {_put_secret(copy, path) for path in plain}
            continue
        if any(not path or (len(path) == 1 and path[0] in _REFERRED) for path in wrong):
            return None
        for path in sorted(wrong, key=str, reverse=True):  # of a list, the last item first
            paths.add(_replace(copy, path))
    return None


def _sort(error: ValidationError) -> tuple[list[Path], list[Path]]:
    """Return where secrets stand as plain text, and what else is wrong."""
    plain: list[Path] = []
    wrong: list[Path] = []
    for problem in error.errors(include_url=False):
        path, nested = _without_kind(problem["loc"]), problem.get("ctx", {}).get("nested")
        if isinstance(nested, ValidationError):
            secrets, others = _sort(nested)
            plain += [[*path, *inner] for inner in secrets]
            wrong += [path] * bool(others)
        else:
            (plain if problem["msg"].endswith(PLAIN) else wrong).append(path)
    return plain, wrong


def _put_secret(tree: dict[str, Any], path: Path) -> str:
    node: Any = tree
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = _SECRET
    return ".".join(map(str, path))


def _copy(value: Any) -> Any:
    items, mapping = as_list(value), as_object(value)
    if items is not None:
        return [_copy(item) for item in items]
    return value if mapping is None else {key: _copy(item) for key, item in mapping.items()}


def _define_names(tree: dict[str, Any]) -> Iterator[str]:
    """Let every name lead somewhere, yielding the paths of those that did not."""
    supervisors = as_object(tree.setdefault("supervisors", {}))
    if supervisors is None:
        return
    named = {str(one) for _, _, names in named_supervisors(tree) for one in names} | {_NAME}
    tree["supervisors"] = {**dict.fromkeys(sorted(named), STAND_IN), **supervisors}
    for section in ("caches", "places"):
        entries = as_object(tree.get(section))
        if entries is not None:
            tree[section] = {name: entry for name, entry in entries.items() if name in supervisors}
    upstreams = as_object(tree.get("upstreams"))
    for name, model in (as_object(tree.get("models")) or {}).items():
        settings = as_object(model)
        if upstreams and settings is not None and settings.get("upstream") not in list(upstreams):  # it may be a list
            settings["upstream"] = next(iter(upstreams))
            yield f"models.{name}"


def _without_kind(path: Path) -> Path:
    """Return the path as it is in the file: the kind of an upstream stands only in the path of its errors."""
    return [*path[:2], *path[3:]] if path[0:1] == ("upstreams",) and path[2:3] in (("http",), ("local",)) else path


def _replace(tree: dict[str, Any], path: Path) -> str:
    """Take out what a path leads to, or put a stand-in there; returns the path of what says nothing from now on."""
    section = str(path[0])
    entries = as_object(tree.get(section))
    if len(path) == 1 or entries is None:
        tree.pop(section, None)
        return section
    name, deepest = str(path[1]), _deepest(tree, path)
    if len(deepest) == 1 and section not in _REFERRED:  # what the section needs is not there
        del tree[section]
        return section
    alone = section == "upstreams" and (len(deepest) < 3 or deepest[2] in _ALONE)
    if section == "supervisors" or alone or len(deepest) <= 2:
        _stand_in(tree, entries, section, name)
        return f"{section}.{name}"
    _take_out(tree, deepest)
    said = deepest[:4] if "stream" in deepest else deepest
    return ".".join(map(str, said))


def _stand_in(tree: dict[str, Any], entries: dict[str, Any], section: str, name: str) -> None:
    match section:
        case "supervisors":
            entries[name] = STAND_IN
        case "upstreams":
            entries[name] = {"use": "http", "base_url": "http://127.0.0.1:9/v1"}
        case "models":
            entries[name] = {"upstream": next(iter(as_object(tree.get("upstreams")) or {"": None}))}
        case "keys":
            entries[name] = {"sha256": sha256(name.encode()).hexdigest()}
        case "policies":
            stage = {"forced": [_NAME]}
            entries[name] = {"input": stage, "output": stage}
        case _:
            entries.pop(name, None)


def _deepest(tree: dict[str, Any], path: Path) -> Path:
    """Return as much of a path as there is in the tree."""
    node: Any = tree
    for depth, part in enumerate(path):
        items, mapping = as_list(node), as_object(node)
        if items is not None and isinstance(part, int) and part < len(items):
            node = items[part]
        elif mapping is not None and part in mapping:
            node = mapping[str(part)]
        else:
            return path[:depth]
    return path


def _take_out(tree: dict[str, Any], path: Path) -> None:
    node: Any = tree
    for part in path[:-1]:
        node = node[part]
    if path[-1] == "forced":
        node["forced"] = [_NAME]
    elif path[0] == "policies" and path[-1] in ("input", "output"):
        node[path[-1]] = {"forced": [_NAME]}
    else:
        del node[path[-1]]
