"""Routes that settings name and nothing is served on: a policy or a key bound to one would hold nowhere, unseen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from proxy.config import MOST_PROBLEMS, Config
from proxy.declared import UnguardedRoute
from proxy.misled import Doubt
from proxy.wire.adapter import EMBEDDINGS_ROUTE, MODERATIONS_ROUTE
from supervisors.nearest import did_you_mean

JUDGED: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    EMBEDDINGS_ROUTE,
)
"""Routes on which policies hold by their `attach`."""
SERVED_BELOW: Final = ("/v1/models", "/v1/guardrails", "/v1/decisions")
SERVED: Final = (*JUDGED, MODERATIONS_ROUTE, *SERVED_BELOW)
CHECK_ROUTE: Final = "/v1/guardrails/check"


def find_misrouted(config: Config) -> Iterator[Doubt]:
    """Yield every route of a policy or a key that is none of the proxy's and not declared either."""
    known = (*SERVED, CHECK_ROUTE, *_paths(config.unguarded_routes))
    for name, policy in config.policies.items():
        yield from _find_unknown(f"policies.{name}.attach.routes", policy.attach.routes, known)
    for name, key in config.keys.items():
        yield from _find_unknown(f"keys.{name}.routes", key.routes, known)


def _find_unknown(path: str, patterns: Iterable[str], known: Collection[str]) -> Iterator[Doubt]:
    strange = [one for one in patterns if not _matching(one, known)]
    near = len(known) <= MOST_PROBLEMS >= len(strange)  # looking for likeness takes long
    for pattern in strange:
        hint = did_you_mean(pattern, known) if near else ""
        yield Doubt(path, f"{pattern!r} is no route; known: {', '.join(known)}{hint}")


def find_unjudged(config: Config) -> Iterator[Doubt]:
    """Yield every route that a policy is attached to and that no attached policy judges."""
    others = {
        **dict.fromkeys(SERVED_BELOW, "nothing on it is judged"),
        **dict.fromkeys(_paths(config.unguarded_routes), "it is declared in unguarded_routes and judged by nobody"),
        MODERATIONS_ROUTE: "it is judged by the policies of moderations.aliases, whatever they are attached to",
        CHECK_ROUTE: f"it judges as {JUDGED[0]} does: attach the policy to that",
    }
    for name, policy in config.policies.items():
        for pattern in policy.attach.routes:
            if not _matching(pattern, JUDGED):
                for route in _matching(pattern, others):
                    message = f"the policy does not hold on {route}: {others[route]}"
                    yield Doubt(f"policies.{name}.attach.routes", message)


def _paths(declared: Iterable[UnguardedRoute]) -> list[str]:
    return list(dict.fromkeys([route.path for route in declared]))


def _matching(pattern: str, routes: Iterable[str]) -> list[str]:
    return [route for route in routes if pattern == "*" or fnmatchcase(route, pattern)]
