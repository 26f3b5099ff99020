"""How often and how many at a time: rates and numbers of callers, bounded queues before model servers (X-07, G-46)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from time import monotonic

from proxy.wire.errors import RequestError


class Allowance:
    """What one caller may use: requests a minute, and requests at a time.

    The rate is a bucket: a caller that was silent for a minute may send a minute's worth at once, and then one each
    time a share of the minute has passed.

    Args:
        per_minute: requests a minute, None for any number.
        at_once: requests at a time, None for any number.
        clock: monotonic seconds.
    """

    def __init__(
        self, per_minute: int | None = None, at_once: int | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._per_minute = per_minute
        self._at_once = at_once
        self._clock = clock
        self._left = float(per_minute or 0)
        self._filled = clock()
        self.in_flight = 0

    def enter(self) -> None:
        """Take a request; give it back with `leave`.

        Raises:
            RequestError: 429 ``rate_limit_exceeded`` with the seconds to wait.
        """
        if self._at_once is not None and self.in_flight >= self._at_once:
            message = f"This key may have {self._at_once} requests under way at a time."
            raise _too_many(message, 1)
        if self._per_minute is not None:
            self._take(self._per_minute)
        self.in_flight += 1

    def leave(self) -> None:
        """Note that a request has ended."""
        self.in_flight -= 1

    def _take(self, per_minute: int) -> None:
        now = self._clock()
        self._left = min(float(per_minute), self._left + (now - self._filled) * per_minute / 60)
        self._filled = now
        if self._left < 1:
            message = f"This key may send {per_minute} requests a minute."
            raise _too_many(message, (1 - self._left) * 60 / per_minute)
        self._left -= 1


def _too_many(message: str, wait_s: float) -> RequestError:
    return RequestError(429, "rate_limit_exceeded", message, headers={"retry-after": str(max(1, ceil(wait_s)))})


SLOW_BYTES = 200_000
"""Bodies above this size are parsed and read in a thread."""


class NoPlace(RequestError):
    """503 ``overloaded``: nobody was asked, because too many wait already."""

    def __init__(self) -> None:
        message = "Too many requests are waiting for this model."
        super().__init__(503, "overloaded", message, headers={"retry-after": "30"})


class Places:
    """How many may be at something together; a bounded number of others waits its turn.

    Args:
        number: places.
        queue: most that wait.
    """

    def __init__(self, number: int, queue: int) -> None:
        self._slots = asyncio.Semaphore(number)
        self._queue = queue
        self.taken = 0
        self.waiting = 0

    async def take(self) -> None:
        """Wait for a place; give it back with `give`.

        Raises:
            NoPlace: too many wait already.
        """
        if not await self.find():
            raise NoPlace

    async def find(self) -> bool:
        """Wait for a place, to be given back with `give`; without waiting say false when too many wait already."""
        if not self._slots.locked():
            await self._slots.acquire()
        else:
            if self.waiting >= self._queue:
                return False
            self.waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self.waiting -= 1
        self.taken += 1
        return True

    def give(self) -> None:
        """Give a place to whoever waits longest."""
        self.taken -= 1
        self._slots.release()
