"""Let what is written in one turn of a busy event loop leave together.

Every write to a socket whose peer sleeps wakes it up, which costs the writer as much as judging a small text. Under
load several exchanges are served in one turn of the loop; written one right after the other, their bytes find the
peer awake. An idle loop writes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

_AT_ONCE: Final = 3
"""Writes in one tick of the loop's clock that leave at once; one more is a sign of load."""


class WriteBatch:
    """Decide for one loop whether a write waits for the end of the turn, and end the turn.

    The clock of uvloop stands still within a turn and ticks in milliseconds. The clock of asyncio's own loop never
    stands still: there every write leaves at once.

    Args:
        loop: the running loop.
    """

    __slots__ = ("__weakref__", "_busy", "_loop", "_pending", "_tick", "_written")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: list[Callable[[], None]] = []
        self._busy = False
        self._tick = 0.0
        self._written = 0

    def waits(self) -> bool:
        """Say whether a write of now should be deferred; every write asks once."""
        if self._busy:
            return True
        now = self._loop.time()
        if now != self._tick:
            self._tick = now
            self._written = 1
            return False
        self._written += 1
        self._busy = self._written > _AT_ONCE
        return self._busy

    def defer(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of the turn; it must not raise."""
        if not self._pending:
            self._loop.call_soon(self._end)
        self._pending.append(flush)

    def _end(self) -> None:
        pending, self._pending = self._pending, []
        self._busy = len(pending) > 1
        for flush in pending:
            flush()


_batches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatch]] = WeakKeyDictionary()


def batch_of(loop: asyncio.AbstractEventLoop) -> WriteBatch:
    """Return the batch that all connections of a loop share."""
    found = _batches.get(loop)
    if found is None:
        found = _batches[loop] = WriteBatch(loop)
    return found
