"""Keep the local model running: a child that dies is started again, at the same address and with the same key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from proxy.beside import beside
from proxy.local import LocalServer, LocalSettings, start_local
from supervisors.errors import MissingError

log = logging.getLogger(__name__)

LocalState = Literal["running", "starting", "given_up"]


@dataclass(frozen=True, slots=True)
class Revival:
    """How often and how soon a child is started again; docs/local.md has the numbers.

    Args:
        attempts: starts in a row, after which it is given up.
        first_s: pause before the first of them; each further one is twice as long.
        longest_s: longest pause.
        steady_s: a child that has run for so long begins a new row when it dies.
    """

    attempts: int = 8
    first_s: float = 0.5
    longest_s: float = 30.0
    steady_s: float = 60.0

    def pause_s(self, tried: int) -> float:
        """Return the pause before the next start, after so many in a row."""
        return min(self.first_s * 2.0**tried, self.longest_s)


class KeptServer:
    """A local server that is started again when it dies.

    Callers that ask meanwhile find nobody at its address, as with any model server that is down.

    Args:
        name: of the upstream, for the log.
        settings: as it was started.
        server: the first child.
        revival: how often and how soon.
        on_restart: told of every start that worked.
    """

    def __init__(
        self,
        name: str,
        settings: LocalSettings,
        server: LocalServer,
        revival: Revival,
        on_restart: Callable[[], None],
    ) -> None:
        self.url, self.api_key = server.url, server.api_key
        self.state: LocalState = "running"
        self._name = name
        self._settings = replace(settings, port=urlsplit(server.url).port or 0, api_key=server.api_key)
        self._server = server
        self._revival = revival
        self._on_restart = on_restart

    @property
    def pid(self) -> int:
        """Return the process id of the last child."""
        return self._server.pid

    async def keep(self) -> None:
        """Wait for the child's end and start another one, until it is given up or cancelled."""
        now, tried = asyncio.get_running_loop().time, 0
        while self.state == "running":
            began = now()
            code = await self._server.wait()
            self.state = "starting"
            log.error("local model ended and is started again", extra={"upstream": self._name, "exit_code": code})
            tried = await self._revive(0 if now() - began >= self._revival.steady_s else tried)

    async def _revive(self, tried: int) -> int:
        """Start it until it runs or is given up; returns how many starts in a row there have been."""
        while tried < self._revival.attempts:
            await asyncio.sleep(self._revival.pause_s(tried))
            tried += 1
            try:
                self._server = await start_local(self._settings)
            except (MissingError, OSError) as error:
                extra = {"upstream": self._name, "attempt": tried, "reason": str(error)}
                log.warning("local model could not be started again", extra=extra)
                continue
            self.state = "running"
            self._on_restart()
            log.warning("local model runs again", extra={"upstream": self._name, "attempt": tried})
            return tried
        self.state = "given_up"
        log.error("local model is given up; restart the proxy", extra={"upstream": self._name, "attempts": tried})
        return tried

    async def aclose(self) -> None:
        """End the child; nobody keeps it any more."""
        await self._server.aclose()


def _nothing() -> None:
    """Tell nobody."""


@asynccontextmanager
async def keep_local(
    settings: LocalSettings,
    name: str = "local",
    on_restart: Callable[[], None] = _nothing,
    revival: Revival | None = None,
) -> AsyncGenerator[KeptServer]:
    """Run a local server while the body runs, whatever becomes of its child.

    Raises:
        MissingError: it could not be started the first time.
    """
    kept = KeptServer(name, settings, await start_local(settings), revival or Revival(), on_restart)
    try:
        async with beside(kept.keep()):
            yield kept
    finally:
        await kept.aclose()
