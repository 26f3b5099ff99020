"""Servers of tools that a caller names and the provider calls: refused unless every policy allows them (wire §2.3).

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from proxy.wire.errors import RequestError, unsupported
from proxy.wire.segments import as_list, as_object

SERVER_ROUTES: Final = frozenset({"/v1/responses", "/v1/messages"})
"""Routes whose providers call servers that a request names."""
_SERVER_FIELDS: Final = ("headers", "authorization", "server_url")
_ODD: Final = re.compile(r"%|\\|/\.{1,2}(?:/|\Z)|[\x00-\x20\x7f]")
"""What two readers of an address could read differently."""

Allowed = Sequence[Sequence[str]]


def check_server(url: str) -> str:
    """Return an address that a policy allows; raises ValueError when it is none."""
    parts = _split(url)
    if parts is None or parts.query:
        right = "https://mcp.example.com/mcp, without user, query, fragment or escape"
        msg = f"{url[:200]!r} must be an address such as {right}"
        raise ValueError(msg)
    return url


def refuse_servers(body: Mapping[str, Any], allowed: Allowed) -> None:
    """Refuse tools that make the provider call an address, or use credentials, of the caller's choice.

    Args:
        body: of a request to one of `SERVER_ROUTES`.
        allowed: one list a policy; an address must be in each of them, and none at all allows nothing.

    Raises:
        RequestError: 400 ``unsupported_parameter`` with the path.
    """
    for path, tool in _tools_of(body):
        if tool.get("type") == "mcp" and not _is_allowed(tool.get("server_url"), allowed):
            for name in _SERVER_FIELDS:
                if tool.get(name) is not None:
                    raise unsupported(f"{path}.{name}")
    servers = body.get("mcp_servers")
    entries = [as_object(one) or {} for one in as_list(servers) or [None]]
    if servers and not all(_is_allowed(entry.get("url"), allowed) for entry in entries):
        message = "'mcp_servers' would make the provider call servers that no policy allows; leave them out."
        raise RequestError(400, "unsupported_parameter", message, param="mcp_servers")


def _is_allowed(url: object, allowed: Allowed) -> bool:
    parts = _split(url) if isinstance(url, str) else None
    if parts is None or not allowed:
        return False
    return all(any(_covers(known, parts) for known in addresses) for addresses in allowed)


def _covers(known: str, parts: SplitResult) -> bool:
    """Say whether an address is the known one or lies below it."""
    base = urlsplit(known)
    if (base.hostname, base.port or 443) != (parts.hostname, parts.port or 443):
        return False
    path = base.path.rstrip("/")
    return parts.path.rstrip("/") == path or parts.path.startswith(f"{path}/")


def _split(url: str) -> SplitResult | None:
    """Return the parts of an address that can be read in one way only, None for any other."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    if not usable or "@" in parts.netloc or "#" in url or not url.isascii() or _ODD.search(url):
        return None
    return parts


def _tools_of(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    holders = [("", body)]
    for index, value in enumerate(as_list(body.get("input")) or []):
        item = as_object(value)
        if item is not None:
            holders.append((f"input[{index}].", item))
    for prefix, holder in holders:
        for index, value in enumerate(as_list(holder.get("tools")) or []):
            tool = as_object(value)
            if tool is not None:
                yield f"{prefix}tools[{index}]", tool
