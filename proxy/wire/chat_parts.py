"""Parts of a streamed text that have numbers: read as they come, and each by its number where they come in turns. Pure.

Nobody knows which of the two a client does. As they come they are one field; a part that goes on after another has
begun is a field of its own from there on, so that it is judged as one text too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from proxy.wire.adapter import Chunk, Piece


@dataclass(slots=True)
class _Parts:
    """The parts of one field so far.

    Args:
        last: the part that came last.
        texts: of each part that has not come back, as it grew.
        returned: parts that are fields of their own.
    """

    last: str = ""
    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    returned: set[str] = field(default_factory=set[str])


class PartOrder:
    """Follow the numbered parts of every choice of one stream."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[tuple[int | None, str], _Parts] = {}

    def follow(self, chunk: Chunk) -> Chunk:
        """Return the chunk with a cut where another part begins, and with the parts that have come back."""
        if not self._fields and not any(piece.place for piece in chunk.pieces):
            return chunk
        return replace(chunk, pieces=tuple([one for piece in chunk.pieces for one in self._read(chunk.choice, piece)]))

    def _read(self, choice: int | None, piece: Piece) -> Iterator[Piece]:
        if not piece.place:
            if piece.text and (choice, piece.field) in self._fields:
                self._fields[choice, piece.field].last = ""
            yield piece
            return
        parts = self._fields.setdefault((choice, piece.field), _Parts())
        if piece.place != parts.last:
            yield replace(piece, text="", alone=True)
            if piece.place in parts.texts:
                yield replace(piece, field=piece.place, text="".join(parts.texts.pop(piece.place)), at=())
                parts.returned.add(piece.place)
            parts.last = piece.place
        yield piece
        if piece.place in parts.returned:
            yield replace(piece, field=piece.place, at=())
        else:
            parts.texts.setdefault(piece.place, []).append(piece.text)
