"""A model server behind a circuit breaker and a bounded number of places (G-46, G-47)."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from proxy.limits import Places
from proxy.ports import CallerHeaders, Model, Reply, ReplyStream
from proxy.upstream import Passed, Upstream, UpstreamStream
from proxy.upstream_errors import UpstreamStatusError, circuit_open
from supervisors.chat.breaker import Breaker, BreakerState
from supervisors.errors import UpstreamError

log = logging.getLogger(__name__)
T = TypeVar("T")

_DOWN = frozenset({502, 503, 504})
"""Statuses of a server that is down or overloaded; a 500 may be the fault of one request."""
_MISLED = frozenset({401, 403, 404, 407})
"""Statuses of a server that the proxy asks with a wrong key, or at a wrong address."""


@dataclass(slots=True)
class Fuse:
    """What is known of a model server from its last answers.

    Args:
        breaker: opens after failures in a row; None never does.
        refused: it did not take our credentials at the last call.
        name: in the log.
        told: that it is not called for a while has been logged.
        failed: that it fails has been logged, and it has not answered since (O-23).
    """

    breaker: Breaker | None = None
    refused: bool = False
    name: str = ""
    told: bool = False
    failed: bool = False

    @property
    def failing(self) -> bool:
        """Say whether it is known to fail now."""
        return self.refused or self.state is not BreakerState.CLOSED

    @property
    def state(self) -> BreakerState:
        """Return the state of the breaker."""
        return BreakerState.CLOSED if self.breaker is None else self.breaker.state

    def allow(self) -> None:
        """Let a call through, to be followed by one of the other three.

        Raises:
            UpstreamError: the breaker is open.
        """
        if self.breaker is not None and not self.breaker.allow():
            raise circuit_open(self.breaker.wait_s)

    def succeed(self) -> None:
        """Note an answer."""
        self.refused = False
        if self.failed:
            self.failed, self.told = False, False
            log.warning("dependency answers again", extra={"dependency": self.name})
        if self.breaker is not None:
            self._close(self.breaker)

    def fail(self, error: UpstreamError) -> None:
        """Note a failure, which may be none of the server's."""
        answered = isinstance(error, UpstreamStatusError)
        self.refused = error.kind == "status" and not answered
        if not self.failed and self.name and _is_broken(error):
            self.failed = True
            extra = {"dependency": self.name, "reason": error.reason, "status": error.answered}
            log.warning("dependency fails", extra=extra)
        if self.breaker is None:
            return
        if error.kind in ("connect", "timeout") or (answered and error.status in _DOWN):
            self.breaker.failed()
            if not self.told and self.state is not BreakerState.CLOSED:
                self.told = True
                extra = {"dependency": self.name, "cause": error.kind, "pause_s": round(self.breaker.wait_s)}
                log.warning("dependency fails and is not called for a while", extra=extra)
        else:
            self._close(self.breaker)

    def _close(self, breaker: Breaker) -> None:
        breaker.succeeded()
        if self.told:
            self.told, self.failed = False, False
            log.warning("dependency answers again", extra={"dependency": self.name})

    def abandon(self) -> None:
        """Note that a call was cancelled."""
        if self.breaker is not None:
            self.breaker.abandoned()


def _is_broken(error: UpstreamError) -> bool:
    """Say whether a failure tells of the server or its address; what one request may ask wrongly does not."""
    if error.kind != "status":
        return error.attempts > 0
    return error.answered is None or error.answered in _MISLED or error.answered >= 500


class Limited:
    """A model that is called through a fuse and with a bounded number of others.

    Args:
        model: the model itself.
        fuse: shared by all that lead to the same server.
        places: None for any number of calls at a time.
    """

    def __init__(self, model: Model, fuse: Fuse, places: Places | None = None) -> None:
        self._model = model
        self.fuse = fuse
        self.places = places

    async def complete(self, path: str, body: bytes, headers: CallerHeaders) -> Reply:
        """Ask for a whole reply.

        Raises:
            RequestError: 503 when too many wait.
            UpstreamError: the model's own, and 502 while it is not called.
        """
        if self.places is not None or self.fuse.state is not BreakerState.CLOSED:
            await self.begin()
        else:
            self.fuse.allow()
        settled = False
        try:
            reply = await self._model.complete(path, body, headers)
            settled = True
        except UpstreamError as error:
            settled = True
            self.fuse.fail(error)
            raise
        else:
            self.fuse.succeed()
            return reply
        finally:
            self.end(settled=settled)

    def stream(self, path: str, body: bytes, headers: CallerHeaders) -> AbstractAsyncContextManager[ReplyStream]:
        """Ask for a streamed reply; errors as `complete`. Once it has begun, the server counts as up."""
        return _Held(self, self._model.stream(path, body, headers))

    async def begin(self) -> None:
        """Take a place and pass the fuse."""
        if self.fuse.state is BreakerState.OPEN:
            self.fuse.allow()
        if self.places is not None:
            await self.places.take()
        allowed = False
        try:
            self.fuse.allow()
            allowed = True
        finally:
            if not allowed and self.places is not None:
                self.places.give()

    def end(self, *, settled: bool) -> None:
        """Give the place back; what is not settled was cancelled."""
        if not settled:
            self.fuse.abandon()
        if self.places is not None:
            self.places.give()


class LimitedServer(Limited):
    """A model server, which can be asked for routes that are not judged too.

    Args:
        upstream: the client.
        fuse: of this server.
        places: None for any number of calls at a time.
    """

    def __init__(self, upstream: Upstream, fuse: Fuse, places: Places | None = None) -> None:
        super().__init__(upstream, fuse, places)
        self._upstream = upstream

    def forward(self, request: Passed) -> AbstractAsyncContextManager[UpstreamStream]:
        """Pass on a request of a route that is not judged; errors as `complete`."""
        return _Held(self, self._upstream.forward(request))


class _Held(AbstractAsyncContextManager[T]):
    """A reply under way, and the place it holds until its end."""

    def __init__(self, limited: Limited, inner: AbstractAsyncContextManager[T]) -> None:
        self._limited = limited
        self._inner = inner

    async def __aenter__(self) -> T:
        limited = self._limited
        await limited.begin()
        settled = opened = False
        try:
            reply = await self._inner.__aenter__()
            opened = True
        except UpstreamError as error:
            settled = True
            limited.fuse.fail(error)
            raise
        finally:
            if not opened:
                limited.end(settled=settled)
        limited.fuse.succeed()
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._inner.__aexit__(kind, error, trace)
        finally:
            self._limited.end(settled=True)
