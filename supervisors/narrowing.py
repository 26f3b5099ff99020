"""Which segments of an exchange are judged, where not all of them are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from supervisors.types import Exchange, Kind, Role, Scope, Segment

Turns = Literal["all", "last_user", "new"]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Judge less than everything; what is left out stays visible as context.

    Args:
        roles: only segments of these roles; None is all.
        kinds: only segments of these kinds; None is all.
        turns: ``last_user`` = the last user turn, ``new`` = what follows the last assistant turn.
    """

    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"


EVERYTHING = Narrowing()
"""Leaves nothing out."""


def select(exchange: Exchange, scope: Scope, narrowing: Narrowing) -> list[Segment]:
    """Return the segments of a scope that are under judgement, media included, opaque ones left out.

    Roles and turns narrow a request; a reply is always judged whole.
    """
    chosen = [segment for segment in exchange.judged if segment.scope == scope and segment.kind != "opaque"]
    if narrowing.kinds is not None:
        chosen = [segment for segment in chosen if segment.kind in narrowing.kinds]
    if exchange.stage == "output" or scope != "conversation":
        return chosen
    if narrowing.roles is not None:
        chosen = [segment for segment in chosen if segment.role in narrowing.roles]
    return _of_turns(chosen, exchange, narrowing.turns)


def _of_turns(chosen: list[Segment], exchange: Exchange, turns: Turns) -> list[Segment]:
    match turns:
        case "all":
            return chosen
        case "last_user":
            last = max([segment.turn for segment in exchange.request if segment.role == "user"], default=None)
            return [segment for segment in chosen if segment.turn == last and segment.role == "user"]
        case "new":
            seen = max([segment.turn for segment in exchange.request if segment.role == "assistant"], default=-1)
            return [segment for segment in chosen if segment.turn > seen]
