"""The texts of an exchange that are judged: each segment, and joined views so that a split phrase is found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from supervisors.types import Kind, Scope, Segment

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_UNREADABLE: frozenset[Kind] = frozenset({"media", "opaque"})
_NOT_JOINED: frozenset[Kind] = frozenset({"name", "url", "annotation"})


@dataclass(frozen=True, slots=True)
class View:
    """One text to judge.

    Args:
        scope: scope of all its segments; texts of different scopes are never merged.
        text: a segment's text or a join.
        joined: true for a join; its length is bounded by the exchange, not by the limit for one text.
    """

    scope: Scope
    text: str
    joined: bool


def iterate_views(segments: Sequence[Segment], scopes: frozenset[Scope]) -> Iterator[View]:
    """Yield every segment of the scopes, then the joins per message and per role, with "" and with a space."""
    readable = [
        segment for segment in segments if segment.scope in scopes and segment.kind not in _UNREADABLE and segment.text
    ]
    for segment in readable:
        yield View(segment.scope, segment.text, joined=False)
    for scope in sorted(scopes):
        parts = [segment for segment in readable if segment.scope == scope and segment.kind not in _NOT_JOINED]
        yield from _join(scope, _group_messages(parts))
        yield from _join(scope, _group_roles(parts))


def _group_messages(parts: Sequence[Segment]) -> list[list[Segment]]:
    return [list(group) for _, group in groupby(parts, key=lambda segment: (segment.turn, segment.role))]


def _group_roles(parts: Sequence[Segment]) -> list[list[Segment]]:
    groups: dict[str, list[Segment]] = {}
    for segment in parts:
        groups.setdefault(segment.role, []).append(segment)
    # One turn only is what the join per message has covered.
    return [group for group in groups.values() if len({segment.turn for segment in group}) > 1]


def _join(scope: Scope, groups: Sequence[Sequence[Segment]]) -> Iterator[View]:
    for group in groups:
        if len(group) > 1:
            for glue in ("", " "):
                yield View(scope, glue.join([segment.text for segment in group]), joined=True)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text of more than one: cut at line breaks and after ``. ! ?`` before white space."""
    sentences = [part for part in _SENTENCE_END.split(text) if part.strip()]
    return sentences if len(sentences) > 1 else []


def has_unreadable(segments: Sequence[Segment], scopes: frozenset[Scope]) -> bool:
    """Say whether a segment of the scopes is media, which a text guard cannot judge (opaque parts nobody can)."""
    return any(segment.kind == "media" and segment.scope in scopes for segment in segments)
