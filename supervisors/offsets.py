"""Map a place in a rewritten text back to the text it was made from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, sub
from typing import NamedTuple


class Place(NamedTuple):
    """A half-open range of character offsets."""

    start: int
    end: int


class Piece(NamedTuple):
    """One replaced stretch: ``raw[start:end]`` became `text`; between pieces every character stands for itself."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Offsets:
    """Remember where the pieces went; build it with `index_pieces`.

    Args:
        outs: where each piece begins in the rewritten text, ascending.
        out_ends: where it ends there; equal to the beginning when the stretch was deleted.
        starts: where it begins in the raw text.
        ends: where it ends there.
    """

    outs: tuple[int, ...] = ()
    out_ends: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def locate(self, start: int, end: int) -> Place:
        """Return the raw range of ``rewritten[start:end]`` (not empty); a piece that is touched is taken whole."""
        first, last = self._find(start), self._find(end - 1)
        return Place(first.start, last.end)

    def _find(self, offset: int) -> Place:
        i = bisect_right(self.outs, offset) - 1
        if i < 0:
            return Place(offset, offset + 1)
        if offset < self.out_ends[i]:
            return Place(self.starts[i], self.ends[i])
        raw = self.ends[i] + offset - self.out_ends[i]
        return Place(raw, raw + 1)


def index_pieces(pieces: Iterable[Piece]) -> Offsets:
    """Build the map of pieces that are in order and do not overlap."""
    listed = tuple(pieces)
    return index_places([(piece.start, piece.end) for piece in listed], [len(piece.text) for piece in listed])


def index_places(places: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Offsets:
    """Build the map of stretches that are in order and do not overlap.

    Args:
        places: where each begins and ends in the raw text.
        sizes: characters that each became.
    """
    if not places:
        return Offsets()
    starts, ends = zip(*places, strict=True)
    shifts = accumulate(map(sub, sizes, map(sub, ends, starts)), initial=0)
    outs = tuple(map(add, starts, shifts))
    return Offsets(outs, tuple(map(add, outs, sizes)), starts, ends)


def replace_pieces(raw: str, pieces: Iterable[Piece]) -> str:
    """Return the rewritten text."""
    out: list[str] = []
    done = 0
    for start, end, text in pieces:
        out += (raw[done:start], text)
        done = end
    out.append(raw[done:])
    return "".join(out)
