"""Style and script of the page, as they lie beside this module; the script is allowed by its hash alone."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files


def _read(name: str) -> str:
    return files("evals.report").joinpath(name).read_text("utf-8")


def figure_style() -> str:
    """Return colours and letters of figures, light and dark."""
    return _read("figure.css")


def page_style() -> str:
    """Return the style of the page, figures included."""
    return figure_style() + _read("page.css")


def page_script() -> str:
    """Return the script of the page; without it the page has the same numbers and figures."""
    return _read("page.js")


def content_policy(script: str) -> str:
    """Return the content security policy of a page: its own style, this script by hash, nothing from elsewhere."""
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
