"""Settings that are well-formed and yet probably not meant so: base URLs, and a secret that keeps nothing secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from proxy.config import Config
from proxy.declared import UpstreamConfig

_SECRET_CHARS: Final = 32
_ROUTES: Final = ("/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/models")


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something outside the config that is probably not as meant.

    Args:
        path: setting that names it.
        message: what is wrong and what would be right.
    """

    path: str
    message: str


def find_misled(config: Config) -> Iterator[Doubt]:
    """Yield what is doubtful of the journal, and base URLs that look like a route or a server without its version."""
    key = config.journal.hmac_key
    if key is not None and len(key.value) < _SECRET_CHARS:
        message = f"it is shorter than {_SECRET_CHARS} characters: who guesses it can guess the texts behind digests"
        yield Doubt("journal.hmac_key", message)
    places, most = config.journal.max_backlog, config.limits.max_in_flight
    if places < most:
        message = f"every exchange takes a place of these {places}, so limits.max_in_flight {most} is never reached"
        yield Doubt("journal.max_backlog", message)
    for name, upstream in config.upstreams.items():
        if not isinstance(upstream, UpstreamConfig) or upstream.base_url is None or upstream.vendor != "openai":
            continue
        try:
            path = urlsplit(upstream.base_url).path.rstrip("/")
        except ValueError:  # no address at all, which is an error of its own
            continue
        route = next((route for route in _ROUTES if path.endswith(route)), None)
        if route is not None:
            right = path.removesuffix(route) or "/v1"
            message = f"this is the address of a route: requests would go to {path}/chat/completions; end it at {right}"
            yield Doubt(f"upstreams.{name}.base_url", message)
        elif not path:
            message = "it has no path: requests would go to /chat/completions; most servers want /v1 at its end"
            yield Doubt(f"upstreams.{name}.base_url", message)
