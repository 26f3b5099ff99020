"""The texts of one pass over a stream: each field as its deltas join, and as a reader sees it who joins none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.frontier import Field, holdback_start
from proxy.literals import masks_strings
from proxy.passes import Group, Pass, first_open, holdback_of
from proxy.redact import Mark, RedactionImpossible, mask_arguments, mask_json
from proxy.wire.segments import JOINED, SegmentList
from supervisors.types import Media, Segment, Supervisor


def mask_held(grown: Field | None, name: str, found: Mapping[str, Sequence[Mark]], *, as_json: bool) -> str | None:
    """Return the text a redaction makes of a held field, or None where its pieces can be masked one by one.

    Args:
        grown: the field, None if there is none at the path of the marks.
        name: of the field.
        found: its marks, and those of strings inside it by their pointers.
        as_json: the caller parses text as JSON.

    Raises:
        RedactionImpossible: the text has no place where it can be rewritten, or would not be valid any more (G-37).
    """
    if grown is None or grown.fixed:
        msg = "the text cannot be rewritten"
        raise RedactionImpossible(msg)
    marks = found.get("", ())
    if any(found):
        if grown.kind != "tool_args" or grown.released:
            msg = "only arguments that are held as a whole have strings inside"
            raise RedactionImpossible(msg)
        return mask_json(grown.text, found)
    if name.endswith("/arguments"):
        mask_arguments(grown.text, marks)
    elif as_json and grown.kind == "text" and not masks_strings(grown.text, marks):
        msg = "the redaction touches more than the inside of one string"
        raise RedactionImpossible(msg)
    return None


def credit_of(grown: Field, named: Sequence[tuple[str, Supervisor]]) -> int:
    """Return how far a look at the whole growing text covers it: all of it, but for what rules in a panel still need.

    Args:
        grown: the field, looked at to its end.
        named: who looked.
    """
    held = max([holdback_of(supervisor) for _, supervisor in named], default=0)
    return min(holdback_start(grown.text, grown.length, held), first_open(named, grown.text))


class Readings:
    """Collect the segments of one pass.

    A text that no document calls a delta is judged in both readings: joined to its neighbours, and alone (G-06).

    Args:
        turn: turn number of the reply.
        choice: choice index.
    """

    __slots__ = ("_choice", "_ended", "_places", "_segments", "_turn")

    def __init__(self, turn: int, choice: int) -> None:
        self._turn = turn
        self._choice = choice
        self._segments: list[Segment] = []
        self._places: dict[str, tuple[str, int]] = {}
        self._ended: set[str] = set()

    def add(self, path: str, grown: Field, start: int, end: int) -> None:
        """Add part of a field.

        Args:
            path: pointer of the field in the whole reply.
            grown: the field.
            start: first character.
            end: one past the last character.
        """
        made = self.add_joined(path, grown, start, end)
        if grown.kind == "media":
            return
        if grown.over and end == grown.length:
            self._ended.update([one.path for one in made])  # strings inside arguments have ended with them
        if path.endswith(JOINED):
            return  # each of these texts is a field too
        for begin, stop in grown.stretches(start, end):  # the same text once more stands beside other ones
            made = self._add_text(f"{path}~{begin}", (path, begin), grown, grown.text[begin:stop])
            if stop in grown.cuts or grown.over:
                self._ended.update([one.path for one in made])

    def add_joined(self, path: str, grown: Field, start: int, end: int) -> Sequence[Segment]:
        """Add part of a field in the one reading that a whole reply has, and return its segments."""
        if grown.kind == "media":
            media = Media("audio/unknown", grown.length, "")
            made = [Segment(path, "assistant", "media", "", self._turn, self._choice, media)]
            self._segments += made
            return made
        return self._add_text(path, (path, start), grown, grown.text[start:end])

    def _add_text(self, path: str, place: tuple[str, int], grown: Field, text: str) -> Sequence[Segment]:
        found = SegmentList("assistant", self._turn, self._choice)
        if grown.kind == "tool_args" and not (place[0] == path and place[1]):
            found.add_arguments(path, text)
        else:
            found.add(path, grown.kind, text)
        if path != place[0] or path.endswith(JOINED):
            found.found = [replace(one, reading=place[0]) for one in found.found]
        self._segments += found.found
        if place != (path, 0):
            self._places[path] = place
        return found.found

    def ask(self, group: Group, named: Sequence[tuple[str, Supervisor]], *, complete: bool) -> Pass:
        """Return the question to this group."""
        return Pass(group, tuple(named), tuple(self._segments), self._places, complete, frozenset(self._ended))
