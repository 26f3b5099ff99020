"""One HTTP/1.1 connection: an asyncio protocol around httptools' response parser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import httptools

from supervisors.transport.batch import batch_of
from supervisors.transport.framing import announces_more, check_framing
from supervisors.transport.messages import TransportError, TransportFault, TransportLimits

_HIGH_WATER_BYTES = 256 * 1024
"""Unread body bytes above which the socket is no longer read."""

_MAX_HEAD_BYTES = 64 * 1024
"""Bytes without any of the body: of the head, or between two pieces of the body."""
_WRITE_SLICE_BYTES = 256 * 1024
_STALE_WINDOW_S = 2.0
"""A peer that closes later than this after a request may have worked on it: sending it again is not safe."""


class Connection(asyncio.Protocol):
    """Carry one exchange at a time.

    A single timer serves all time limits of the connection: it re-arms itself lazily, so that moving the deadline
    with every chunk costs an assignment.

    Args:
        loop: the running loop.
        limits: of the client.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: TransportLimits) -> None:
        self._loop = loop
        self._batch = batch_of(loop)
        self._unsent = b""
        self._read_s = limits.read_s
        self._write_s = limits.write_s
        self._idle_s = limits.idle_s
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._writable = True
        self._timer: asyncio.TimerHandle | None = None
        self._silent_until: float | None = None
        self._silence_s: float | None = self._read_s
        self._deadline: float | None = None
        self.uses = 0
        self.used_at = 0.0
        self.closed = False
        self._busy = False
        self._reset_reply()

    def _reset_reply(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.head_done = self.complete = self.got_bytes = False
        self.error: TransportError | None = None
        self._parts: list[bytes] = []
        self._buffered = self._head_bytes = self._unparsed_bytes = self._max_bytes = 0
        self._whole = self._bodyless = self._sized = self._keep = self._reading_paused = False

    # What the client calls

    def start(
        self, head: bytes, body: bytes, *, whole_bytes: int | None, bodyless: bool, deadline: float | None = None
    ) -> Awaitable[None] | None:
        """Send a request; the reply is then read with `wait_head` and `read`. Await what is returned for a large body.

        Args:
            head: request line and headers.
            body: whole body.
            whole_bytes: collect the whole reply, at most so many bytes, without back-pressure; None streams.
            bodyless: the reply to this method has no body (HEAD).
            deadline: as for `limit`.
        """
        self._reset_reply()
        self._deadline = deadline
        self._silence_s = self._read_s if deadline is None else None
        self._silent_until = None
        self._busy = True
        self._whole = whole_bytes is not None
        self._max_bytes = whole_bytes or 0
        self._bodyless = bodyless
        self.uses += 1
        self.used_at = self._loop.time()
        if self.closed or self._transport is None:
            self._fail("the connection was closed", "reset")
        elif len(body) <= _WRITE_SLICE_BYTES:
            self._write(head + body)
        else:
            return self._write_slowly(self._transport, head, body)
        self._expect(self._silence_s if self._writable else self._write_s)
        return None

    async def wait_head(self) -> None:
        """Wait for status and headers.

        Raises:
            TransportError: the exchange failed before.
        """
        while not self.head_done:
            await self._wait()
            if self.error is not None and not self.head_done:
                raise self.error

    async def wait_complete(self) -> bytes:
        """Wait for the end of the reply and return its body.

        Raises:
            TransportError: the exchange failed.
        """
        while not self.complete and self.error is None:
            await self._wait()
        if self.error is not None:
            raise self.error
        return b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]

    async def read(self) -> bytes:
        """Return what has arrived of the body since the last call; empty at its end.

        Raises:
            TransportError: the exchange failed; what arrived before was returned.
        """
        while not self._parts:
            if self.error is not None:
                raise self.error
            if self.complete:
                return b""
            await self._wait()
        data = b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]
        self._parts.clear()
        self._buffered = 0
        if self._reading_paused and self._transport is not None and not self.closed:
            self._reading_paused = False
            self._transport.resume_reading()
            self._expect(self._silence_s)
        return data

    @property
    def is_stale(self) -> bool:
        """Say whether the failure is that of a kept connection which the peer had already closed."""
        failed_fast = self._loop.time() - self.used_at < _STALE_WINDOW_S
        return (
            self.error is not None
            and self.error.fault == "reset"
            and self.uses > 1
            and not self.got_bytes
            and failed_fast
        )

    @property
    def drained(self) -> bool:
        """Say whether the reply is complete and was read to its end."""
        return self.complete and not self._parts

    def detach(self) -> asyncio.Transport:
        """Give the socket away (to TLS); this object is of no further use."""
        if self._transport is None or self.closed:
            msg = "the connection was closed"
            raise TransportError(msg, "connect")
        transport, self._transport = self._transport, None
        self.abort()
        return transport

    def limit(self, when: float | None) -> None:
        """Limit the exchange as a whole, in loop time; None limits each silence of the peer instead."""
        self._deadline = when
        self._silence_s = self._read_s if when is None else None
        if self._writable and not self._reading_paused:
            self._expect(self._silence_s)
        self._arm()

    def finish(self) -> bool:
        """End the exchange and say whether the connection can be used again."""
        self._silent_until = self._deadline = None
        self._busy = False
        reusable = self.complete and self._keep and not self.closed and self.error is None and self._writable
        self._parts = []
        if reusable:
            self._silent_until = self._loop.time() + self._idle_s
            self._arm()
        else:
            self.abort()
        return reusable

    def abort(self) -> None:
        """Close at once; the peer sees it immediately."""
        self.closed = True
        self._silent_until = self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (also called again after an upgrade to TLS)."""
        self._transport = transport  # type: ignore[assignment]  # asyncio gives stream protocols a Transport

    def data_received(self, data: bytes) -> None:
        """Parse, note progress, wake the reader once."""
        if not self._busy or self._unsent:
            self.abort()  # bytes that answer no request: whatever follows cannot be trusted
            return
        self.got_bytes = True
        if self._silence_s is not None and self._writable and not self._reading_paused:
            self._silent_until = self._loop.time() + self._silence_s
        self._parse(data)
        if self._waiter is not None and (self.error or self.complete or (self.head_done and not self._whole)):
            self._wake()

    def _parse(self, data: bytes) -> None:
        self._unparsed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the peer switched protocols", "protocol")
        except httptools.HttpParserError:
            self._fail("the reply is not HTTP/1.1", "protocol")
        if self._head_bytes > _MAX_HEAD_BYTES or self._unparsed_bytes > _MAX_HEAD_BYTES:
            self._fail("the reply's headers, or what frames its body, are larger than 64 KiB", "protocol")
        elif self._whole and not self.complete and announces_more(data, b"".join(self._parts[-1:]), self._max_bytes):
            self._fail(f"the reply is larger than {self._max_bytes} bytes", "too_large")

    def eof_received(self) -> None:
        """Accept the end of a body that has no other delimiter."""
        if self._busy and self.head_done and not self.complete and not self._sized and self.error is None:
            self.complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is still under way."""
        self.closed = True
        if self._busy and not self.complete and self.error is None:
            if self.head_done:
                self._fail("the connection ended before the reply was complete", "truncated")
            else:
                self._fail("the connection ended before a reply came", "reset")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release_writer()

    def pause_writing(self) -> None:
        """Note that the peer does not take more."""
        self._writable = False
        self._expect(self._write_s)

    def resume_writing(self) -> None:
        """Note that the peer takes data again."""
        self._writable = True
        self._expect(self._silence_s)
        self._release_writer()

    # httptools callbacks

    def on_message_begin(self) -> None:
        """Refuse a second reply to one request."""
        if self.complete:
            self._keep = False
            self._fail("the peer sent more than one reply", "protocol")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect one header."""
        self._head_bytes += len(name) + len(value)
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Take the status; skip interim replies."""
        status: int = self._parser.get_status_code()
        if status < 200:
            self.headers = []
            if status < 100:
                self._fail("the reply has no status", "protocol")
            return
        self.status = status
        try:
            self._sized = check_framing(self.headers, 0 if self._bodyless else self._max_bytes)
        except TransportError as error:
            self._fail(str(error), error.fault)
            return
        self.head_done = True
        self._keep = bool(self._parser.should_keep_alive())
        self._release_writer()  # a large body that is still being sent was answered early
        if self._bodyless:
            self._keep = False  # the parser would wait for the body that HEAD announces
            self.complete = True

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body; stop reading when the consumer is behind."""
        self._unparsed_bytes = 0
        if self._bodyless:
            return
        self._parts.append(data)
        self._buffered += len(data)
        if self._whole:
            if self._buffered > self._max_bytes and self.error is None:
                self._fail(f"the reply is larger than {self._max_bytes} bytes", "too_large")
        elif self._buffered > _HIGH_WATER_BYTES and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._silent_until = None
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note the end of the reply, but not of an interim one."""
        if self.head_done:
            self.complete = True

    # Inside

    async def _wait(self) -> None:
        if self.error is not None:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _release_writer(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _write(self, data: bytes) -> None:
        if self._batch.waits():
            self._unsent = data
            self._batch.defer(self._flush)
        elif self._transport is not None:
            self._transport.write(data)

    def _flush(self) -> None:
        data, self._unsent = self._unsent, b""
        if data and not self.closed and self._transport is not None:
            self._transport.write(data)

    async def _write_slowly(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        """Send a large body in slices, waiting for the peer; stop when it has already answered."""
        self._arm()
        transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), _WRITE_SLICE_BYTES):
            transport.write(view[start : start + _WRITE_SLICE_BYTES])
            if not self._writable and not self.closed:
                self._expect(self._write_s)
                self._drained = self._loop.create_future()
                await self._drained
            if self.closed or self.head_done or self.error is not None:
                self._keep = False
                break
        self._expect(self._silence_s if self._writable else self._write_s)

    def _fail(self, message: str, fault: TransportFault) -> None:
        self.error = TransportError(message, fault, sent=True, status=self.status or None)
        self.abort()
        self._wake()
        self._release_writer()

    def _expect(self, seconds: float | None) -> None:
        if self._busy:
            self._silent_until = None if seconds is None else self._loop.time() + seconds
            self._arm()

    def _next_limit(self) -> float | None:
        if self._deadline is None or self._silent_until is None:
            return self._silent_until if self._deadline is None else self._deadline
        return min(self._deadline, self._silent_until)

    def _arm(self) -> None:
        limit = self._next_limit()
        if limit is None or self.closed:
            return
        if self._timer is not None:
            if self._timer.when() <= limit:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(limit, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        limit = self._next_limit()
        if limit is None:
            return
        if self._loop.time() < limit:
            self._arm()
        elif not self._busy:
            self.abort()
        elif not self.complete:
            self._fail("the time limit passed", "timeout")
