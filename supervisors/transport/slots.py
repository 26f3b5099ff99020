"""A bounded number of places, given out in the order they are asked for."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """What `asyncio.Semaphore` is, for a tenth of its time where a place is free, as it nearly always is.

    Args:
        number: places.
    """

    __slots__ = ("_free", "_waiting")

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_free(self) -> bool:
        """Take a place if one is free and nobody waits for it; say whether it was."""
        if self._free == 0:  # who waits has been given every place that became free
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take a place, waiting for it behind those who wait already."""
        if self.take_free():
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        taken = False
        try:
            await place
            taken = True
        finally:
            if not taken and place.done() and not place.cancelled():
                self.give()  # it was handed over in the moment that whoever waited was cancelled

    def give(self) -> None:
        """Give a place back: to the first who still waits, if anybody does."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
