"""Which stretch of each field a look of the window group reads, and with it the ends of what it follows on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.frontier import WORD_CHARS, Field, end_of_words, has_sentence
from proxy.passes import first_open
from proxy.wire.adapter import Piece
from proxy.wire.segments import JOINED
from supervisors.types import Kind, Supervisor
from supervisors.views import JOINED_KINDS

_WHOLE: Final = frozenset({"tool_args", "media", "name"})


class Window(NamedTuple):
    """What is read of one field.

    Args:
        name: of the field.
        field: the field.
        start: first character.
        end: one past the last.
    """

    name: str
    field: Field
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a look goes back.

    Args:
        overlap: characters read again before the new ones.
        holdback: characters that the longest match may still need.
        named: the window group.
    """

    overlap: int
    holdback: int
    named: Sequence[tuple[str, Supervisor]]


def add_field(fields: dict[str, Field], last: dict[Kind, Field], piece: Piece, part: str, *, redacts: bool) -> Field:
    """Add the field of a piece, behind the last one of its kind: one text of a kind continues the other (G-03).

    Args:
        fields: those of the choice by name, in the order in which they began.
        last: the last one of each kind.
        piece: its first.
        part: of the reply that it stands in.
        redacts: a finding is taken out, so what is signed has to go as a whole.
    """
    whole = piece.kind in _WHOLE or "_call" in piece.field or (piece.signed and redacts)
    made = Field(piece.kind, whole, part=part if piece.signed else "", name=piece.field, number=len(fields))
    fields[piece.field] = made
    if piece.kind in JOINED_KINDS and not piece.field.endswith(JOINED):
        before = made.before = last.get(piece.kind)
        if before is not None:
            before.after = made
        last[piece.kind] = made
    return made


def copied_text(fields: Mapping[str, Field], piece: Piece) -> str:
    """Return what the field has grown to so far that a piece copies."""
    copied = fields.get(piece.copies)
    return "" if copied is None else copied.text


def judged_fields(fields: Mapping[str, Field], *, complete: bool) -> list[tuple[str, Field]]:
    """Return the fields that a look reads: not yet what is held as a whole, nor sound that is told in words."""
    spoken = any(grown.kind == "transcript" for grown in fields.values())
    return [(name, grown) for name, grown in fields.items() if _is_judged(grown, spoken=spoken, complete=complete)]


def _is_judged(grown: Field, *, spoken: bool, complete: bool) -> bool:
    return (complete or grown.ended or not grown.whole) and not (spoken and grown.kind == "media")


def cut_windows(fields: Mapping[str, Field], reach: Reach, *, complete: bool, spoken: bool = False) -> list[Window]:
    """Return what is read now, and note that it has been.

    Args:
        fields: those of the choice that may have to be read.
        reach: how far back.
        complete: nothing more will come.
        spoken: the reply tells its sound in words.
    """
    windows: list[Window] = []
    tails: dict[int, Window] = {}
    for name, grown in fields.items():
        if grown.settled or not _is_judged(grown, spoken=spoken, complete=complete):
            continue
        if complete or _is_new(grown):
            start = max(0, min(grown.windowed - reach.overlap, grown.covered(reach.holdback)))
            earlier = _tails(grown, reach.overlap - grown.windowed) if start == 0 else []
            whole = complete or grown.over or grown.cuts[-1:] == [grown.length]
            end = grown.length if whole else _end_of(grown)
            grown.windowed = max(end, grown.windowed)
            grown.settled = grown.over
            _note_open(grown, start, earlier, () if complete else reach.named)
            windows.append(Window(name, grown, start, end))
            for tail, begin in earlier:
                found = tails.get(tail.number)
                if found is None or begin < found.start:
                    tails[tail.number] = Window(tail.name, tail, begin, tail.length)
    for window in windows:
        tails.pop(window.field.number, None)
    windows += [one for one in tails.values() if _is_judged(one.field, spoken=spoken, complete=complete)]
    return sorted(windows, key=_number_of)


def _number_of(window: Window) -> int:
    return window.field.number


def _is_new(grown: Field) -> bool:
    """Say whether another look could find more: a text that nothing continues, and that has not grown, was read."""
    if grown.kind in JOINED_KINDS:
        return True
    before, grown.looked = grown.looked, (grown.length, len(grown.cuts), grown.over)
    return grown.looked != before


def _end_of(grown: Field) -> int:
    """Return where the words end that are read of a growing text; what goes on in its first word may be one of them."""
    end = end_of_words(grown.text, grown.windowed)
    return 0 if grown.before is not None and not grown.windowed and end == grown.length <= WORD_CHARS else end


def _tails(grown: Field, chars: int) -> list[tuple[Field, int]]:
    """Return what comes before a field and from where it is read again, in order.

    That is so many characters, or from where a long match may have begun.
    """
    found: list[tuple[Field, int]] = []
    before = grown.before
    while before is not None and (chars > 0 or before.open is not None):
        start = max(0, before.length - max(0, chars))
        found.append((before, start if before.open is None else min(start, before.open)))
        chars -= before.length
        before = before.before
    return found[::-1]


def _note_open(
    grown: Field, start: int, earlier: Sequence[tuple[Field, int]], named: Sequence[tuple[str, Supervisor]]
) -> None:
    """Note where a match longer than the hold-back may have begun that is not complete, in a field or before it.

    Args:
        grown: the field, up to what has been given to the window group.
        start: first character of what was given this time.
        earlier: what was given of those before it, and from where.
        named: the window group, empty where nothing is left open.
    """
    given = [*earlier, (grown, start)]
    joined = "".join([one.text[begin : one.windowed] for one, begin in given])
    at = first_open(named, joined) if named else len(joined)
    for one, begin in given:
        size = one.windowed - begin
        one.open = begin + max(0, at) if at < size else None
        at -= size
    anew = grown.stretches(start, grown.windowed)[-1:]  # as a text of its own
    for begin, _ in anew if named else []:
        found = begin + first_open(named, grown.text[begin : grown.windowed])
        if found < grown.windowed and (grown.open is None or found < grown.open):
            grown.open = found


class Texts:
    """The fields of one choice, and which of them a look may still have to read."""

    __slots__ = ("_live", "_waits", "fields", "last", "read")

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}
        self.last: dict[Kind, Field] = {}
        self.read = 0
        """How many texts the last look read."""
        self._live: dict[str, Field] = {}
        self._waits: dict[str, int] = {}

    def find(self, piece: Piece, part: str, *, redacts: bool) -> Field:
        """Return the field of a piece, which may have begun with it."""
        grown = self.fields.get(piece.field)
        if grown is None:
            grown = add_field(self.fields, self.last, piece, part, redacts=redacts)
            self._live[piece.field] = grown
        elif grown.settled:
            self._live[piece.field] = grown
        return grown

    def look(self, reach: Reach, *, complete: bool) -> list[Window]:
        """Return what is read now; fields that are judged to their end cost nothing from then on."""
        windows = cut_windows(self._live, reach, complete=complete, spoken="transcript" in self.last)
        self._live = {name: one for name, one in self._live.items() if not one.settled or one.open is not None}
        self._waits = {}
        self.read = len(windows)
        return windows

    def covered(self, grown: Field, holdback: int) -> int:
        """Return how far no match can be open in a field that another continues: the same until the next look."""
        known = self._waits.get(grown.name)
        if known is None:
            known = grown.covered(holdback)
            if known < grown.length:
                self._waits[grown.name] = known
        return known

    @property
    def open_chars(self) -> int:
        """Return how much of one field is held because a long match may have begun."""
        return max([grown.open_chars for grown in self._live.values()], default=0)

    def has_sentence(self) -> bool:
        """Say whether a sentence has ended since the last look."""
        return any(has_sentence(grown.text, grown.windowed) for grown in self._live.values())
