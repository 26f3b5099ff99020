"""Supervisors that judge a bounded number of exchanges at a time (G-46)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.limits import Places
from supervisors.types import Cause, Context, Exchange, Supervisor, Verdict, unknown


class Bounded:
    """A supervisor with a number of places; in everything else it is the supervisor itself.

    Whoever waits for a place does so within its own deadline, so even a local supervisor is asked beside the others.

    Args:
        supervisor: whom to ask.
        places: how many at a time, and how many more may wait.
    """

    local = False

    def __init__(self, supervisor: Supervisor, places: Places) -> None:
        self._supervisor = supervisor
        self.places = places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._supervisor, name)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Ask when there is a place; ``unknown/overloaded`` at once when too many wait already."""
        if not await self.places.find():
            return unknown(Cause.OVERLOADED, detail="max_concurrency")
        try:
            return await self._supervisor.assess(exchange, context)
        finally:
            self.places.give()


def bound_supervisors(
    supervisors: Mapping[str, Supervisor], numbers: Mapping[str, int], queue: int
) -> Mapping[str, Supervisor]:
    """Return the supervisors, those that have a number of places with them.

    Args:
        supervisors: by configured name.
        numbers: places by name.
        queue: most that wait for those of one supervisor.
    """
    bounded = {name: Bounded(supervisors[name], Places(number, queue)) for name, number in numbers.items()}
    return {**supervisors, **bounded} if bounded else supervisors
