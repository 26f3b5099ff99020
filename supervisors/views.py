"""Join segments so that a phrase split over parts or turns is found, and cut texts that are too long (G-03, G-12)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supervisors.offsets import Place
from supervisors.types import Kind, Role, Scope, Segment

JOINED_KINDS: frozenset[Kind] = frozenset(
    {"text", "reasoning", "refusal", "tool_args", "tool_result", "transcript", "prediction", "suffix"}
)
"""Kinds that are running text. Names, URLs and definitions are never continued by the next one."""

_SEAMS = ("", " ")
_SAME: Mapping[Role, Role] = {"developer": "system", "function": "tool"}
"""Two names of one role: a model is given either as the other."""
_ANOTHER_READING = "#joined"
"""End of the path of a text that is put together from others, each of which is there as well."""
_PLACE = re.compile(r"/[0-9]+~?(?=/|$)")
"""A position in a list."""


class Part(NamedTuple):
    """Where a stretch of a segment stands in a view.

    Args:
        start: first character in the view.
        end: one past its last there.
        segment: the segment.
        offset: first character in the segment.
    """

    start: int
    end: int
    segment: Segment
    offset: int


class Touched(NamedTuple):
    """A range of one segment."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class View:
    """Adjacent segments of one scope, role and kind, joined.

    Args:
        text: what is searched.
        scope: scope of all its segments.
        parts: where its characters come from, in order. Two parts in a row of the same segment have a gap between
            them: the middle of a long segment is left out, since nothing there can reach over a seam.
    """

    text: str
    scope: Scope
    parts: tuple[Part, ...]

    def locate(self, start: int, end: int) -> tuple[Touched, ...]:
        """Return the ranges that ``text[start:end]`` touches; empty if it lies in one segment or over a gap."""
        first = bisect_right(self.parts, start, key=_end_of)
        touched: list[Touched] = []
        previous: Segment | None = None
        for part in self.parts[first:]:
            if part.start >= end:
                break
            if part.segment is previous:
                return ()
            previous = part.segment
            begin = max(start, part.start) - part.start + part.offset
            touched.append(Touched(part.segment.path, begin, min(end, part.end) - part.start + part.offset))
        return tuple(touched) if len(touched) > 1 else ()


def _end_of(part: Part) -> int:
    return part.end


def join_segments(segments: Iterable[Segment], reach: int | None = None) -> Iterator[View]:
    """Join the segments of each scope, role and kind in order, once without anything between and once with a space.

    That covers the parts of one message and the adjacent turns of one role. Of the members that nobody knows, those are
    joined that have one name in the entries of a list, and only without anything between: they may be parts. Two
    readings of one text are not joined: between them is a seam that no reader sees.

    Args:
        segments: in wire order.
        reach: characters on either side of a seam that a finding can cover; None keeps segments whole.
    """
    groups: dict[tuple[Scope, Role, str, str], list[Segment]] = {}
    for segment in segments:
        name = _name_of(segment) if segment.text else None
        if name is not None:
            role = _SAME.get(segment.role, segment.role)
            groups.setdefault((segment.scope, role, name, segment.reading), []).append(segment)
    for (scope, _, name, _), group in groups.items():
        if len(group) > 1:
            for seam in _SEAMS if name.rstrip("#") in JOINED_KINDS else _SEAMS[:1]:
                yield _join(group, scope, seam, reach)


def _name_of(segment: Segment) -> str | None:
    """Return what a segment shares with those that may continue it: its kind, or the name in all entries of a list."""
    if segment.path.endswith(_ANOTHER_READING):
        return None
    if segment.kind in JOINED_KINDS:  # what strings inside arguments say stands between no arguments
        return f"{segment.kind}#" if segment.kind == "tool_args" and "#" in segment.path else segment.kind
    if segment.kind != "other" or "#" in segment.path:
        return None
    name, places = _PLACE.subn("/", segment.path)
    return name if places else None


def _join(group: Sequence[Segment], scope: Scope, seam: str, reach: int | None) -> View:
    texts: list[str] = []
    parts: list[Part] = []
    length = 0
    for segment in group:
        between = seam
        for offset, text in _ends(segment.text, reach):
            if parts:
                texts.append(between)
                length += len(between)
            parts.append(Part(length, length + len(text), segment, offset))
            texts.append(text)
            length += len(text)
            between = "\n"
    return View("".join(texts), scope, tuple(parts))


def _ends(text: str, reach: int | None) -> tuple[tuple[int, str], ...]:
    if reach is None or len(text) <= 2 * reach:
        return ((0, text),)
    return (0, text[:reach]), (len(text) - reach, text[-reach:])


def cut_chunks(chars: int, max_chars: int, overlap: int = 256) -> tuple[Place, ...]:
    """Cut a length into chunks so that every stretch of `overlap` characters lies whole in one of them.

    Args:
        chars: length of the text.
        max_chars: longest chunk.
        overlap: at least the longest pattern, and 256 (G-12).

    Raises:
        ValueError: the overlap leaves no room to move on.
    """
    if overlap >= max_chars:
        msg = f"an overlap of {overlap} does not fit chunks of {max_chars} characters: it must be smaller"
        raise ValueError(msg)
    if chars <= max_chars:
        return (Place(0, chars),)
    step = max_chars - overlap
    count = -(-(chars - overlap) // step)
    return tuple([Place(i * step, min(i * step + max_chars, chars)) for i in range(count)])
