"""The process above the workers: starts them, starts those anew that die, passes signals on, ends with the last."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_SETTLED_S: Final = 60.0
"""A worker that lived so long did not die of its start: the next one comes without a longer pause."""
_LOOK_S: Final = 0.05


def _say_nothing() -> None:
    pass


class Crew:
    """So many workers.

    Args:
        command: starts one; the descriptors are handed on to it.
        number: of workers.
        folder: where a worker that serves puts its socket.
        descriptors: open files that workers need, for example the listener.
        started: called once the first one serves.
    """

    def __init__(
        self,
        command: Sequence[str],
        number: int,
        folder: Path,
        descriptors: Sequence[int] = (),
        started: Callable[[], None] = _say_nothing,
    ) -> None:
        self._started = started
        self._command = command
        self._number = number
        self._folder = folder
        self._descriptors = tuple(descriptors)
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._codes: list[int] = []

    async def run(self) -> int:
        """Keep the workers alive until a signal ends them; return 0, or the exit code of a worker that failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._send, signal.SIGHUP)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep(0))
            # The first one alone: what is wrong is said once, and what is made at a start is made once.
            while not self._stopping.is_set() and not self._is_served():
                await self._wait(_LOOK_S)
            if not self._stopping.is_set():
                self._started()
                for index in range(1, self._number):
                    group.create_task(self._keep(index))
        return next((code for code in self._codes if code), 0)

    def _is_served(self) -> bool:
        return any(self._folder.glob("*.sock"))

    async def _keep(self, index: int) -> None:
        """Run one worker, and another one after it, until the crew stops."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = loop.time()
            child = await self._start()
            self._children[index] = child
            if self._stopping.is_set():  # the signal came while it was being started
                self._pass_on(child, signal.SIGTERM)
            log.info("worker started", extra={"worker": index, "worker_pid": child.pid})
            code = await child.wait()
            del self._children[index]
            if self._stopping.is_set():
                # One that had no time to listen dies of the signal: it served nobody.
                self._codes.append(0 if code == -signal.SIGTERM else code if code >= 0 else 128 - code)
                return
            if not self._is_served():  # none has ever come up: the next one would not either
                self._codes.append(code)
                self._stopping.set()
                return
            log.error("worker ended, another one is started", extra={"worker": index, "code": code, "pause_s": pause})
            pause = _FIRST_PAUSE_S if loop.time() - started > _SETTLED_S else pause
            await self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _start(self) -> asyncio.subprocess.Process:
        """Start a worker, deaf to SIGHUP until it serves: it would die of one before; what came meanwhile is kept."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            # A group of its own: Ctrl-C reaches the process above alone, which passes it on once.
            return await asyncio.create_subprocess_exec(*self._command, pass_fds=self._descriptors, process_group=0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _stop(self) -> None:
        self._stopping.set()
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        for child in self._children.values():
            self._pass_on(child, number)

    def _pass_on(self, child: asyncio.subprocess.Process, number: int) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            child.send_signal(number)
