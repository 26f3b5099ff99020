"""Show an exchange to a judge: as data between delimiters with a fresh nonce, marked as judged or as context.

Nothing under judgement is ever left out: long text is cut into overlapping windows, and whoever asks counts them.
Context is what may be shortened, visibly.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Literal

from supervisors.decoded import append_decoded
from supervisors.types import Exchange, Kind, Role, Scope, Segment

Granularity = Literal["conversation", "message", "segment", "sentence"]

_UNREADABLE: frozenset[Kind] = frozenset({"media", "opaque"})
_LOOK_ALIKE = re.compile("[<＜﹤‹〈《≪「⟨]{2,}|[>＞﹥›〉》≫」⟩]{2,}")
_TEMPLATE_TOKEN = re.compile(r"(?<=<)(?=[|｜])|(?<=[|｜])(?=>)|(?<=\[)(?=/?INST\])", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[。！？]+|[.!?\n](?=\s|$)")
_CUT = "[… cut …]"


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a segment: ``segment.text[start:end]``."""

    segment: Segment
    start: int
    end: int

    @property
    def text(self) -> str:
        """Return the piece, exactly."""
        return self.segment.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Window:
    """What one call judges: passages of one scope."""

    scope: Scope
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A rendered view.

    Args:
        text: passages between delimiters.
        context_cut: true if context had to be shortened.
    """

    text: str
    context_cut: bool


def is_media(segment: Segment) -> bool:
    """Say whether a judge of text cannot read the segment."""
    return segment.kind == "media"


@dataclass(frozen=True, slots=True)
class Cutting:
    """How text is cut into windows.

    Args:
        max_chars: most characters judged in one call.
        overlap: characters repeated at the start of the next window.
        granularity: what is judged together.
    """

    max_chars: int
    overlap: int
    granularity: Granularity = "conversation"


def count_windows(segments: Sequence[Segment], cutting: Cutting) -> int:
    """Count the windows without making them."""
    step = cutting.max_chars - cutting.overlap
    lengths = [sum([passage.end - passage.start for passage in group]) for group in _groups(segments, cutting)]
    return sum([1 if length <= cutting.max_chars else ceil((length - cutting.overlap) / step) for length in lengths])


def cut_windows(scope: Scope, segments: Sequence[Segment], cutting: Cutting) -> list[Window]:
    """Cut the segments into windows that together hold every character."""
    step = cutting.max_chars - cutting.overlap
    found: list[Window] = []
    for group in _groups(segments, cutting):
        length = sum([passage.end - passage.start for passage in group])
        starts = [0] if length <= cutting.max_chars else range(0, length - cutting.overlap, step)
        found += [Window(scope, tuple(_slice(group, start, start + cutting.max_chars))) for start in starts]
    return found


def _groups(segments: Sequence[Segment], cutting: Cutting) -> list[list[Passage]]:
    readable = [s for s in segments if s.kind not in _UNREADABLE and s.text.strip()]
    whole = [Passage(segment, 0, len(segment.text)) for segment in readable]
    match cutting.granularity:
        case "conversation":
            return [whole] if whole else []
        case "message":
            return [list(group) for _, group in groupby(whole, key=_message_of)]
        case "segment":
            return [[passage] for passage in whole]
        case "sentence":
            return [[sentence] for passage in whole for sentence in _sentences(passage.segment)]


def _message_of(passage: Passage) -> tuple[int, Role]:
    return passage.segment.turn, passage.segment.role


def _sentences(segment: Segment) -> Iterator[Passage]:
    start = 0
    for end in [*[mark.end() for mark in _SENTENCE_END.finditer(segment.text)], len(segment.text)]:
        if segment.text[start:end].strip():
            yield Passage(segment, start, end)
        start = end


def _slice(group: Sequence[Passage], start: int, end: int) -> Iterator[Passage]:
    offset = 0
    for passage in group:
        length = passage.end - passage.start
        first, last = max(start - offset, 0), min(end - offset, length)
        if first < last:
            yield Passage(passage.segment, passage.start + first, passage.start + last)
        offset += length


def neutralise(text: str) -> str:
    """Take away what could pass for a delimiter or a chat-template token, and nothing else."""
    spaced = _LOOK_ALIKE.sub(lambda run: " ".join(run[0]), text)
    return _TEMPLATE_TOKEN.sub(" ", spaced)


def render(exchange: Exchange, window: Window, nonce: str, context_chars: int) -> Transcript:
    """Render what one call sees: context first in wire order, the passages under judgement in place.

    Conversation text sees the system text and the rest of the conversation as context; system text and tool
    definitions are judged on their own, so that no scope's text is mixed into another's.

    Args:
        exchange: whole exchange.
        window: what is judged.
        nonce: fresh, of this call.
        context_chars: budget for text that is not judged; system text and the newest turns have precedence.
    """
    segments = [*exchange.request, *exchange.reply]
    judged = {passage.segment.path: passage for passage in window.passages}
    shown = _context(segments, judged.keys(), context_chars) if window.scope == "conversation" else {}
    blocks: list[str] = []
    for segment in segments:
        if segment.path in judged:
            passage = judged[segment.path]
            blocks.append(_block(passage.segment, append_decoded(passage.text), "JUDGE", nonce))
        elif segment.path in shown:
            blocks.append(_block(segment, shown[segment.path], "CONTEXT", nonce))
    cut = any(shown.get(segment.path, segment.text) != segment.text for segment in segments)
    return Transcript("\n".join(blocks), cut)


def _context(segments: Sequence[Segment], judged: Container[str], budget: int) -> dict[str, str]:
    candidates = [
        segment
        for segment in segments
        if segment.path not in judged
        and segment.kind not in _UNREADABLE
        and segment.scope != "tool_def"
        and segment.text.strip()
    ]
    found: dict[str, str] = {}
    for segment in sorted(candidates, key=_system_and_newest_first):
        kept = segment.text[max(0, len(segment.text) - budget) :]
        budget -= len(kept)
        found[segment.path] = kept if len(kept) == len(segment.text) else f"{_CUT}{kept}"
    return found


def _system_and_newest_first(segment: Segment) -> tuple[bool, int]:
    return segment.scope != "system", -segment.turn


def _block(segment: Segment, text: str, mark: str, nonce: str) -> str:
    head = f"<<<{nonce} {mark} role={segment.role} kind={segment.kind} turn={segment.turn}>>>"
    return f"{head}\n{neutralise(text)}\n<<<{nonce} END>>>"
