"""Where in a growing text a long match may have begun: from there on a stream has to wait, and nowhere else.

A pattern that may match thousands of characters would otherwise hold back thousands of every text. What is not long is
left to the fixed hold-back, and so is what is written in a code or disguise that cannot be read yet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from supervisors.beginnings import compile_beginnings, find_beginning
from supervisors.decoding import find_runs
from supervisors.patterns import Pattern, Program
from supervisors.variants import Layer, Variant, find_variants

LONG_CHARS: Final = 512
"""Matches up to this length wait for their end wherever they may begin."""

UNREAD_CHARS: Final = 128
"""What is held back at least, so that a beginning in disguise can be read as one: 3 escapes, 16 characters of a run."""

_ESCAPE: Final = re.compile(
    "[\U000e0020-\U000e007e]"
    r"|%(?:[0-9A-Fa-f]{2}|[0-9A-Fa-f]?\Z)"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31};|#?[xX]?\Z|[A-Za-z][A-Za-z0-9]{0,31}\Z)"
    r"|\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|u?\{?[0-9A-Fa-f]{0,6}\Z|x[0-9A-Fa-f]?\Z)"
)
"""One escape of a kind that is decoded, or the beginning of one at the very end of the text."""


_PARSED: Final[tuple[Variant, ...]] = ("escape",)
"""What is left to read where no escape hides a character: line breaks and quotes inside JSON, and JSON inside that."""


@dataclass(frozen=True, slots=True)
class Openings:
    """The long patterns of one supervisor; build it with `find_openings`.

    Args:
        program: matches a beginning of one of them at the end of a text.
        max_chars: longest match.
    """

    program: Program
    max_chars: int

    def first_open(self, text: str) -> int:
        """Return where the leftmost match that is not complete may begin, the length of the text if none can.

        What stands in a code is read as a whole or not at all, so from the first of it on everything waits, as long as
        the longest match; in front of it waits what may go on in it.

        Args:
            text: what was read so far and has not left yet.
        """
        coded = _first_coded(text)
        plain = text[:coded]
        steady = plain[: _steady_end(plain)]
        first, early = self._first_in(plain), self._first_in(steady)
        first = min(first, early) if early < len(steady) else first
        return first if coded == len(text) else max(first, self._bound(Layer(text)))

    def _bound(self, layer: Layer) -> int:
        """Return the offset before which no match can begin that is still open."""
        folded = len(layer.cased) - self.max_chars
        start = layer.locate_cased(folded, folded + 1).start if folded > 0 else 0
        return min(start, max(0, len(layer.text) - self.max_chars))

    def _first_in(self, text: str) -> int:
        """Search a text without an escape that hides a character, and what it says to who parses it."""
        return min([len(text), *[place for layer in find_variants(text, _PARSED).layers for place in self._in(layer)]])

    def _in(self, layer: Layer) -> Iterator[int]:
        place = self._search(layer.text)
        if place < len(layer.text):
            yield layer.locate("raw", place, place + 1).start
        if layer.cased != layer.text:
            place = self._search(layer.cased)
            if place < len(layer.cased):
                yield layer.locate_cased(place, place + 1).start

    def _search(self, text: str) -> int:
        before = max(0, len(text) - self.max_chars - 1)  # with one character more, for what looks at word boundaries
        return before + find_beginning(self.program, text[before:])


def _first_coded(text: str) -> int:
    """Return where the first escape or encoded run begins, the length of the text if there is none."""
    escape = _ESCAPE.search(text)
    starts = [len(text) if escape is None else escape.start()]
    starts += [run.start for kind in ("base64", "hex") for run in find_runs(kind, text)]
    return min(starts)


def _steady_end(text: str) -> int:
    """Return where the part of a text ends that no further character can change: it may join the last one."""
    end = len(text)
    while end > 0 and unicodedata.category(text[end - 1]) in ("Mn", "Mc", "Me", "Cf"):
        end -= 1
    return max(0, end - 1)


def find_openings(patterns: Sequence[Pattern]) -> Openings | None:
    """Return what finds the beginnings of the long ones among some patterns, None when there are none.

    A pattern without a bound, one whose variants turn the text around, and one whose beginnings cannot be worked out
    are not among them.
    """
    known = [pattern for pattern in patterns if is_long(pattern)]
    program = compile_beginnings([pattern.alternative for pattern in known]) if known else None
    if program is None:
        return None
    return Openings(program, max([pattern.max_match_chars or 0 for pattern in known]))


def is_long(pattern: Pattern) -> bool:
    """Say whether a pattern would hold back much, and need not."""
    return not pattern.loose and pattern.max_match_chars is not None and pattern.max_match_chars > LONG_CHARS
