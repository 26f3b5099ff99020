"""The server's HTTP/1.1 protocol: one write an answer, and for judged routes a way past the messages of ASGI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from proxy.direct import DIRECT, Direct, JoiningTransport
from proxy.wire.errors import RequestError, openai_reply
from supervisors.transport.batch import batch_of


class EdgeProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a `JoiningTransport`; the scope of a request holds its `Direct`."""

    stall_s = 60.0
    head_s = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to serve one connection."""
        self._joining = JoiningTransport(transport, batch_of(asyncio.get_running_loop()))
        self._served: Any = vars(self)["app"]  # uvicorn does not say what it is
        self._running: RequestResponseCycle | None = None
        self._latest: RequestResponseCycle | None = None
        self._deaf = False
        self._in_head = self._in_body = False
        self._begun = 0
        self._bare_bytes = 0
        self._head_bytes = 0
        self._first_bytes = 0
        self._read_bytes = 0
        self._head_from = 0.0
        self._until: float | None = None
        self._stalled: asyncio.TimerHandle | None = None
        super().connection_made(cast("asyncio.Transport", self._joining))
        self._wait(self.head_s)

    def data_received(self, data: bytes) -> None:
        """Serve what has come; a head, and what frames a body, have a limit of bytes, and a head one of time."""
        if self._deaf:
            return
        self._read_bytes = len(data)
        self._bare_bytes += len(data)
        until, in_body = self._until, self._in_body
        cycle = self._latest
        at_its_start = not self._in_head and (cycle is None or not cycle.more_body)
        self._begun = 0
        super().data_received(data)
        if self._in_head:
            if self._begun:
                self._first_bytes = len(data)
                # Behind a body, or behind another request, the head may be the smallest part of what was read.
                self._head_bytes = len(data) if at_its_start and self._begun == 1 else 0
            else:
                self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._reject_head()
            else:
                self._wait(self._head_from + self.head_s - self.loop.time())
        elif self._in_body and self._bare_bytes > MOST_HEAD_BYTES:
            self._reject_bare()
        elif self._running is None or self._running.response_complete:
            if until is None or in_body is not self._in_body:  # the end of a body whose answer has left
                self._wait(self.timeout_keep_alive)
            else:  # what begins no request buys no time
                self._until = until

    def on_message_begin(self) -> None:
        """Begin to read the head of a request."""
        super().on_message_begin()
        self._in_head = True
        self._begun += 1
        self._head_bytes = 0
        self._head_from = self.loop.time()

    def on_headers_complete(self) -> None:
        """Begin to serve one request; refuse what another server on the way could read as two.

        As in uvicorn, but the target of most requests is known, and there is no limit of connections to look at.
        """
        parser, url = cast("Any", self.parser), self.url  # there is one while it calls back
        self._in_head = False
        self._in_body = True
        self._bare_bytes = 0
        self.headers = []  # what the scope holds is complete: trailers are no headers
        at_most = self._read_bytes if self._begun else self._first_bytes + self._head_bytes + self._read_bytes
        if at_most > MOST_HEAD_BYTES and self._head_size() > MOST_HEAD_BYTES:
            self._reject_head()
            return
        if parser.should_upgrade():
            self._reject(400, "Upgrades are not served; leave the Upgrade header out.")
            return
        if not url.startswith(b"/") and url != b"*":
            self._reject(400, "The request target must be a path.")
            return
        version: str = parser.get_http_version()
        scope = cast("dict[str, Any]", self.scope)
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        read = _read_target if len(url) <= _LONGEST_KNOWN else _read_target.__wrapped__
        scope["path"], scope["raw_path"], scope["query_string"] = read(url)
        cycle = self.cycle = self._latest = RequestResponseCycle(  # eleven keywords would cost as much again
            self.scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version != "1.0" and parser.should_keep_alive(),
            self.on_response_complete,
        )
        scope["extensions"] = {DIRECT: Direct(cycle, self._joining)}  # ours, not one of ASGI
        if self._running is None or self._running.response_complete:
            self._start(cycle)
        else:  # pipelined: served in its turn
            self.pipeline.appendleft((cycle, self._served))
            if (
                len(self.pipeline) >= _MOST_PIPELINED
            ):  # with a few it goes on, for only reading shows that a caller left
                self.flow.pause_reading()

    def _head_size(self) -> int:
        """Return the bytes of the head that is complete, but for spaces that mean nothing."""
        headers = cast("dict[str, Any]", self.scope)["headers"]
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in headers])

    def _reject_bare(self) -> None:
        """End what sends trailers, or extensions of chunks, and none of its body."""
        if self._running is not None and self._running.response_complete:
            self._deaf = True
            self._joining.close()
        else:
            self._reject(431, f"At most {MOST_HEAD_BYTES} bytes may stand between two pieces of a body, or behind it.")

    def _reject_head(self) -> None:
        self._reject(431, f"The head of a request may have {MOST_HEAD_BYTES} bytes.")

    def _start(self, cycle: RequestResponseCycle) -> None:
        self._running = cycle
        self._start_asgi_task(cycle, self._served)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, unless it belongs to a request that was refused."""
        self._bare_bytes = 0
        if not self._deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Serve the next pipelined request, or wait for one.

        As in uvicorn, but one timer serves the whole connection: it looks how long the connection has been idle.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.pop()[0])
        elif not self._in_head:  # the rest of a body may follow its answer, though not for ever
            self._wait(self.head_s if self._in_body else self.timeout_keep_alive)

    def _wait(self, seconds: float) -> None:
        """Close the connection after so many seconds, unless something comes."""
        self._until = self.loop.time() + seconds
        timer = self.timeout_keep_alive_task
        if timer is not None and timer.when() > self._until:
            timer.cancel()
            timer = None
        if timer is None:
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self._look)

    def _unset_keepalive_if_required(self) -> None:
        self._until = None

    def _look(self) -> None:
        self.timeout_keep_alive_task = None
        if self._until is None or self.transport.is_closing():
            return
        left_s = self._until - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self._look)
        elif self._in_head and self._running is not None and not self._running.response_complete:
            self._reject(408, "The head of the next request did not come in time.")
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """Wait for a caller that takes nothing, but not for ever: it holds a place that others want."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._end_stall()
        super().resume_writing()

    def _end_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End to serve the connection."""
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
        self.pipeline.clear()
        super().connection_lost(exc)
        if running is not None:
            running.message_event.set()
        self._end_stall()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP request."""
        self._reject(400, msg)

    def _reject(self, status: int, message: str) -> None:
        """Answer an error and close: where a body would begin, nothing may be read as the next request.

        An answer that is under way is completed instead, and closes the connection: nothing may overtake it or stand
        in its middle.
        """
        self._deaf = True
        self._in_head = False
        self.pipeline.clear()
        running = self._running
        if running is not None and not running.response_complete:
            running.keep_alive = False
            if running is not self.cycle or not running.more_body or running.response_started:
                return
            running.disconnected = True  # it is its own body that is broken: nothing can come of it
            running.message_event.set()
        reply = openai_reply(RequestError(status, "bad_request", message), "")
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(reply.body)
        self._joining.write_whole(STATUS_LINE[status] + head + reply.body)
        self._joining.close()


MOST_HEAD_BYTES: Final = 64 * 1024
"""Request line and headers together."""
HEAD_S: Final = 30.0
"""Longest time for them, and for the first byte of a connection."""
STALL_S: Final = 60.0
"""How long a caller may take nothing of what is sent."""
_MOST_PIPELINED: Final = 8


def server_settings(
    app: Callable[..., Awaitable[None]],
    *,
    lifespan: Literal["on", "off"] = "on",
    end_s: int | None = None,
    stall_s: float = STALL_S,
    head_s: float = HEAD_S,
) -> uvicorn.Config:
    """Return how the server runs an application: the protocol of this module, uvloop, one log, no other protocols.

    Args:
        app: what is served.
        lifespan: whether it is told of start and stop.
        end_s: longest time of a graceful end, None for no limit.
        stall_s: how long a caller may take nothing of what is sent.
        head_s: longest time for the head of a request, and for the first byte of a connection.
    """
    protocol = type("EdgeProtocol", (EdgeProtocol,), {"stall_s": stall_s, "head_s": head_s})
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=protocol,
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=end_s,
    )


@lru_cache(256)
def _read_target(url: bytes) -> tuple[str, bytes, bytes]:
    """Return path, raw path and query string, as ASGI wants them."""
    parsed = httptools.parse_url(url)
    raw: bytes = parsed.path
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, raw, parsed.query or b""


_LONGEST_KNOWN: Final = 256
"""Longer request targets are not remembered."""
