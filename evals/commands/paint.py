"""Colour for a terminal: it repeats what the letters say and carries nothing of its own (H-177)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BOLD, _DIM, _YELLOW, _CYAN, _END = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[36m", "\x1b[0m"
_BAR = re.compile("([█]*)([▒]*)([┈]*)")
_DRAWN = re.compile("[█▒┈]{20}")
_RULE = re.compile("-{2,}(  +-{1,})*")


def wants_colour(environ: Mapping[str, str], *, terminal: bool, refused: bool) -> bool:
    """Say whether lines may be painted: on a terminal that can, unless somebody said no."""
    return terminal and not refused and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(line: str) -> str:
    """Return a line of a result with its parts told apart: titles, bars, rules of tables, warnings."""
    if line.startswith(("warning:", "note:")):
        return f"{_YELLOW}{line}{_END}"
    if _RULE.fullmatch(line.rstrip()):
        return f"{_DIM}{line}{_END}"
    title, planned, rest = line.partition("   ")
    if planned and " planned · " in rest and not line.startswith(" "):
        return f"{_BOLD}{title}{_END}{planned}{rest}"
    return _DRAWN.sub(lambda found: _paint_bar(found[0]), line)


def _paint_bar(bar: str) -> str:
    found = _BAR.fullmatch(bar)
    if found is None:
        return bar
    full, shaded, empty = found.groups()
    painted = f"{_CYAN}{full}{_DIM}{shaded}{_END}" if full or shaded else ""
    return painted + (f"{_DIM}{empty}{_END}" if empty else "")
