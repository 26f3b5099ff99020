"""Who asks for what: one lane for each set of policies that some key, model and route lead to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from proxy.config import Config
from proxy.keys import Caller
from proxy.misrouted import CHECK_ROUTE
from proxy.plan import Plan, Planner, Request
from proxy.runtime import speaks_messages
from proxy.wire.errors import RequestError
from proxy.wire.messages import MESSAGES
from proxy.wire.moderations import MODERATIONS

_ANY_MODEL: Final = "matrix"


@dataclass(frozen=True, slots=True)
class Lane:
    """One way through the config.

    Args:
        route: route template.
        model: model to ask for; an alias on the moderation route.
        key: configured name of the key, None without keys.
        plan: merged policies.
        native: the model's server speaks Anthropic Messages itself.
    """

    route: str
    model: str
    key: str | None
    plan: Plan
    native: bool


def find_lanes(config: Config, route: str) -> list[Lane]:
    """Return one lane a distinct set of policies; none when no key may use the route."""
    planner = Planner(config.policies, config.supervisors)
    found: dict[tuple[tuple[str, ...], bool], Lane] = {}
    if route == MODERATIONS.route:
        aliases = config.moderation_aliases()
        lanes = [
            Lane(route, alias, key, planner.plan_only(aliases[alias]), False)
            for alias in aliases
            for key in _keys(config, route)
        ]
    else:
        lanes = list(_model_lanes(config, planner, route))
    for lane in lanes:
        found.setdefault((lane.plan.policies, lane.native), lane)
    return list(found.values())


def _model_lanes(config: Config, planner: Planner, route: str) -> Iterator[Lane]:
    served = config.served_models()
    for key in _keys(config, route):
        caller = _caller(config, key)
        for model in _models(config):
            entry = served.get(model) or served.get("*")
            if entry is None or not _allowed(caller, model):
                continue
            plan = planner.plan(Request(model, key, route, caller.tags))
            native = route == MESSAGES.route and speaks_messages(config.upstreams[entry.upstream])
            yield Lane(route, model, key, plan, native)


def _caller(config: Config, key: str | None) -> Caller:
    return Caller(key, None, config.keys[key] if key is not None else None)


def _keys(config: Config, route: str) -> Iterator[str | None]:
    if not config.keys:
        yield None
    for name, settings in config.keys.items():
        if any(fnmatchcase(route, pattern) for pattern in settings.routes) and (settings.check or route != CHECK_ROUTE):
            yield name


def _models(config: Config) -> list[str]:
    """Return the declared models, and behind a wildcard one name for each pattern that policies go by."""
    served = config.served_models()
    named = [name for name in served if name != "*"]
    if "*" in served:
        patterns = [pattern for policy in config.policies.values() for pattern in policy.attach.models]
        named += [pattern.replace("*", "x").replace("?", "x") if pattern != "*" else _ANY_MODEL for pattern in patterns]
        named.append(_ANY_MODEL)
    return list(dict.fromkeys(named))


def _allowed(caller: Caller, model: str) -> bool:
    try:
        caller.allow_model(model)
    except RequestError:
        return False
    return True
