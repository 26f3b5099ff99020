"""Open connections: name look-up with a check of every address, TCP, TLS, and the way through a proxy."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote, urlsplit

from supervisors.transport.addresses import is_forbidden
from supervisors.transport.connection import Connection
from supervisors.transport.messages import Target, TransportError, TransportLimits, parse_target


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy between us and everybody: where it is, and its ``proxy-authorization`` value or None."""

    target: Target
    authorization: str | None = field(repr=False)

    @classmethod
    def from_url(cls, url: str) -> Proxy:
        """Read ``http://[user:password@]host:port``.

        Raises:
            ValueError: not of that form.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            msg = "a proxy is written http://host:port or http://user:password@host:port"
            raise ValueError(msg)
        target = parse_target(f"http://{parts.netloc.rpartition('@')[2]}")
        if parts.username is None:
            return cls(target, None)
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return cls(target, "Basic " + base64.b64encode(pair.encode()).decode())


@dataclass(frozen=True, slots=True)
class Dialer:
    """Open connections under one set of rules.

    Args:
        limits: of the client.
        tls: context of https targets.
        proxy: None dials directly.
        allow_link_local: accept link-local and metadata addresses.
    """

    limits: TransportLimits
    tls: ssl.SSLContext
    proxy: Proxy | None
    allow_link_local: bool

    async def dial(self, target: Target) -> Connection:
        """Open a connection; the address that was checked is the address that is used.

        Raises:
            TransportError: fault ``connect`` or ``timeout``.
        """
        try:
            async with asyncio.timeout(self.limits.connect_s):
                if self.proxy is None:
                    return await self._dial_direct(target, secure=target.secure)
                self._check_literal(target.host)  # a name is resolved by the proxy, which has its own rules
                connection = await self._dial_direct(self.proxy.target, secure=False, checked=False)
                return await self._tunnel(connection, target, self.proxy) if target.secure else connection
        except TimeoutError:
            msg = "no connection within the time limit"
            raise TransportError(msg, "timeout") from None
        except ssl.SSLError:
            msg = "the TLS handshake failed"
            raise TransportError(msg, "connect") from None
        except (OSError, ValueError):  # ValueError: a host that is no name and no address
            msg = "no connection could be made"
            raise TransportError(msg, "connect") from None

    async def _dial_direct(self, target: Target, *, secure: bool, checked: bool = True) -> Connection:
        addresses = await self._resolve(target.host, target.port)
        if checked and not self.allow_link_local:
            addresses = [address for address in addresses if not is_forbidden(address)]
        if not addresses:
            msg = "the host has no address that may be called"
            raise TransportError(msg, "connect")
        loop = asyncio.get_running_loop()
        share_s = self.limits.connect_s / len(addresses)
        for position, address in enumerate(addresses, start=1):
            try:
                async with asyncio.timeout(None if position == len(addresses) else share_s):
                    _, connection = await loop.create_connection(
                        lambda: Connection(loop, self.limits),
                        address,
                        target.port,
                        ssl=self.tls if secure else None,
                        server_hostname=target.host if secure else None,
                    )
                    return connection
            except OSError:  # TimeoutError too: try the next address
                if position == len(addresses):
                    raise
        raise AssertionError

    def _check_literal(self, host: str) -> None:
        last = host.rstrip(".").rsplit(".", 1)[-1]  # a number at the end makes an address, in whatever form
        literal = ":" in host or last.isdigit() or last.lower().startswith("0x")
        if literal and not self.allow_link_local and is_forbidden(host):
            msg = "the host has no address that may be called"
            raise TransportError(msg, "connect")

    @staticmethod
    async def _resolve(host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def _tunnel(self, connection: Connection, target: Target, proxy: Proxy) -> Connection:
        """Ask the proxy for a tunnel and start TLS inside it."""
        done = False
        try:
            host = f"[{target.host}]" if ":" in target.host else target.host
            lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"host: {host}:{target.port}"]
            if proxy.authorization is not None:
                lines.append(f"proxy-authorization: {proxy.authorization}")
            head = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
            connection.start(head, b"", whole_bytes=None, bodyless=True)
            await connection.wait_head()
            if connection.status != 200:
                msg = f"the proxy refused the connection with status {connection.status}"
                raise TransportError(msg, "connect")
            inner = await self._upgrade(connection, target)
            done = True
            return inner
        finally:
            if not done:
                connection.abort()

    async def _upgrade(self, connection: Connection, target: Target) -> Connection:
        loop = asyncio.get_running_loop()
        inner = Connection(loop, self.limits)
        outer = connection.detach()
        transport = await loop.start_tls(outer, inner, self.tls, server_hostname=target.host)
        inner.connection_made(cast("asyncio.BaseTransport", transport))  # start_tls leaves this to the caller
        return inner
