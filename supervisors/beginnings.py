"""From an expression, one for every beginning of its matches: a stream holds back only what may become a match.

If ``text[start:]`` could still grow into a match, some beginning of a match reaches exactly to the end of the text.
So the leftmost place where such a beginning starts is the first character that has to wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from supervisors.patterns import Haystack, Program, compile_alternatives, read_count, skip_class

_LETTER_ESCAPES: Final = "AbBzdDsSwWntrfva"
"""Escapes of one letter that are one part of an expression; of others the beginnings are not worked out."""

_FLAGS: Final = re.compile(r"\(\?([a-zA-Z-]+)\)")
_MOST: Final = 20_000
"""Instructions of the expression for the beginnings: it is larger than its source, and only runs over a text's end."""


class _Unreadable(Exception):
    """The expression uses something whose beginnings we do not work out."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of a sequence: the whole of it, and what may stand for a beginning of it that is not empty, if any."""

    whole: str
    part: str = ""


def compile_beginnings(sources: Sequence[str]) -> Program | None:
    """Return an expression that matches where a beginning of a match of one of the sources ends the text.

    Args:
        sources: RE2 expressions that compile.

    Returns:
        None when one of them uses syntax that is not taken apart, or the whole would be too large.
    """
    try:
        beginnings = [_Reader(source).read() for source in sources]
        program = compile_alternatives([f"(?:{'|'.join(beginnings)})\\z"])
    except (_Unreadable, ValueError):
        return None
    return program if program.programsize <= _MOST else None


def find_beginning(program: Program, text: str) -> int:
    """Return where the leftmost beginning of a match starts that reaches to the end of a text, its length if none."""
    haystack = Haystack(text)
    match = program.search(haystack.data)
    start = len(haystack.data) if match is None else match.span()[0]
    return len(haystack.data[:start].decode("utf-8", "replace"))


@dataclass(slots=True)
class _Reader:
    """Walk an expression once. It has been compiled, so its syntax is right."""

    source: str
    at: int = 0

    def read(self) -> str:
        return self._read_group("(?:").part

    def _read_group(self, opener: str) -> _Item:
        """Read alternatives up to the closing parenthesis or the end, and the flags for all of them in front."""
        flags = _FLAGS.match(self.source, self.at)
        if flags is not None:
            self.at = flags.end()
            inner = self._read_group(f"(?{flags[1]}:")
            return _Item(f"{opener}{inner.whole})", f"{opener}{inner.part})")
        sequences: list[list[_Item]] = [[]]
        while self.at < len(self.source) and self.source[self.at] != ")":
            if self.source[self.at] == "|":
                self.at += 1
                sequences.append([])
            else:
                sequences[-1].append(self._read_repeated())
        wholes = ["".join([item.whole for item in sequence]) for sequence in sequences]
        parts = [_begin(sequence) for sequence in sequences]
        return _Item(f"{opener}{'|'.join(wholes)})", f"{opener}{'|'.join(parts)})")

    def _read_repeated(self) -> _Item:
        item = self._read_atom()
        while self.at < len(self.source) and self.source[self.at] in "*+?{":
            sign, most = self._read_quantifier()
            if sign == "":
                break  # a brace that stands for itself
            again = "*" if most is None else f"{{0,{most - 1}}}"
            before = "" if most is not None and most < 2 else f"(?:{item.whole}){again}"
            item = _Item(f"(?:{item.whole}){sign}", before + item.part if most != 0 else "")
        return item

    def _read_quantifier(self) -> tuple[str, int | None]:
        """Return the quantifier as written, its laziness included, and the largest number of repetitions."""
        start, sign = self.at, self.source[self.at]
        most: int | None = {"*": None, "+": None, "?": 1}.get(sign)
        self.at += 1
        if sign == "{":
            count = read_count(self.source, self.at)
            if count is None:
                self.at = start
                return "", None
            most, self.at = count
        if self.source.startswith("?", self.at):
            self.at += 1
        return self.source[start : self.at], most

    def _read_atom(self) -> _Item:
        start = self.at
        self.at += 1
        match self.source[start]:
            case "(":
                return self._read_parenthesis()
            case "[":
                self.at = skip_class(self.source, self.at)
            case "\\":
                self._skip_escape()
            case "{":
                return _Item("\\{")
            case _:
                pass
        return _Item(self.source[start : self.at])

    def _read_parenthesis(self) -> _Item:
        opener = "(?:"
        if self.source.startswith("?", self.at):
            stop = self.at + 1
            named = self.source.startswith(("P<", "<"), stop)
            while self.source[stop] not in (">" if named else ":)"):
                stop += 1
            if self.source[stop] == ")":
                raise _Unreadable  # flags from here on
            opener = "(?:" if named else f"({self.source[self.at : stop + 1]}"
            self.at = stop + 1
        item = self._read_group(opener)
        self.at += 1
        return item

    def _skip_escape(self) -> None:
        letter = self.source[self.at]
        self.at += 1
        if letter in "pPx":
            if self.source.startswith("{", self.at):
                self.at = self.source.index("}", self.at) + 1
            else:
                self.at += 2 if letter == "x" else 1
        elif letter.isalnum() and letter not in _LETTER_ESCAPES:
            raise _Unreadable  # quoted stretches, octal numbers, bytes


def _begin(sequence: Sequence[_Item]) -> str:
    """Return what matches every beginning of a sequence, the empty one and the whole included."""
    made = ""
    for item in reversed(sequence):
        part = f"|{item.part}" if item.part else ""
        made = f"(?:{item.whole}{made}{part})?"
    return made
