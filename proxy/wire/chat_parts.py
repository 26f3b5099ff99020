"""Parts of a streamed text: read as they come, and each by its number or id where they come in turns. Pure.

Nobody knows which of the two a client does. As they come they are one field; a part that goes on after another has
begun is a field of its own from there on, so that it is judged as one text too. So are the plain deltas of a text that
comes in parts as well, for a client that reads only those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from proxy.wire.adapter import Piece
from proxy.wire.segments import JOINED


@dataclass(slots=True)
class _Parts:
    """The parts of one field so far, as one way to tell them apart has it.

    Args:
        last: the part that came last.
        texts: of each part that has not come back, as it grew.
        returned: parts that are fields of their own.
    """

    last: str = ""
    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    returned: set[str] = field(default_factory=set[str])


class PartOrder:
    """Follow the parts of one choice."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[str, list[_Parts]] = {}

    def follow(self, piece: Piece) -> Iterator[Piece]:
        """Yield the piece with a cut where another part begins, and as what it adds to parts that have come back."""
        ways = self._fields.get(piece.field)
        if piece.places:
            yield from self._read_part(piece, ways)
            return
        if ways is not None and any(parts.last for parts in ways):
            yield replace(piece, text="", alone=True)  # the part before it may be a text of its own
        yield piece
        if ways is not None and piece.text:
            for parts in ways:
                parts.last = ""
            yield _another(piece, _plain(piece.field), piece.text)

    def _read_part(self, piece: Piece, ways: list[_Parts] | None) -> Iterator[Piece]:
        if ways is None:
            ways = self._fields[piece.field] = []
            yield replace(_another(piece, _plain(piece.field), ""), copies=piece.field)
        ways += [_Parts() for _ in range(len(ways), len(piece.places))]
        turned = [(parts, place) for parts, place in zip(ways, piece.places, strict=False) if place != parts.last]
        if turned:
            yield replace(piece, text="", alone=True)
        for parts, place in turned:
            parts.last = place
            if place in parts.texts:
                parts.returned.add(place)
                yield _another(piece, place, "".join(parts.texts.pop(place)))
        yield piece
        for parts, place in zip(ways, piece.places, strict=False):
            if place in parts.returned:
                yield _another(piece, place, piece.text)
            else:
                parts.texts.setdefault(place, []).append(piece.text)


def _plain(name: str) -> str:
    return f"{name}/~"


def _another(piece: Piece, place: str, text: str) -> Piece:
    """Return text of another reading; its ends are marked, because what does not touch them is found elsewhere."""
    return Piece(place + JOINED, piece.kind, text, (), repeats=piece.repeats, alone=True)
