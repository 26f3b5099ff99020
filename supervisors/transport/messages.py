"""The values of the HTTP client: request, reply, limits, and the one error it raises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from supervisors.errors import GuardrailError
from supervisors.light import light_dataclass

Headers = tuple[tuple[str, str], ...]
"""Header fields in order; of a reply with names in lower case."""

TransportFault = Literal["request", "connect", "timeout", "reset", "truncated", "protocol", "too_large"]
"""What went wrong.

``request``: ours is not sendable. ``connect``: nobody was reached (refused, DNS, TLS, forbidden address). ``timeout``:
a limit of time passed. ``reset``: the connection ended before a reply began. ``truncated``: it ended before the reply
did. ``protocol``: what came is not HTTP. ``too_large``: the reply exceeds the limit.
"""

_FRAMING_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "expect"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_VALUE = re.compile(r"[\r\n\0]")
_BAD_TARGET = re.compile(r"[\x00-\x20\x7f-\uffff\U00010000-\U0010ffff]")


class TransportError(GuardrailError):
    """One HTTP exchange failed. The message names neither URL nor content.

    Args:
        message: what happened.
        fault: kind of failure.
        sent: whether any byte of the request may have reached the peer.
        status: of the reply, if its head came.
    """

    def __init__(self, message: str, fault: TransportFault, *, sent: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.fault: TransportFault = fault
        self.sent = sent
        self.status = status


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bound time, memory and sockets.

    Args:
        connect_s: name look-up, connection and TLS handshake together.
        read_s: longest silence of the peer while no `timeout_s` is running.
        write_s: longest time without progress while a request is being sent.
        idle_s: how long an unused connection is kept.
        max_connections: open connections an origin; further requests wait for a free one.
        max_reply_bytes: largest body of a whole reply, after decoding.
    """

    connect_s: float = 5.0
    read_s: float = 600.0
    write_s: float = 30.0
    idle_s: float = 30.0
    max_connections: int = 256
    max_reply_bytes: int = 64 * 2**20


@light_dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request.

    Args:
        method: verb in upper case.
        url: absolute http or https URL without user info.
        headers: fields beside those the client sets itself (host, lengths, connection, accept-encoding).
        body: whole body.
        timeout_s: for `send` the time until the reply is complete, for `stream` until its head is there;
            None leaves only the limits.
        until: the same as loop time, for who knows it already; it holds in the place of `timeout_s`.
        max_reply_bytes: smaller limit than that of the client for this reply.
    """

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    timeout_s: float | None = None
    max_reply_bytes: int | None = None
    until: float | None = None


@light_dataclass(frozen=True, slots=True)
class HttpReply:
    """One whole reply, its body decoded from transfer and content encoding."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return find_header(self.headers, name)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads: the origin, and what stands in the request line and in ``host``."""

    secure: bool
    host: str
    port: int
    authority: str
    path: str

    @property
    def origin(self) -> tuple[bool, str, int]:
        """Return the key of the connection pool."""
        return self.secure, self.host, self.port


def find_header(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """Return the first value of a header given in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


@lru_cache(maxsize=1024)
def parse_target(url: str) -> Target:
    """Split a URL.

    Raises:
        TransportError: fault ``request``: not an absolute http(s) URL, user info, or characters that need escaping.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or _BAD_TARGET.search(url):
        msg = "the URL must be absolute, http or https, without user info, and escaped"
        raise TransportError(msg, "request")
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    standard = 443 if secure else 80
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port in (None, standard) else f"{host}:{port}"
    return Target(secure, parts.hostname, port or standard, authority, path)


def render_head(request: HttpRequest, authority: str, path: str, proxy_authorization: str | None = None) -> bytes:
    """Write request line and headers.

    Args:
        request: what to send.
        authority: value of ``host``.
        path: request target.
        proxy_authorization: value of that header, or None.

    Raises:
        TransportError: fault ``request``: a header that could split the message, or one that is the client's own.
    """
    lines = [_render_fields(request.method, path, authority, request.headers)]
    if request.body or request.method not in ("GET", "HEAD"):
        lines.append(b"content-length: %d\r\n" % len(request.body))
    if proxy_authorization is not None:
        lines.append(_latin(f"proxy-authorization: {proxy_authorization}\r\n"))
    lines.append(b"\r\n")
    return b"".join(lines)


@lru_cache(maxsize=256)
def _render_fields(method: str, path: str, authority: str, headers: Headers) -> bytes:
    """Write what is the same for most requests to one origin: the request line and the caller's fields, checked."""
    lines = [f"{method} {path} HTTP/1.1\r\nhost: {authority}\r\naccept-encoding: identity\r\n"]
    for name, value in headers:
        if not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
            msg = "a header name or value contains a character that is not allowed"  # never the value: it may be a key
            raise TransportError(msg, "request")
        lower = name.lower()
        if lower in _FRAMING_HEADERS:
            msg = f"the header {lower!r} is set by the client itself"
            raise TransportError(msg, "request")
        if lower != "accept-encoding":
            lines.append(f"{name}: {value}\r\n")
    return _latin("".join(lines))


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        msg = "a header value is not Latin-1"
        raise TransportError(msg, "request") from None
