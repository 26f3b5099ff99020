"""Run something beside the work of a request, for as long as the work lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from supervisors.errors import first_leaf

LOOK_S: Final = 0.1
"""Time between two looks at everything under way."""
PATIENCE_S: Final = 0.05
"""How old a body is before anybody watches whether its caller is still there; O-10 allows half a second."""


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


BEHIND_S: Final = 1.0
"""How long what has finished waits for the end of its stream, in seconds: text, or the usage, may come before that."""
MOST_BEHIND: Final = 64 * 1024
"""Bytes that are read behind the end of a stream: a server that says more is left."""


async def next_or_late(
    chunks: AsyncIterator[bytes], wait_s: float, late: Callable[[], Awaitable[bool]]
) -> bytes | None:
    """Return what comes next, None at the end; where nothing comes for a while, do something meanwhile.

    Args:
        chunks: what comes; a wait for it is never cut short, for it could not be taken up again.
        wait_s: seconds.
        late: done once after so long; true ends the wait for what comes.
    """
    came = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_watch(came, wait_s, late))
            try:
                return await anext(chunks, None)
            finally:
                came.set()
    except BaseExceptionGroup as errors:
        error = first_leaf(errors)
        if isinstance(error, _Over):
            return None
        raise error from None


class _Over(Exception):
    """Nobody waits any more."""


async def _watch(came: asyncio.Event, wait_s: float, late: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await came.wait()
    except TimeoutError:
        if await late():
            raise _Over from None


class Attendance:
    """Everything under way: each for at most so many seconds, and only while its caller waits.

    One timer looks after all of them, where a task and a time-out of its own would cost a short request more than all
    its supervisors together.

    Args:
        timeout_s: seconds until the deadline of each.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Attended] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ended: Callable[[], BaseException] | None = None

    def attend(self, watch: Callable[[], Coroutine[Any, Any, None]] | None) -> Attended:
        """Return the context in which a body is looked after.

        Args:
            watch: waits until the caller leaves, then raises; started when the body has run for `PATIENCE_S`, and
                cancelled when it ends. None where the body itself notices that the caller leaves.
        """
        if self._loop is None:  # asked for once: finding it is a call of the kernel
            self._loop = asyncio.get_running_loop()
        return Attended(self, watch, self._loop)

    def end_all(self, cause: Callable[[], BaseException]) -> None:
        """Cancel every body; a fresh cause comes out in the place of each, and of those that would begin later."""
        self._ended = cause
        for attended in self._running:
            attended.interrupt(cause())

    def enter(self, attended: Attended, loop: asyncio.AbstractEventLoop) -> None:
        """Look after one more; raises the cause when all have been ended."""
        if self._ended is not None:
            raise self._ended()
        self._running.add(attended)
        if self._timer is None:
            self._timer = loop.call_later(min(LOOK_S, self._timeout_s), self._look, loop)

    def leave(self, attended: Attended) -> None:
        """Look after one less."""
        self._running.discard(attended)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._running:
            return
        now = loop.time()
        for attended in tuple(self._running):
            attended.look(now - attended.since, self._timeout_s)
        self._timer = loop.call_later(min(LOOK_S, self._timeout_s), self._look, loop)


class Interruptible:
    """A body that something beside it can end: its exception cancels the body and comes out in its place.

    Args:
        loop: the running one.
    """

    __slots__ = ("_cancelling", "_cause", "_loop", "_task", "_watcher")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] = asyncio.current_task(loop)  # type: ignore[assignment]  # no task, no body
        self._cancelling = self._task.cancelling()
        self._watcher: asyncio.Task[None] | None = None
        self._cause: BaseException | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something beside the body until its end."""
        self._watcher = self._loop.create_task(work())  # cancelled by `end`
        self._watcher.add_done_callback(self._hear)

    def interrupt(self, cause: BaseException) -> None:
        """Cancel the body; `cause` comes out in its place."""
        if self._cause is None:
            self._cause = cause
            self._task.cancel()

    def end(self, kind: type[BaseException] | None) -> None:
        """End what runs beside the body; `kind` is the exception that the body ended with.

        Raises:
            BaseException: the cause, where it is what ended the body.
        """
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()  # not awaited: under load that costs the answer two more turns of the loop
        cause, self._cause = self._cause, None
        if cause is None or self._task.uncancel() > self._cancelling:
            return
        try:
            if kind is not None and issubclass(kind, asyncio.CancelledError):
                raise cause from None
        finally:
            del cause  # it holds this frame, which would hold it

    def _hear(self, watcher: asyncio.Task[None]) -> None:
        error = None if watcher.cancelled() else watcher.exception()
        if error is not None and self._watcher is not None:
            self.interrupt(error)


class Attended(Interruptible):
    """One body under way, interrupted by what `watch` raises and by TimeoutError at the deadline.

    Args:
        attendance: looks after it.
        watch: as for `Attendance.attend`.
        loop: the running one.
    """

    __slots__ = ("_attendance", "_watch", "since")

    def __init__(
        self,
        attendance: Attendance,
        watch: Callable[[], Coroutine[Any, Any, None]] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop)
        self._attendance = attendance
        self._watch = watch
        self.since = self._loop.time()

    def __enter__(self) -> None:
        self._attendance.enter(self, self._loop)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._attendance.leave(self)
        self.end(kind)

    def look(self, age_s: float, timeout_s: float) -> None:
        """Notice the deadline, or start to notice that the caller leaves."""
        if age_s >= timeout_s:
            self.interrupt(TimeoutError())
        elif age_s >= PATIENCE_S and self._watcher is None and self._watch is not None:
            self.start(self._watch)


class Later(Interruptible):
    """Run something beside a body that lasts longer than so many seconds; a short one pays for a timer only.

    Args:
        after_s: seconds.
        work: begun then, cancelled when the body ends.
    """

    __slots__ = ("_after_s", "_timer", "_work")

    def __init__(self, after_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(asyncio.get_running_loop())
        self._after_s = after_s
        self._work = work
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        self._timer = self._loop.call_later(self._after_s, self.start, self._work)

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.end(kind)
