"""Texts of a stream in every other order that a client may put them together: judged only where it differs. Pure.

A text is a field, and fields of one kind that follow one another are read as one. A client may also show what comes as
it comes, or tell texts apart by the id of their item alone, or by its number. As long as that gives the same texts,
nothing is added; from the first time on that it gives another, that text is read as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from proxy.wire.adapter import Piece
from proxy.wire.segments import JOINED
from supervisors.types import Kind


class Place(NamedTuple):
    """Where an event says that its text belongs.

    Args:
        item: id of the item.
        output: its number.
        part: number of the part.
    """

    item: object = None
    output: object = None
    part: object = None


class Source(NamedTuple):
    """A text as it is read.

    Args:
        group: texts that a client may put together.
        kind: what they are.
        field: pointer of the text.
        chained: the fields of this group that follow one another are read as one text anyway.
    """

    group: str
    kind: Kind
    field: str
    chained: bool = True


class _Path:
    """What a client has put together: a run of deltas behind those before it.

    Args:
        before: the same without the run.
        run: number of the run.
        straight: nothing else came between its runs, and it began where a field did.
    """

    __slots__ = ("before", "name", "run", "straight")

    def __init__(self, before: _Path | None, run: int, *, straight: bool) -> None:
        self.before = before
        self.run = run
        self.straight = straight
        self.name = ""


class _Group:
    """Follow the texts of one group."""

    __slots__ = ("_bases", "_ends", "_heads", "_mixed", "_places", "field", "names", "place", "runs")

    def __init__(self) -> None:
        self.field = ""
        self.place: Place | None = None
        self.names: list[str] = []
        self.runs: list[list[str]] = []
        self._bases: dict[str, _Path] = {}
        self._places: dict[str, Place] = {}
        self._heads: dict[Hashable, _Path] = {}
        self._ends: dict[str, _Path] = {}
        self._mixed = False

    def turn(self, source: Source, place: Place, at: tuple[str | int, ...]) -> list[Piece]:
        """Begin a run and return what stands before its first delta.

        Args:
            source: the text.
            place: where it belongs.
            at: where the delta stands in its event.
        """
        last, self.field, self.place = self.field, source.field, place
        self._mixed |= source.field in self._bases and last != source.field
        glued = self._places.get(source.field, place) != place
        self._places[source.field] = place
        self.runs.append([])
        pieces: list[Piece] = []
        if glued:
            pieces.append(Piece(source.field, source.kind, "", at, alone=True))
        self.names = []
        for path in self._step(source, place, glued=glued):
            pieces += self._read(path, source)
        return pieces

    def _step(self, source: Source, place: Place, *, glued: bool) -> list[_Path]:
        """Return what clients have put together with this run, each once, but for what the field itself says."""
        run = len(self.runs) - 1
        made: dict[_Path | None, _Path] = {}

        def go_on(before: _Path | None) -> _Path:
            path = made.get(before)
            if path is None:
                straight = not glued if before is None else before.straight and before.run == run - 1
                path = made[before] = _Path(before, run, straight=straight)
            return path

        base = self._bases[source.field] = go_on(self._bases.get(source.field))
        for key in _keys_of(place):
            self._heads[key] = go_on(self._heads.get(key))
        return [path for path in made.values() if path is not base]

    def _read(self, path: _Path, source: Source) -> list[Piece]:
        """Return what stands before this run in a reading of its own, if it needs one."""
        before = path.before
        if before is None or (source.chained and path.straight and not self._mixed):
            return []
        pieces: list[Piece] = []
        if before.name and self._ends[before.name] is before:
            path.name = before.name
        else:
            path.name = f"/{source.group}/{len(self._ends)}{JOINED}"
            pieces = [Piece(path.name, source.kind, text, (), alone=True) for text in self._told(before)]
        self._ends[path.name] = path
        self.names.append(path.name)
        return [*pieces, Piece(path.name, source.kind, "", (), alone=True)]

    def _told(self, path: _Path) -> Sequence[str]:
        found: list[str] = []
        at: _Path | None = path
        while at is not None:
            found.append("".join(self.runs[at.run]))
            at = at.before
        return found[::-1]


def word(value: object) -> Hashable:
    """Return what tells one value from another, whatever it is: to Python 1, 1.0 and True are equal."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return type(value).__name__, repr(value)


def _keys_of(place: Place) -> list[Hashable]:
    """Return what a client may tell texts apart by: nothing, the item's number or id, and with it the part's number."""
    item, output, part = place.item, place.output, place.part
    return [(), (0, output), (1, item), (2, item, output), (3, item, part), (4, item, output, part)]


class Turns:
    """Follow the texts of one stream."""

    __slots__ = ("_groups", "_last")

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._last = _Group()

    def follow(self, source: Source, place: Place, text: str, at: tuple[str | int, ...] = ()) -> list[Piece]:
        """Return what stands before a delta: what it adds to readings of their own, and a seam in its field.

        Args:
            source: the text that it adds to.
            place: where the event says that it belongs.
            text: the delta.
            at: where it stands in its event.
        """
        place = Place(*map(word, place))
        group = self._groups.get(source.group)
        if group is None:
            group = self._groups[source.group] = _Group()
        self._last = group
        pieces: list[Piece] = []
        if group.place != place or group.field != source.field:
            pieces = group.turn(source, place, at)
        pieces += [Piece(name, source.kind, text, ()) for name in self.go_on(text)]
        return pieces

    def go_on(self, text: str) -> Sequence[str]:
        """Return the fields of the readings of their own that a delta adds to which belongs where the last one did."""
        last = self._last
        last.runs[-1].append(text)
        return last.names
