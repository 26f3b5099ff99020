"""Which addresses may be called (X-03): checks of a base URL at load, and of a resolved address at connect."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA: frozenset[Address] = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_NUMBERISH = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)
_HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?", re.IGNORECASE)


def is_forbidden(text: str) -> bool:
    """Say whether an IP address is link-local, a cloud's metadata service, unspecified, or multicast."""
    address: Address = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _embedded_nat64(address)
        if inner is not None:
            address = inner
    return address.is_link_local or address.is_unspecified or address.is_multicast or address in _METADATA


def _embedded_nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if int(address) >> 32 == 0x64FF9B << 64 else None


def check_base_url(url: str, *, allow_link_local: bool = False) -> None:
    """Refuse a base URL that could lead elsewhere than it seems to.

    Args:
        url: base URL from the config.
        allow_link_local: accept link-local and metadata addresses.

    Raises:
        ValueError: says what is wrong and what would be right; quotes no more of the URL than its host.
    """
    if any(char.isspace() or not char.isprintable() for char in url) or "\\" in url:
        msg = "a base URL has no white space, control characters or backslashes"
        raise ValueError(msg)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        msg = "a base URL starts with http:// or https:// and a host, as in http://127.0.0.1:8080/v1"
        raise ValueError(msg)
    if "@" in parts.netloc:
        msg = "a base URL has no user info; give the key in api_key"
        raise ValueError(msg)
    if "?" in url or "#" in url:
        msg = "a base URL has no query and no fragment; end it with the path, as in https://host/v1"
        raise ValueError(msg)
    _check_port(parts.netloc)
    _check_host(parts.hostname or "", allow_link_local=allow_link_local)


def _check_port(netloc: str) -> None:
    port = re.search(r":([^:\]]*)$", netloc)
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port[1]) and 0 < int(port[1]) < 65536):
        msg = f"the port of a base URL is a number from 1 to 65535, not {port[1]!r}"
        raise ValueError(msg)


def _check_host(host: str, *, allow_link_local: bool) -> None:
    address = _to_address(host)
    if address is None and not _HOST_NAME.fullmatch(host):
        msg = f"{host!r} is not a host name; write an international name in its xn-- form"
        raise ValueError(msg)
    forbidden = host.rstrip(".") in _METADATA_NAMES if address is None else is_forbidden(address)
    if forbidden and not allow_link_local:
        msg = f"{host!r} is a link-local, metadata, unspecified or multicast address; allow_link_local permits it"
        raise ValueError(msg)


def _to_address(host: str) -> str | None:
    """Return the host if it is an IP address in its one canonical spelling, None if it is a name."""
    if not _NUMBERISH.fullmatch(host) and ":" not in host:
        return None
    try:
        canonical = str(ipaddress.ip_address(host))
    except ValueError:
        canonical = ""
    if canonical != host:
        msg = f"the IP address {host!r} is written in an odd way; use plain dotted decimals or the short IPv6 form"
        raise ValueError(msg)
    return canonical
