"""Where a supervisor is set to look: its scopes, roles, kinds and turns, as declared in the config. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from proxy.matrix.cells import CANARY, Place
from proxy.matrix.texts import ENCODED, HALVES
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.messages import MESSAGES
from proxy.wire.moderations import MODERATIONS
from proxy.wire.responses import RESPONSES
from supervisors.nesting import walk
from supervisors.types import Kind, Role, Scope, Segment, Supervisor

_ALL_SCOPES: Final = ("conversation", "system", "tool_def")
_ADAPTERS: Final[Sequence[Adapter]] = (COMPLETIONS, EMBEDDINGS, MESSAGES, MODERATIONS, RESPONSES)


def looks_at(supervisor: Supervisor, scope: Scope, role: Role, kind: Kind) -> bool:
    """Say whether a supervisor, which is no composite, is set to judge such a text."""
    if scope not in getattr(supervisor, "scopes", _ALL_SCOPES):
        return False
    for name, value in (("roles", role), ("kinds", kind)):
        wanted: Any = getattr(supervisor, name, None)
        if wanted is not None and value not in wanted:
            return False
    return True


def first_turn(request: Sequence[Segment], turns: str) -> int:
    """Return the first turn of a request that is judged."""
    if turns == "all":
        return -1
    role, after = ("user", 0) if turns == "last_user" else ("assistant", 1)
    return max([segment.turn for segment in request if segment.role == role], default=-after) + after


def is_aimed_at(supervisor: Supervisor, place: Place) -> bool:
    """Say whether a supervisor, or a member of a composite, is set to judge all of the canary in a place."""
    leaves = [part for _, part in walk("", supervisor) if not getattr(part, "nested", None)]
    if place.stage == "output":
        return any(looks_at(leaf, scope_of(place), place.role, place.kind) for leaf in leaves)
    request = _segments(place)
    held = [segment for segment in request if _holds(segment.text)]
    held = held or [segment for segment in request if segment.kind == place.kind]  # what is no text: images, tokens
    return any(_judges(leaf, held, request) for leaf in leaves)


def scope_of(place: Place) -> Scope:
    """Return the scope of what stands in a place (G-04)."""
    if place.kind == "tool_def":
        return "tool_def"
    return "system" if place.role in ("system", "developer") else "conversation"


def _judges(supervisor: Supervisor, held: Sequence[Segment], request: Sequence[Segment]) -> bool:
    since = first_turn(request, getattr(supervisor, "turns", "all"))
    return all(looks_at(supervisor, one.scope, one.role, one.kind) and one.turn >= since for one in held)


def _segments(place: Place) -> Sequence[Segment]:
    adapter = next((one for one in _ADAPTERS if one.route == place.route), CHAT)
    return adapter.request_segments({"messages": [], **place.body})


def _holds(text: str) -> bool:
    return CANARY in text or ENCODED in text or any(half in text for half in HALVES)
