"""Who of a policy is asked: all of it, or only some of its supervisors, each measured alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean

_STAGES = ("input", "output")
_LISTS = ("forced", "optional")


def ask_only(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the tree of a policy file whose stages ask nobody but these; what supervisors are made of stays.

    Args:
        body: as read from YAML; what is not of the right shape is left to the validation that follows.
        names: of supervisors, or of none for everybody.

    Raises:
        ConfigError: no stage asks a supervisor of this name.
    """
    if not names:
        return dict(body)
    policies = _object(body.get("policies"))
    asked = {name for policy in policies.values() for name in _asked(_object(policy))}
    for name in names:
        if name not in asked:
            msg = f"no stage of the policy asks a supervisor {name!r}; there are: {', '.join(sorted(asked))}"
            raise ConfigError(msg + did_you_mean(name, sorted(asked)))
    narrowed = {title: _narrow_policy(_object(policy), set(names)) for title, policy in policies.items()}
    return {**body, "policies": narrowed}


def _asked(policy: Mapping[str, Any]) -> list[str]:
    stages = [_object(policy.get(stage)) for stage in _STAGES]
    return [str(name) for stage in stages for kind in _LISTS for name in _names(stage, kind)]


def _narrow_policy(policy: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {**policy, **{stage: _narrow_stage(_object(policy[stage]), names) for stage in _STAGES if stage in policy}}


def _narrow_stage(stage: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    kept = {kind: [name for name in _names(stage, kind) if name in names] for kind in _LISTS if kind in stage}
    return {**stage, **kept}


def _names(stage: Mapping[str, Any], kind: str) -> list[object]:
    listed: object = stage.get(kind)
    return list(cast("list[object]", listed)) if isinstance(listed, list) else []


def _object(value: object) -> dict[str, Any]:
    # Keys of a YAML mapping; a config's are texts, and the validation says so of the others.
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
