"""The stretches of a text in which other readings of it say something: what surrounds them is left to the text itself.

Without that, one word in a megabyte would have all of it judged again, and prose around an encoded sentence would hide
that it is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from supervisors.offsets import Place

LEAST: Final = 2
"""Different telling words that make a stretch one."""
_WORD = re.compile(r"[A-Za-z]+")


def find_turned(text: str, turned: Collection[str], plain: Collection[str]) -> Iterator[Place]:
    """Yield the stretches that words of plain English delimit and that hold words of turned English.

    Args:
        text: read word by word.
        turned: function words as they look rotated or reversed.
        plain: function words that end a stretch, as no turned text has them.
    """
    start = first = last = 0
    found: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word in plain:
            if len(found) >= LEAST:
                yield _trim(text, Place(start, match.start()), Place(first, last))
            start = match.end()
            found.clear()
        elif word in turned:
            first = first if found else match.start()
            last = match.end()
            found.add(word)
    if len(found) >= LEAST:
        yield _trim(text, Place(start, len(text)), Place(first, last))


def _trim(text: str, place: Place, telling: Place) -> Place:
    """Return a stretch without the rest of the lines that plain words begin and end, unless telling words are there."""
    begin = text.find("\n", place.start, telling.start) + 1 if place.start > 0 else 0
    end = text.rfind("\n", telling.end, place.end) if place.end < len(text) else -1
    return Place(begin or place.start, place.end if end < 0 else end)


def surround(places: Iterable[Place], length: int, around: int) -> Iterator[Place]:
    """Yield places with so many characters around them, joined where they touch.

    Args:
        places: in order.
        length: of the text.
        around: characters before and after each.
    """
    start = end = -1
    for place in places:
        before = max(0, place.start - around)
        if before > end:
            if end >= 0:
                yield Place(start, end)
            start = before
        end = min(length, place.end + around)
    if end >= 0:
        yield Place(start, end)
