"""The web console: three static files that read the admin routes; no build step, no external request."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

CONTENT_TYPES: Final[Mapping[str, str]] = {
    "index.html": "text/html; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
}
SECURITY: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def read_file(name: str) -> bytes | None:
    """Return one of the console's files, None for any other name."""
    if name not in CONTENT_TYPES:
        return None
    return files("proxy.console").joinpath(name).read_bytes()
