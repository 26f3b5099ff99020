"""Written conveniences of the config file, expanded before validation: the short form, and members by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from proxy.mending import STAND_IN
from proxy.wire.segments import as_list, as_object
from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean
from supervisors.nesting import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Expanded:
    """What was done to a tree.

    Args:
        moved: each section and supervisor that an option was moved to.
        problems: one line for everything that could not be expanded; a stand-in or nothing is in its place.
        changed: paths of those places.
    """

    moved: frozenset[tuple[str, str]]
    problems: tuple[str, ...]
    changed: frozenset[str]


def expand(tree: dict[str, Any]) -> Expanded:
    """Expand everything in a tree, going on where something cannot be."""
    wrong: list[ConfigError] = []
    _expand_short_form(tree, wrong)
    moved = _move_options(tree, wrong)
    _inline_references(tree, wrong)
    places = frozenset(".".join(error.path.split(".")[:2]) for error in wrong)
    return Expanded(moved, tuple(map(str, wrong)), places)


def unfold(tree: dict[str, Any]) -> None:
    """Write the short form of a tree out, if it has that, and nothing else.

    Raises:
        ConfigError: it cannot be.
    """
    wrong: list[ConfigError] = []
    _expand_short_form(tree, wrong)
    for error in wrong:
        raise error


def _expand_short_form(tree: dict[str, Any], wrong: list[ConfigError]) -> None:
    """Turn top-level `input:` and `output:` into the policy `default`, everything in them forced."""
    stages = {stage: tree.pop(stage) for stage in ("input", "output") if stage in tree}
    if not stages:
        return
    policies = tree.setdefault("policies", {})
    if not isinstance(policies, dict) or "default" in policies:
        msg = "top-level 'input' and 'output' are the policy 'default'; do not give both"
        wrong.append(ConfigError(msg, "policies.default"))
        return
    on_block = tree.pop("on_block", None)
    default = {stage: _expand_stage(tree, stage, value, wrong) for stage, value in stages.items()}
    policies["default"] = default if on_block is None else {**default, "on_block": on_block}


def _expand_stage(tree: dict[str, Any], stage: str, value: Any, wrong: list[ConfigError]) -> Any:
    names = as_list(value)
    if names is not None:
        return {"forced": names}
    if not isinstance(value, dict) or "supervisors" not in value:
        return cast("Any", value)
    options = dict(cast("dict[str, Any]", value))
    inline = options.pop("supervisors")
    if not isinstance(inline, dict):
        msg = "'supervisors' maps names to supervisors"
        wrong.append(ConfigError(msg, f"{stage}.supervisors"))
        return options
    named = cast("dict[str, Any]", inline)
    shared = as_object(tree.setdefault("supervisors", {}))
    forced = as_list(options.get("forced", []))
    if shared is None or forced is None:
        return cast("Any", value)  # the schema says what is wrong with them
    for name, entry in named.items():
        if shared.setdefault(name, entry) != entry:
            msg = f"the name {name!r} stands for two different supervisors"
            wrong.append(ConfigError(msg, f"{stage}.supervisors.{name}"))
    options["forced"] = [*forced, *named]
    return options


MOVED: Mapping[str, str] = {"cache": "caches", "max_concurrency": "places"}
"""Options of an entry that the supervisor itself knows nothing of, and the sections they are moved to."""


def _move_options(tree: dict[str, Any], wrong: list[ConfigError]) -> frozenset[tuple[str, str]]:
    """Move options from the entries of `supervisors` to sections of their own, as `MOVED` says.

    Returns:
        Each section and supervisor that something was moved to.
    """
    moved: set[tuple[str, str]] = set()
    entries = as_object(tree.get("supervisors")) or {}
    for name, entry in entries.items():
        options = as_object(entry)
        for option in [] if options is None else [option for option in MOVED if option in options]:
            _move(tree, name, option, wrong)
            moved.add((MOVED[option], name))
        if options is not None:
            entries[name] = {key: value for key, value in options.items() if key not in MOVED}
    return frozenset(moved)


def _move(tree: dict[str, Any], name: str, option: str, wrong: list[ConfigError]) -> None:
    section = as_object(tree.setdefault(MOVED[option], {}))
    if section is None or name in section:
        msg = f"give {option!r} in the entry or under {MOVED[option]!r}, not both"
        wrong.append(ConfigError(msg, f"supervisors.{name}.{option}"))
        return
    section[name] = tree["supervisors"][name][option]


def _inline_references(tree: dict[str, Any], wrong: list[ConfigError]) -> None:
    """Replace members and steps given as the name of a top-level supervisor by that supervisor's entry.

    A name that is unknown, or leads a supervisor into itself, is a problem.
    """
    entries = as_object(tree.get("supervisors"))
    if entries is not None:
        inliner = _Inliner(entries, wrong, iter(range(_MOST_INLINED)))
        tree["supervisors"] = {
            name: inliner.inline(entry, (name,), f"supervisors.{name}") for name, entry in entries.items()
        }


_MOST_INLINED = 10_000
"""Members that are named instead of written out, everywhere in a file: each may have such members of its own."""
_MOST_HINTS = 100


@dataclass(frozen=True, slots=True)
class _Inliner:
    entries: Mapping[str, Any]
    wrong: list[ConfigError]
    budget: Iterator[int]

    def inline(self, entry: Any, seen: tuple[str, ...], path: str) -> Any:
        options = as_object(entry)
        if options is None:
            return entry
        inlined = dict(options)
        members = as_object(options.get("members"))
        if members is not None:
            inlined["members"] = {
                name: self._follow(member, seen, f"{path}.members.{name}") for name, member in members.items()
            }
        steps = as_list(options.get("steps"))
        if steps is not None:
            inlined["steps"] = [self._inline_step(step, seen, f"{path}.steps.{i}") for i, step in enumerate(steps)]
        return inlined

    def _inline_step(self, step: Any, seen: tuple[str, ...], path: str) -> Any:
        options = as_object(step)
        if options is None or "supervisor" not in options:
            return step
        return {**options, "supervisor": self._follow(options["supervisor"], seen, f"{path}.supervisor")}

    def _follow(self, member: Any, seen: tuple[str, ...], path: str) -> Any:
        if not isinstance(member, str):
            return self.inline(member, seen, path)
        if len(self.wrong) > _MOST_HINTS:
            msg = "not looked at any more"
        elif member in seen:
            msg = f"a supervisor cannot contain itself: {' > '.join((*seen, member))}"
        elif member not in self.entries:
            hint = did_you_mean(member, map(str, self.entries))
            msg = f"unknown supervisor {member!r}; known: {', '.join(sorted(map(str, self.entries)))}{hint}"
        elif len(seen) > MAX_DEPTH + 1:
            msg = f"composites nest deeper than {MAX_DEPTH}: {' > '.join((*seen, member))}"
        elif next(self.budget, None) is None:
            msg = f"the composites come to more than {_MOST_INLINED:,} members, those of members included"
        else:
            return self.inline(self.entries[member], (*seen, member), path)
        self.wrong.append(ConfigError(msg, path))
        return STAND_IN
