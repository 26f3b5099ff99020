"""Every order in which a client of a chat stream may put its texts together: each of them is judged. Pure.

A text is read field by field; this adds the other ways. Fields of one kind, such as the names of a reasoning text, are
read as they come too, once one goes on after another has begun; calls by their id, where that tells them apart in
another way than their place does; parts by number and by id. An id that is none is judged with what came of it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from proxy.wire.adapter import Chunk, Piece
from proxy.wire.chat_parts import PartOrder
from proxy.wire.segments import JOINED, escape
from supervisors.types import Kind

_TURNING: Final[frozenset[Kind]] = frozenset({"reasoning", "refusal", "tool_args"})
"""Kinds of text that stand in several fields."""
_STILL: Final[frozenset[Kind]] = frozenset({"text", "reasoning", "refusal", "tool_args"})
_CALLS: Final = "tool_calls"
_FORMED: Final = ((_CALLS,), ("audio",))
_NAMES: Final = frozenset({"id", "type", "expires_at"})
"""Members of calls and of audio that have a form."""
_ID_DEPTH: Final = 4
"""Keys that lead from a choice to the id of a call."""


@dataclass(slots=True)
class _Kind:
    """The fields of one kind: the last one, all of them in order, and whether they have come in turns."""

    last: str = ""
    seen: list[str] = field(default_factory=list[str])
    mixed: bool = False


class _FieldOrder:
    """Follow the fields of each kind of one choice."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[Kind, _Kind] = {}

    def follow(self, piece: Piece) -> list[Piece]:
        """Return what stands before a piece: all that came of its kind, once one goes on after another has begun."""
        if piece.kind not in _TURNING or not piece.text:
            return []
        fields = self._kinds.setdefault(piece.kind, _Kind())
        turned = fields.last != piece.field
        fields.last = piece.field
        name = f"/{piece.kind}{JOINED}"
        found: list[Piece] = []
        if piece.field not in fields.seen:
            fields.seen.append(piece.field)
        elif turned and not fields.mixed:
            fields.mixed = True
            found = [Piece(name, piece.kind, "", (), alone=True, copies=one) for one in fields.seen]
        if fields.mixed:
            found += [Piece(name, piece.kind, "", (), alone=True)] if turned else []
            found.append(Piece(name, piece.kind, piece.text, ()))
        return found


class _CallOrder:
    """Follow the calls of one choice by their ids."""

    __slots__ = ("_apart", "_last", "_names", "_owners")

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._apart = False

    def follow(self, piece: Piece, own: str | None) -> list[Piece]:
        """Return what stands before a piece of arguments, once ids tell calls apart in another way than places do.

        Args:
            piece: any piece.
            own: id of the call that it stands in, None if the frame has none.
        """
        if piece.kind != "tool_args" or not piece.text or _CALLS not in piece.at:
            return []
        known = own or self._last.get(piece.field)
        if known is None:
            return []
        self._last[piece.field] = known
        name = f"{piece.field.partition(f'/{_CALLS}/')[0]}/{_CALLS}/{escape(known)}~id{JOINED}"
        found: list[Piece] = []
        other = self._names.setdefault(piece.field, name) != name
        if not self._apart and (other or self._owners.get(name, piece.field) != piece.field):
            self._apart = True
            found = [Piece(one, piece.kind, "", (), alone=True, copies=of) for one, of in self._owners.items()]
        self._owners.setdefault(name, piece.field)
        if self._apart:
            found.append(Piece(name, piece.kind, piece.text, (), alone=True))
        return found


class _FormOrder:
    """Follow the members of one choice that say nothing as long as they have their form."""

    __slots__ = ("_odd", "_said")

    def __init__(self) -> None:
        self._said: dict[str, list[str]] = {}
        self._odd: set[str] = set()

    def follow(self, piece: Piece) -> Iterator[Piece]:
        """Yield the piece unless it has its form, and all that came of it before once it goes on in another."""
        said = self._said.setdefault(piece.field, [])
        if piece.repeats and piece.field not in self._odd:
            said.append(piece.text)
            return
        if said:
            yield Piece(piece.field, "other", "".join(said), (), alone=True)
            said.clear()
        self._odd.add(piece.field)
        yield replace(piece, repeats=False)


class Orders:
    """Follow one choice of one stream."""

    __slots__ = ("_calls", "_fields", "_forms", "_parts", "_still")

    def __init__(self) -> None:
        self._parts = PartOrder()
        self._fields = _FieldOrder()
        self._calls = _CallOrder()
        self._forms = _FormOrder()
        self._still = ""

    def follow(self, chunk: Chunk) -> Chunk:
        """Return the chunk with what it adds to texts that are put together in another way."""
        only = chunk.pieces[0] if len(chunk.pieces) == 1 else None
        if only is not None and only.field == self._still and not only.places:
            return chunk  # nothing else has come since this text last went on, and nothing was added to it
        ids = {piece.at[:-1]: piece.text for piece in chunk.pieces if _is_id(piece)}
        pieces: list[Piece] = []
        said: set[tuple[Kind, str]] = set()
        for piece in chunk.pieces:
            if (piece.kind, piece.text) not in said:  # two names of one text in one frame: no client shows it twice
                pieces += self._fields.follow(piece)
                said.add((piece.kind, piece.text))
            pieces += self._read(piece, ids.get(piece.at[:3]))
        is_still = only is not None and only.kind in _STILL and not only.places and len(pieces) == 1
        self._still = only.field if only is not None and is_still else ""
        return replace(chunk, pieces=tuple(pieces))

    def _read(self, piece: Piece, call: str | None) -> Iterator[Piece]:
        if _is_formed(piece):
            for one in self._forms.follow(piece):
                yield from self._parts.follow(one)
            return
        yield from self._calls.follow(piece, call)
        yield from self._parts.follow(piece)


def _is_id(piece: Piece) -> bool:
    return len(piece.at) == _ID_DEPTH and piece.at[1] == _CALLS and piece.at[3] == "id"


def _is_formed(piece: Piece) -> bool:
    return piece.kind == "other" and piece.at[1:2] in _FORMED and piece.at[-1] in _NAMES and len(piece.at) <= _ID_DEPTH
