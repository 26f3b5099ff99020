"""Written conveniences of the config file, expanded before validation: the short form, and members by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from proxy.wire.segments import as_list, as_object
from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean


def expand_short_form(tree: dict[str, Any]) -> None:
    """Turn top-level `input:` and `output:` into the policy `default`, everything in them forced."""
    stages = {stage: tree.pop(stage) for stage in ("input", "output") if stage in tree}
    if not stages:
        return
    policies = tree.setdefault("policies", {})
    if not isinstance(policies, dict) or "default" in policies:
        msg = "top-level 'input' and 'output' are the policy 'default'; do not give both"
        raise ConfigError(msg, "policies.default")
    on_block = tree.pop("on_block", None)
    default = {stage: _expand_stage(tree, stage, value) for stage, value in stages.items()}
    policies["default"] = default if on_block is None else {**default, "on_block": on_block}


def _expand_stage(tree: dict[str, Any], stage: str, value: Any) -> Any:
    names = as_list(value)
    if names is not None:
        return {"forced": names}
    if not isinstance(value, dict) or "supervisors" not in value:
        return cast("Any", value)
    options = dict(cast("dict[str, Any]", value))
    inline = options.pop("supervisors")
    if not isinstance(inline, dict):
        msg = "'supervisors' maps names to supervisors"
        raise ConfigError(msg, f"{stage}.supervisors")
    named = cast("dict[str, Any]", inline)
    shared = as_object(tree.setdefault("supervisors", {}))
    forced = as_list(options.get("forced", []))
    if shared is None or forced is None:
        return cast("Any", value)  # the schema says what is wrong with them
    for name, entry in named.items():
        if shared.setdefault(name, entry) != entry:
            msg = f"the name {name!r} stands for two different supervisors"
            raise ConfigError(msg, f"{stage}.supervisors.{name}")
    options["forced"] = [*forced, *named]
    return options


MOVED: Mapping[str, str] = {"cache": "caches", "max_concurrency": "places"}
"""Options of an entry that the supervisor itself knows nothing of, and the sections they are moved to."""


def move_options(tree: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """Move options from the entries of `supervisors` to sections of their own, as `MOVED` says.

    Returns:
        Each section and supervisor that something was moved to.
    """
    moved: set[tuple[str, str]] = set()
    entries = as_object(tree.get("supervisors")) or {}
    for name, entry in entries.items():
        options = as_object(entry)
        for option in [] if options is None else [option for option in MOVED if option in options]:
            _move(tree, name, option, (options or {})[option])
            moved.add((MOVED[option], name))
        if options is not None:
            entries[name] = {key: value for key, value in options.items() if key not in MOVED}
    return frozenset(moved)


def _move(tree: dict[str, Any], name: str, option: str, value: Any) -> None:
    section = as_object(tree.setdefault(MOVED[option], {}))
    if section is None or name in section:
        msg = f"give {option!r} in the entry or under {MOVED[option]!r}, not both"
        raise ConfigError(msg, f"supervisors.{name}.{option}")
    section[name] = value


def inline_references(tree: dict[str, Any]) -> None:
    """Replace members and steps given as the name of a top-level supervisor by that supervisor's entry.

    Raises:
        ConfigError: the name is unknown, or a supervisor contains itself.
    """
    entries = as_object(tree.get("supervisors"))
    if entries is not None:
        tree["supervisors"] = {
            name: _inline(entry, entries, (name,), f"supervisors.{name}") for name, entry in entries.items()
        }


def _inline(entry: Any, entries: Mapping[str, Any], seen: tuple[str, ...], path: str) -> Any:
    options = as_object(entry)
    if options is None:
        return entry
    inlined = dict(options)
    members = as_object(options.get("members"))
    if members is not None:
        inlined["members"] = {
            name: _follow(member, entries, seen, f"{path}.members.{name}") for name, member in members.items()
        }
    steps = as_list(options.get("steps"))
    if steps is not None:
        inlined["steps"] = [
            _inline_step(step, entries, seen, f"{path}.steps.{index}") for index, step in enumerate(steps)
        ]
    return inlined


def _inline_step(step: Any, entries: Mapping[str, Any], seen: tuple[str, ...], path: str) -> Any:
    options = as_object(step)
    if options is None or "supervisor" not in options:
        return step
    return {**options, "supervisor": _follow(options["supervisor"], entries, seen, f"{path}.supervisor")}


def _follow(member: Any, entries: Mapping[str, Any], seen: tuple[str, ...], path: str) -> Any:
    if not isinstance(member, str):
        return _inline(member, entries, seen, path)
    if member in seen:
        msg = f"a supervisor cannot contain itself: {' > '.join((*seen, member))}"
        raise ConfigError(msg, path)
    if member not in entries:
        hint = did_you_mean(member, map(str, entries))
        msg = f"unknown supervisor {member!r}; known: {', '.join(sorted(map(str, entries)))}{hint}"
        raise ConfigError(msg, path)
    return _inline(entries[member], entries, (*seen, member), path)
