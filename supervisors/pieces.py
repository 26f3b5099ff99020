"""Cut what is judged into pieces that know their place, for supervisors that judge stretches of text on their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from supervisors.narrowing import Narrowing, Turns, select
from supervisors.offsets import Place
from supervisors.readings import find_readings
from supervisors.types import Cause, Exchange, Kind, Role, Scope, Segment, Span, Verdict, unknown
from supervisors.variants import DECODINGS, Layer, Usage, find_variants

_LOOP_CHARS = 10_000
"""Longer exchanges are cut beside the event loop."""
Cut = Callable[[str], Iterable[Place]]
"""Where a text is cut; the places together cover every character that matters."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a segment, or what an encoded run of it says.

    Args:
        path: path of the segment.
        start: first character in the raw text; that of the whole run when it was encoded.
        end: one past the last.
        text: what is judged.
        scope: scope of the segment.
        chain: decodings that led to `text`, None for the text as sent.
    """

    path: str
    start: int
    end: int
    text: str
    scope: Scope
    chain: str | None = None

    def to_span(self, category: str) -> Span:
        """Return its place for redaction."""
        return Span(self.path, self.start, self.end, category)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Everything of an exchange that is judged.

    Args:
        found: the pieces in wire order, each segment followed by what it hides.
        gap: what could not be read, as the verdict it must lead to when nothing else is found; None if all was.
    """

    found: tuple[Piece, ...]
    gap: Verdict | None = None


class PieceOptions(Protocol):
    """The options of a supervisor that judges pieces."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes judged."""
        ...

    @property
    def roles(self) -> frozenset[Role] | None:
        """Return whose texts of a request are judged; None is everybody's."""
        ...

    @property
    def kinds(self) -> frozenset[Kind] | None:
        """Return which kinds are judged; None is all."""
        ...

    @property
    def turns(self) -> Turns:
        """Return which turns of a request are judged."""
        ...

    @property
    def max_chunks(self) -> int | None:
        """Return how many pieces are judged at most; None is as many as the supervisor says."""
        ...


async def find_pieces(exchange: Exchange, options: PieceOptions, cut: Cut, most: int = 64) -> Pieces | Verdict:
    """Cut what the options select, long texts in a thread; a verdict where there is nothing to judge, or too much.

    Args:
        exchange: what is judged.
        options: of the supervisor.
        cut: where to cut a text.
        most: how many pieces are judged where the options leave it open.
    """
    narrowing = Narrowing(options.roles, options.kinds, options.turns)
    plan = partial(cut_pieces, exchange, options.scopes, narrowing, cut)
    pieces = await asyncio.to_thread(plan) if exchange.chars > _LOOP_CHARS else plan()
    if len(pieces.found) > (options.max_chunks or most):
        return unknown(Cause.OVER_LIMIT, detail="max_chunks")
    if not pieces.found:
        return pieces.gap or unknown(Cause.SKIPPED, detail="no_text")
    return pieces


def cut_pieces(exchange: Exchange, scopes: Sequence[Scope], narrowing: Narrowing, cut: Cut) -> Pieces:
    """Cut the selected segments and what their encoded runs say.

    Args:
        exchange: what is judged.
        scopes: scopes judged.
        narrowing: what of them.
        cut: where to cut a text.
    """
    found: list[Piece] = []
    gap: Verdict | None = None
    usage = Usage()
    for scope in scopes:
        for segment in select(exchange, scope, narrowing):
            if segment.kind == "media":
                gap = gap or unknown(Cause.UNSUPPORTED, detail="media")
                continue
            variants = find_variants(segment.text, DECODINGS, usage)
            usage = variants.usage
            if variants.over_limit:
                gap = unknown(Cause.OVER_LIMIT, detail=",".join(variants.over_limit))
            found += [_piece(segment, place, segment.text) for place in cut(segment.text)]
            for said in _find_hidden(segment, variants.shown):
                found += [replace(said, text=said.text[start:end]) for start, end in cut(said.text)]
    return Pieces(tuple(found), gap)


def _piece(segment: Segment, place: Place, text: str) -> Piece:
    return Piece(segment.path, *place, text[place.start : place.end], segment.scope)


def _find_hidden(segment: Segment, layers: Sequence[Layer]) -> Iterator[Piece]:
    """Yield what encoded runs say and what a disguised text says, each for the whole run or text it comes from."""
    for layer in layers:
        for decoded in layer.spans():
            yield Piece(segment.path, decoded.start, decoded.end, decoded.text, segment.scope, decoded.chain)
        for reading in find_readings(layer):
            place = layer.locate("raw", 0, len(layer.text))
            chain = ">".join([*layer.chain, reading.transform])
            yield Piece(segment.path, *place, reading.text, segment.scope, chain)
