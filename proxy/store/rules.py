"""What is archived of a config version, so that an auditor can decide again: rules per policy, and declared names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from proxy.policy import OnUnsafe, Rule, UnknownPolicy
from proxy.store.chain import canonical
from proxy.store.reach import SCHEMA, Reach, reach_from_json, reach_to_json
from supervisors.errors import StoreError
from supervisors.types import Cause, Scope, Stage

RuleSet = Literal["input", "output", "stream"]
"""``stream`` holds the output rules of streamed replies where they differ, e.g. stream mode ``observe``."""

_SCOPES: Sequence[Scope] = ("system", "tool_def", "conversation")
_STRICTNESS: Mapping[OnUnsafe, int] = {"log": 0, "redact": 1, "block": 2}


@dataclass(frozen=True, slots=True)
class Labels:
    """The names a config declares: the only values that metric labels take; anything else is ``other`` (O-17).

    Args:
        models: models that callers may ask for.
        supervisors: full names, members of composites as ``panel/a``.
        policies: policy names.
        upstreams: upstream names.
        routes: route templates.
    """

    models: frozenset[str] = frozenset()
    supervisors: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    upstreams: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Archive:
    """One config version as `verify` needs it.

    Args:
        policies: by policy name, then ``input``, ``output`` and, where it differs, ``stream``: the rules as this
            policy alone sets them, before merging (G-16).
        forced: by policy name and stage, the supervisors that no caller can leave out (G-15).
        labels: the declared names.
        reach: whom the policies reach.
    """

    policies: Mapping[str, Mapping[RuleSet, Sequence[Rule]]] = field(
        default_factory=dict[str, Mapping[RuleSet, Sequence[Rule]]]
    )
    labels: Labels = field(default_factory=Labels)
    forced: Mapping[str, Mapping[Stage, Sequence[str]]] = field(
        default_factory=dict[str, Mapping[Stage, Sequence[str]]]
    )
    reach: Reach = field(default_factory=Reach)

    def to_text(self) -> str:
        """Return the JSON text for `Journal.archive_config`."""
        policies = {
            name: {stage: [rule_to_json(rule) for rule in rules] for stage, rules in stages.items()}
            for name, stages in self.policies.items()
        }
        labels = {kind: sorted(getattr(self.labels, kind)) for kind in Labels.__slots__}
        forced = {name: {stage: list(names) for stage, names in stages.items()} for name, stages in self.forced.items()}
        reach = reach_to_json(self.reach)
        row = {"schema": SCHEMA, "policies": policies, "forced": forced, "labels": labels, "reach": reach}
        return canonical(row).decode()

    @classmethod
    def from_text(cls, text: str) -> Archive:
        """Read the archived JSON text.

        Raises:
            StoreError: it is not an archived config.
        """
        try:
            row: dict[str, Any] = orjson.loads(text)
            if row["schema"] != SCHEMA:
                msg = f"an archived config is of schema {row['schema']!r}, this version reads {SCHEMA}"
                raise StoreError(msg)
            policies: dict[str, Mapping[RuleSet, Sequence[Rule]]] = {}
            for name, sets in row["policies"].items():
                policies[name] = {stage: [rule_from_json(rule) for rule in rules] for stage, rules in sets.items()}
            forced = {
                name: {stage: list(names) for stage, names in sets.items()} for name, sets in row["forced"].items()
            }
            labels = Labels(**{kind: frozenset(row["labels"][kind]) for kind in Labels.__slots__})
            reach = reach_from_json(row["reach"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"an archived config cannot be read: {error}"
            raise StoreError(msg) from error
        return cls(policies, labels, forced, reach)


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as JSON, everything spelt out."""
    return {
        "supervisor": rule.supervisor,
        "on_unsafe": rule.on_unsafe,
        "on_unknown": {cause.value: rule.on_unknown.action(cause) for cause in Cause if cause is not Cause.SKIPPED},
        "on_scope": dict(rule.on_scope),
        "enforce": rule.enforce,
        "policies": list(rule.policies),
    }


def rule_from_json(row: Mapping[str, Any]) -> Rule:
    """Read a rule; raises ValueError, KeyError or TypeError when it is none."""
    for action in (row["on_unsafe"], *row["on_scope"].values()):
        if action not in _STRICTNESS:
            msg = f"on_unsafe is {action!r}, it must be block, redact or log"
            raise ValueError(msg)
    return Rule(
        supervisor=str(row["supervisor"]),
        on_unsafe=row["on_unsafe"],
        on_unknown=UnknownPolicy(**row["on_unknown"]),
        on_scope=dict(row["on_scope"]),
        enforce=bool(row["enforce"]),
        policies=tuple(row["policies"]),
    )


def merge_rules(rules: Sequence[Rule]) -> Rule:
    """Merge the settings that several policies give one supervisor: the strictest wins (G-16).

    Args:
        rules: at least one, all of the same supervisor.
    """
    enforcing = any(rule.enforce for rule in rules)
    scopes: dict[Scope, OnUnsafe] = {}
    for scope in _SCOPES:
        if any(scope in rule.on_scope for rule in rules):
            scopes[scope] = _strictest([rule.unsafe_action(scope) for rule in rules])
    unknown = {
        cause.value: "block" if any(rule.on_unknown.action(cause) == "block" for rule in rules) else "log"
        for cause in Cause
        if cause is not Cause.SKIPPED
    }
    return Rule(
        supervisor=rules[0].supervisor,
        on_unsafe=_strictest([rule.on_unsafe for rule in rules]),
        on_unknown=UnknownPolicy.model_validate(unknown),
        on_scope=scopes,
        enforce=enforcing,
        policies=tuple(sorted({name for rule in rules for name in rule.policies})),
    )


def _strictest(actions: Sequence[OnUnsafe]) -> OnUnsafe:
    return max(actions, key=lambda action: _STRICTNESS[action])


def tighten(rule: Rule) -> Rule:
    """Return the rule under the ``moderation`` mode ``block``: an unsafe finding blocks in every scope (W-15)."""
    scopes: dict[Scope, OnUnsafe] = dict.fromkeys(rule.on_scope, "block")
    return replace(rule, on_unsafe="block", on_scope=scopes, enforce=True)


class Plans:
    """The merged rules of a config version, worked out once for each combination of policies that occurs."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._known: dict[tuple[tuple[str, ...], Stage, bool, bool], Mapping[str, Rule]] = {}

    def rules(self, policies: Sequence[str], stage: Stage, *, stream: bool, tightened: bool) -> Mapping[str, Rule]:
        """Return the merged rule of every supervisor that these policies name for a stage.

        Args:
            policies: names of the policies that matched.
            stage: input or output.
            stream: the reply was streamed.
            tightened: the caller asked for a block on unsafe.

        Raises:
            StoreError: a policy is not in the archive.
        """
        key = (tuple(policies), stage, stream and stage == "output", tightened)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _merge(self.archive, *key)
        return known


def _merge(
    archive: Archive, policies: Sequence[str], stage: Stage, stream: bool, tightened: bool
) -> Mapping[str, Rule]:
    found: dict[str, list[Rule]] = {}
    for name in policies:
        sets = archive.policies.get(name)
        if sets is None:
            msg = f"policy {name!r} is not in the archived config"
            raise StoreError(msg)
        rules = sets.get("stream") if stream else None
        for rule in sets.get(stage, ()) if rules is None else rules:
            found.setdefault(rule.supervisor, []).append(replace(rule, policies=(name,)))
    merged = {name: merge_rules(rules) for name, rules in found.items()}
    return {name: tighten(rule) for name, rule in merged.items()} if tightened else merged
