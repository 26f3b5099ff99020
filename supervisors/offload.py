"""Take the judging of long texts off the event loop, and that of huge ones one after another.

What judges piece by piece is told when nobody waits any more, and ends before its next piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, TypeVar

HUGE_CHARS: Final = 500_000
"""Above this many characters a text takes a tenth of a second and more."""

_T = TypeVar("_T")


class Abandoned(Exception):
    """Nobody waits for what is judged; ends the thread that judges, and reaches no one."""


class Stop:
    """Whether somebody still waits for what a thread judges."""

    __slots__ = ("_wanted",)

    def __init__(self) -> None:
        self._wanted = True

    def leave(self) -> None:
        """Say that nobody waits any more."""
        self._wanted = False

    def check(self) -> None:
        """End the thread when nobody waits.

        Raises:
            Abandoned: nobody does.
        """
        if not self._wanted:
            raise Abandoned

    def watch(self, pieces: Iterable[_T]) -> Iterator[_T]:
        """Yield pieces as long as somebody waits.

        Raises:
            Abandoned: nobody does.
        """
        for piece in pieces:
            self.check()
            yield piece


async def run_pieces(judge: Callable[[Stop], _T], pool: Executor | None = None) -> _T:
    """Judge in a thread that ends within one piece of the deadline, or of the caller's leaving.

    Args:
        judge: does it, and asks before every piece whether anybody waits.
        pool: where; None is the pool of the loop.
    """
    stop = Stop()
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, judge, stop)
    finally:
        stop.leave()


class Offload:
    """Threads for the texts of one supervisor that are too long for the event loop.

    Long ones share the pool of the loop. Huge ones wait for one thread: all at once would only take the interpreter
    lock from the loop and from each other. Whoever leaves before its turn costs nothing.
    """

    __slots__ = ("_pool",)

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="huge-texts")  # starts no thread before the first text

    async def run(self, chars: int, judge: Callable[[], _T]) -> _T:
        """Judge in a thread.

        Args:
            chars: length of what is judged.
            judge: does it.
        """
        return await asyncio.get_running_loop().run_in_executor(self._choose(chars), judge)

    async def run_pieces(self, chars: int, judge: Callable[[Stop], _T]) -> _T:
        """Judge in a thread that ends within one piece of the deadline, or of the caller's leaving.

        Args:
            chars: length of what is judged.
            judge: does it, and asks before every piece whether anybody waits.
        """
        return await run_pieces(judge, self._choose(chars))

    def _choose(self, chars: int) -> Executor | None:
        return self._pool if chars > HUGE_CHARS else None
