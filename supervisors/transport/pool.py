"""Keep connections per origin and run one exchange on each, up to the head of the reply."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from supervisors.light import light_dataclass
from supervisors.transport.connection import Connection
from supervisors.transport.dialing import Dialer
from supervisors.transport.messages import Target, TransportError
from supervisors.transport.slots import Slots


@dataclass(slots=True)
class _Origin:
    """Connections to one origin: a slot for each that may be busy, and the idle ones, last used last."""

    slots: Slots
    idle: list[Connection] = field(default_factory=list[Connection])

    def take_idle(self) -> Connection | None:
        """Return the connection used last, dropping those that were closed meanwhile."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        return None


@light_dataclass(frozen=True, slots=True)
class Outgoing:
    """A request ready to be sent.

    Args:
        target: where to.
        head: request line and headers.
        body: whole body.
        bodyless: the reply has no body (HEAD).
        whole_bytes: collect the whole reply, at most so many bytes; None streams it.
        deadline: loop time for the exchange (streams: for its head), None for no limit.
    """

    target: Target
    head: bytes = field(repr=False)
    body: bytes = field(repr=False)
    bodyless: bool
    whole_bytes: int | None
    deadline: float | None


@light_dataclass(frozen=True, slots=True)
class Lease:
    """One exchange under way: its connection, to be given back exactly once."""

    connection: Connection
    _pool: Pool
    _origin: _Origin

    def release(self, *, usable: bool) -> None:
        """Keep the connection if the exchange ended well, close it at once otherwise."""
        self._pool.put_back(self._origin, self.connection, usable=usable)


class Pool:
    """Hand out connections.

    Args:
        dialer: opens new ones.
        max_connections: busy or idle ones an origin.
    """

    def __init__(self, dialer: Dialer, max_connections: int) -> None:
        self._dialer = dialer
        self._max_connections = max_connections
        self._origins: dict[tuple[bool, str, int], _Origin] = {}
        self._closed = False

    @property
    def idle(self) -> int:
        """Count the open connections that carry no request."""
        return sum([not connection.closed for origin in self._origins.values() for connection in origin.idle])

    def close(self) -> None:
        """Close idle connections and refuse new exchanges; those under way go on."""
        self._closed = True
        for origin in self._origins.values():
            while origin.idle:
                origin.idle.pop().abort()

    async def open(self, outgoing: Outgoing) -> Lease:
        """Send a request and wait for the head of the reply.

        Raises:
            TransportError: no reply came.
        """
        if self._closed:
            msg = "the client is closed"
            raise TransportError(msg, "connect")
        origin = self._origins.get(outgoing.target.origin)
        if origin is None:
            origin = self._origins[outgoing.target.origin] = _Origin(Slots(self._max_connections))
        if not origin.slots.take_free():
            await _wait_for(origin.slots, outgoing.deadline)
        opened = False
        try:
            connection = await self._exchange(origin, outgoing)
            opened = True
            return Lease(connection, self, origin)
        finally:
            if not opened:
                origin.slots.give()

    def put_back(self, origin: _Origin, connection: Connection, *, usable: bool) -> None:
        """Take a connection back and free its slot (called by `Lease.release`)."""
        origin.slots.give()
        if not usable:
            connection.abort()
        elif connection.finish():
            if self._closed:
                connection.abort()
            else:
                origin.idle.append(connection)

    async def _exchange(self, origin: _Origin, outgoing: Outgoing) -> Connection:
        kept = origin.take_idle()
        if kept is not None:
            try:
                await _send(kept, outgoing)
            except TransportError:
                if not kept.is_stale:
                    raise
            else:
                return kept
        fresh = await self._dial(outgoing)
        await _send(fresh, outgoing)
        return fresh

    async def _dial(self, outgoing: Outgoing) -> Connection:
        try:
            async with asyncio.timeout_at(outgoing.deadline):
                return await self._dialer.dial(outgoing.target)
        except TimeoutError:
            msg = "no connection within the time limit"
            raise TransportError(msg, "timeout") from None


async def _send(connection: Connection, outgoing: Outgoing) -> None:
    done = False
    try:
        sending = connection.start(
            outgoing.head,
            outgoing.body,
            whole_bytes=outgoing.whole_bytes,
            bodyless=outgoing.bodyless,
            deadline=outgoing.deadline,
        )
        if sending is not None:
            await sending
        await connection.wait_head()
        done = True
    finally:
        if not done:  # failure or cancellation: the peer sees the end at once
            connection.abort()


async def _wait_for(slots: Slots, deadline: float | None) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await slots.take()
    except TimeoutError:
        msg = "no free connection within the time limit"
        raise TransportError(msg, "timeout") from None
