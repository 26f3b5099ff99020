"""The name somebody probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 3


def candidates(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known names that were probably meant, best first: a name that is only begun is like those that go on.

    A close match decides only where no name begins with the given one, and none has all of its words in it.
    """
    lower = name.lower()
    names = {one.lower(): one for one in sorted(known)}
    words = set(_words(lower))
    begun = [one for one in names if one.startswith(lower)]
    holding = [one for one in names if words <= set(_words(one))]
    near = begun or holding or get_close_matches(lower, names, 1, 0.7)
    return tuple([names[one] for one in sorted(near, key=lambda one: (len(one), one))[:_MOST]])


def _words(name: str) -> list[str]:
    return re.findall("[a-z]+|[0-9.]+", name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like the given one, None when none is."""
    names = {one.lower(): one for one in sorted(known)}
    near = get_close_matches(name.lower(), names, 1)
    return names[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, or nothing when no known name is like it."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near is not None else ""
