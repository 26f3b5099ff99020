"""Whom the policies of a config version reach, as archived: what a record must have been judged by, and what not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

SCHEMA = 2
"""Of the archived text; part of the config version, so that a version is never archived with two texts."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What one policy is attached to: all dimensions must match; ``*`` is a wildcard.

    Args:
        models: names that callers ask for.
        keys: configured names of keys.
        routes: route templates.
        tags: of keys; none means every key.
    """

    models: tuple[str, ...] = ("*",)
    keys: tuple[str, ...] = ("*",)
    routes: tuple[str, ...] = ("*",)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A caller's key: its configured name and tags."""

    name: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom the policies reach.

    Args:
        attached: by policy name.
        keys: by key id; empty when the proxy runs without keys.
        aliases: policy by model name of the moderations route.
        unguarded: declared routes that pass unjudged.
        retention_days: age at which records are deleted, None when they are kept.
        bypass: names or patterns of the models that the judges of other proxies ask unjudged.
    """

    attached: Mapping[str, Attached] = field(default_factory=dict[str, Attached])
    keys: Mapping[str, KnownKey] = field(default_factory=dict[str, KnownKey])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    unguarded: frozenset[str] = frozenset()
    retention_days: float | None = None
    bypass: tuple[str, ...] = ()

    def policies_of(self, model: str, key_id: str | None, route: str) -> tuple[str, ...]:
        """Return the policies an exchange falls under, sorted.

        Args:
            model: as asked for.
            key_id: of the caller, None without keys.
            route: as recorded.
        """
        key = KnownKey("") if key_id is None else self.keys.get(key_id, KnownKey(""))
        return tuple(
            sorted(
                name
                for name, each in self.attached.items()
                if (not each.tags or set(each.tags) & set(key.tags))
                and _matches(each.models, model)
                and _matches(each.keys, key.name)
                and _matches(each.routes, route)
            )
        )

    def lets_pass(self, model: str) -> bool:
        """Say whether a judge of another proxy may have asked this model without being judged."""
        return _matches(self.bypass, model)

    def knows(self, key_id: str | None) -> bool:
        """Say whether a caller with this key id could have been let in."""
        return key_id in self.keys if self.keys else key_id is None


def _matches(patterns: Sequence[str], value: str) -> bool:
    return any(pattern == "*" or fnmatchcase(value, pattern) for pattern in patterns)


def reach_to_json(reach: Reach) -> dict[str, Any]:
    """Return it as JSON, everything spelt out; without `bypass`, as it was before there was one."""
    bypass: dict[str, Any] = {"bypass": list(reach.bypass)} if reach.bypass else {}
    return bypass | {
        "attached": {
            name: {dimension: list(getattr(each, dimension)) for dimension in Attached.__slots__}
            for name, each in reach.attached.items()
        },
        "keys": {key_id: {"name": key.name, "tags": list(key.tags)} for key_id, key in reach.keys.items()},
        "aliases": dict(reach.aliases),
        "unguarded": sorted(reach.unguarded),
        "retention_days": reach.retention_days,
    }


def reach_from_json(row: Mapping[str, Any]) -> Reach:
    """Read it; raises KeyError, TypeError or AttributeError when it is none."""
    return Reach(
        attached={
            name: Attached(**{dimension: tuple(each[dimension]) for dimension in Attached.__slots__})
            for name, each in row["attached"].items()
        },
        keys={key_id: KnownKey(key["name"], tuple(key["tags"])) for key_id, key in row["keys"].items()},
        aliases=dict(row["aliases"]),
        unguarded=frozenset(row["unguarded"]),
        retention_days=row["retention_days"],
        bypass=tuple(row.get("bypass", ())),
    )
