"""Texts of a stream that come in turns, read once more as they come: a client that shows deltas joins those. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.wire.adapter import Piece
from proxy.wire.segments import JOINED
from supervisors.types import Kind


class Turns:
    """Follow the texts of each kind of one stream, every one of which is a field of its own."""

    __slots__ = ("_last", "_mixed", "_seen")

    def __init__(self) -> None:
        self._last: dict[Kind, str] = {}
        self._seen: dict[Kind, list[str]] = {}
        self._mixed: set[Kind] = set()

    def follow(self, field: str, kind: Kind, text: str, texts: Mapping[str, Sequence[str]]) -> list[Piece]:
        """Return the text as part of all texts of its kind, once one of them has gone on after another had begun.

        Args:
            field: pointer of the text.
            kind: what it is.
            text: a delta.
            texts: what every field has grown from so far.
        """
        turned = self._last.get(kind) != field
        if not turned and kind not in self._mixed:
            return []
        self._last[kind] = field
        seen = self._seen.setdefault(kind, [])
        name = f"/{kind}{JOINED}"
        pieces: list[Piece] = []
        if field not in seen:
            seen.append(field)
        elif kind not in self._mixed:
            self._mixed.add(kind)
            pieces += [Piece(name, kind, "".join(texts.get(one, ())), (), alone=True) for one in seen]
        if kind in self._mixed:
            pieces += [Piece(name, kind, "", (), alone=True)] if turned else []
            pieces.append(Piece(name, kind, text, ()))
        return pieces
