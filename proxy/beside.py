"""Run something beside the work of a request, for as long as the work lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from supervisors.errors import first_leaf

PATIENCE_S: Final = 0.1
"""How long a body runs before anybody looks whether its caller is still there; O-10 allows half a second."""


@asynccontextmanager
async def beside(*background: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run the coroutines while the body runs, and cancel them when it ends.

    An exception of one of them cancels the body, and comes out as itself rather than in a group; so does an
    exception of the body.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in background]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_leaf(errors) from None


class Attended:
    """Run the body for at most so many seconds, and only while its caller waits.

    A short body costs one timer, where a task and a time-out of its own would cost more than all supervisors together:
    `watch` is started when the body has run for `PATIENCE_S`, and cancelled when it ends. What `watch` raises cancels
    the body and comes out in its place; so does TimeoutError at the deadline.

    Args:
        watch: waits until the caller leaves, then raises.
        timeout_s: seconds until the deadline.
    """

    __slots__ = ("_cancelling", "_cause", "_loop", "_task", "_timeout_s", "_timer", "_watch", "_watcher")

    def __init__(self, watch: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())  # None only outside of tasks
        self._cancelling = 0
        self._watch = watch
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._cause: BaseException | None = None

    async def __aenter__(self) -> None:
        self._cancelling = self._task.cancelling()
        self._timer = self._loop.call_later(min(PATIENCE_S, self._timeout_s), self._look)

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()  # not awaited: under load that costs the answer two more turns of the loop
        cancelled = self._cause is not None and self._task.uncancel() <= self._cancelling
        if cancelled and self._cause is not None and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise self._cause from None

    def _look(self) -> None:
        left_s = self._timeout_s - PATIENCE_S
        if left_s <= 0:
            self.interrupt(TimeoutError())
            return
        self._timer = self._loop.call_later(left_s, self.interrupt, TimeoutError())
        self._watcher = self._loop.create_task(self._watch())  # cancelled by __aexit__
        self._watcher.add_done_callback(self._hear)

    def _hear(self, watcher: asyncio.Task[None]) -> None:
        error = None if watcher.cancelled() else watcher.exception()
        if error is not None and self._watcher is not None:
            self.interrupt(error)

    def interrupt(self, cause: BaseException) -> None:
        """Cancel the body; `cause` comes out in its place."""
        if self._cause is None:
            self._cause = cause
            self._task.cancel()
