"""What a hosted guard is sent of an exchange, and where in the exchange a match it reports stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from supervisors.decoded import append_decoded
from supervisors.material import Selection, Speaker, Turn, cut_text, to_turns, write
from supervisors.narrowing import select
from supervisors.types import Exchange, Scope, Segment, Span, Stage

_MAX_SPANS = 1000
"""More places than this are not marked: the text is then blocked instead of redacted."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One text to judge: a message, or a chunk of one.

    Args:
        text: what is sent, with its encoded stretches decoded behind it.
        scope: scope it belongs to.
        stage: input or output.
        speaker: who said it, of the two roles services know.
        document: third-party text: a tool's result.
        before: turns before it, oldest first; for services that judge in context.
    """

    text: str
    scope: Scope = "conversation"
    stage: Stage = "input"
    speaker: Speaker = "user"
    document: bool = False
    before: tuple[Turn, ...] = ()


def plan_pieces(exchange: Exchange, selection: Selection, *, in_context: bool) -> Iterator[Piece]:
    """Yield the pieces that together hold every selected text, each message in pieces of its own (G-12).

    Args:
        exchange: what is judged.
        selection: which texts, and how long a piece may be.
        in_context: give each piece the turns before it, as far as they fit.
    """
    for scope in selection.scopes:
        chosen = [segment for segment in select(exchange, scope, selection.narrowing) if segment.kind != "media"]
        for (turn, document), group in groupby(chosen, key=lambda segment: (segment.turn, _is_document(segment))):
            members = list(group)
            text = write(members)
            if not text.strip():
                continue
            speaker: Speaker = "assistant" if members[0].role == "assistant" else "user"
            piece = Piece("", scope, exchange.stage, speaker, document)
            before = _turns_before(exchange, turn) if in_context and scope == "conversation" else ()
            yield from _cut(replace(piece, text=append_decoded(text)), before, selection)


def _is_document(segment: Segment) -> bool:
    return segment.role in ("tool", "function") or segment.kind == "tool_result"


def _turns_before(exchange: Exchange, turn: int) -> tuple[Turn, ...]:
    return to_turns([segment for segment in exchange.request if segment.turn < turn])


def _cut(piece: Piece, before: Sequence[Turn], selection: Selection) -> Iterator[Piece]:
    whole = len(piece.text) <= selection.max_chars
    for chunk in (piece.text,) if whole else cut_text(piece.text, selection.max_chars, selection.overlap):
        yield replace(piece, text=chunk, before=_fit(before, selection.max_chars - len(chunk)))


def _fit(turns: Sequence[Turn], budget: int) -> tuple[Turn, ...]:
    """Return the newest whole turns that fit, oldest first (GU-17)."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        budget -= len(turn.text)
        if budget < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


def halve(piece: Piece, overlap: int) -> tuple[Piece, ...]:
    """Return two overlapping halves without context, or the piece when it cannot be cut (GU-24)."""
    overlap = min(overlap, len(piece.text) // 4)
    half = max(len(piece.text) // 2, 1) + overlap
    if half >= len(piece.text):
        return (replace(piece, before=()),)
    return tuple([replace(piece, text=text, before=()) for text in cut_text(piece.text, half, overlap)])


@dataclass(frozen=True, slots=True)
class Match:
    """A text a service found, and what it is.

    Args:
        text: as it stands in the judged text, in any case.
        category: canonical.
    """

    text: str
    category: str


def text_between(piece: Piece, start: object, end: object) -> str:
    """Return what stands between two offsets of a reply; empty where that is open, so that nothing is located.

    Services count characters, UTF-16 units or bytes, and most do not say which: behind a character that is not ASCII
    these differ.
    """
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(piece.text):
        return ""
    return piece.text[start:end] if piece.text[:end].isascii() else ""


def locate(exchange: Exchange, selection: Selection, matches: Sequence[Match]) -> tuple[Span, ...]:
    """Return every place of every match, or nothing at all when one has no place or there are too many.

    A redaction that leaves one finding standing would be worse than none: without spans the policy blocks.
    """
    segments = [
        s for scope in selection.scopes for s in select(exchange, scope, selection.narrowing) if s.kind != "media"
    ]
    spans: list[Span] = []
    for match in dict.fromkeys(matches):
        found = [span for segment in segments for span in _find(segment, match, _MAX_SPANS - len(spans) + 1)]
        spans.extend(found)
        if not found or len(spans) > _MAX_SPANS:
            return ()
    return tuple(spans)


def _find(segment: Segment, match: Match, limit: int) -> list[Span]:
    """Return where a match stands in any case: a word of a block list is reported as the list writes it."""
    if not match.text.strip():
        return []
    places = islice(re.finditer(re.escape(match.text), segment.text, re.IGNORECASE), limit)
    return [Span(segment.path, *place.span(), match.category) for place in places]
