"""Take the judging of long texts off the event loop, and that of huge ones one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

HUGE_CHARS: Final = 500_000
"""Above this many characters a text takes a tenth of a second and more."""

_T = TypeVar("_T")


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
        return await asyncio.get_running_loop().run_in_executor(self._pool if chars > HUGE_CHARS else None, judge)
