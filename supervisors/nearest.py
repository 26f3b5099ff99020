"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like the given one, None when none is."""
    names = {one.lower(): one for one in sorted(known)}
    near = get_close_matches(name.lower(), names, 1)
    return names[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, or nothing when no known name is like it."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near is not None else ""
