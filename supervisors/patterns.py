"""Search with regular expressions in time linear in the text, whoever wrote the expression (X-08).

The engine is RE2: no backtracking, so no pathological pattern, and it works without the interpreter lock. Its syntax
has no look-around and no back-references, and its classes for words, digits, space and word boundaries know ASCII only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import re2  # the package ships no type information; `_Engine` states what we use

from supervisors.offsets import Place

MAX_PROGRAM = 5_000
"""Instructions of a compiled expression: 1 MB of text then costs seconds at the very worst, in a thread."""

_KEYWORD_MEMORY = 64 << 20
"""Bytes an automaton of many keywords may use before RE2 falls back to its slow matcher."""


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class Program(Protocol):
    """A compiled RE2 expression, as far as we use it."""

    groups: int
    programsize: int

    def search(self, text: bytes, pos: int | None = None) -> _Match | None:
        """Return the leftmost match from a byte offset on."""
        ...


class _Options(Protocol):
    log_errors: bool
    case_sensitive: bool
    max_mem: int


class _Engine(Protocol):
    error: type[Exception]

    def Options(self) -> _Options: ...  # noqa: N802 - its name

    def compile(self, pattern: bytes, options: _Options) -> Program: ...

    def escape(self, pattern: str) -> str: ...


_ENGINE = cast("_Engine", re2)


@dataclass(frozen=True)
class Haystack:
    """A text and its UTF-8 form, encoded once for all expressions.

    Args:
        text: any text; lone surrogates are searched as question marks.
    """

    text: str

    @cached_property
    def data(self) -> bytes:
        """Return the text in UTF-8."""
        return self.text.encode("utf-8", "replace")

    def to_chars(self, places: Iterable[Place]) -> Iterator[Place]:
        """Turn byte offsets, ascending by their start, into character offsets."""
        if len(self.data) == len(self.text):
            yield from places
            return
        byte = char = 0
        for start, end in places:
            char += _count_chars(self.data[byte:start])
            byte = start
            yield Place(char, char + _count_chars(self.data[start:end]))


def _count_chars(data: bytes) -> int:
    return len(data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled expression.

    Args:
        source: as written.
        program: RE2's form of it.
        max_chars: longest possible match, None when there is no bound.
        size: instructions, the factor of the running time.
    """

    source: str
    program: Program
    max_chars: int | None
    size: int

    def search(self, haystack: Haystack) -> bool:
        """Say whether there is a match."""
        return self.program.search(haystack.data) is not None

    def find(self, haystack: Haystack, group: int = 0) -> tuple[Place, ...]:
        """Return all matches in order; none overlaps the one before, empty ones are left out.

        Args:
            haystack: where to look.
            group: group that is the finding; the search goes on at its end, so what surrounds it may be shared.
        """
        return tuple(haystack.to_chars(self._find_bytes(haystack.data, group)))

    def _find_bytes(self, data: bytes, group: int) -> Iterator[Place]:
        at = 0
        while at <= len(data):
            match = self.program.search(data, at)
            if match is None:
                return
            start, end = match.span(group)
            if end > start:
                yield Place(start, end)
            at = max(end, at + 1)


def compile_regex(source: str, *, ignore_case: bool = False) -> Regex:
    """Compile an expression.

    Args:
        source: RE2 syntax, which is Perl's without look-around and back-references.
        ignore_case: match both cases.

    Raises:
        ValueError: it is not RE2 syntax, too large, or matches the empty text.
    """
    program = _compile(source, ignore_case=ignore_case)
    if program.programsize > MAX_PROGRAM:
        msg = (
            f"the expression {source!r} compiles to {program.programsize} instructions, at most {MAX_PROGRAM}: "
            "use smaller repetition counts"
        )
        raise ValueError(msg)
    if program.search(b"") is not None:
        msg = f"the expression {source!r} matches the empty text, so it would flag everything"
        raise ValueError(msg)
    return Regex(source, program, measure_width(source), program.programsize)


def compile_alternatives(sources: Sequence[str]) -> Program:
    """Compile one expression that matches if any of the sources does; used to rule most texts out at once."""
    return _compile("|".join([f"(?:{source})" for source in sources]), memory=_KEYWORD_MEMORY)


def escape(literal: str) -> str:
    """Return an expression that matches exactly this text."""
    return _ENGINE.escape(literal)


def _compile(source: str, *, ignore_case: bool = False, memory: int | None = None) -> Program:
    options = _ENGINE.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    if memory is not None:
        options.max_mem = memory
    try:
        return _ENGINE.compile(source.encode(), options)
    except (_ENGINE.error, UnicodeEncodeError) as error:
        why = str(error).removeprefix("b")
        msg = f"the expression {source!r} is not RE2 syntax ({why}); look-around and back-references do not exist in it"
        raise ValueError(msg) from error


def skip_class(source: str, at: int) -> int:
    """Return where a class of characters ends whose opening bracket stands before `at`."""
    start = at
    while source[at] != "]" or at - start <= (source[start] == "^"):
        if source.startswith("[:", at):
            at = source.index(":]", at) + 1
        elif source[at] == "\\":
            at += 1
        at += 1
    return at + 1


class Count(NamedTuple):
    """A repetition in braces: the most there may be, None without a bound, and where it ends."""

    most: int | None
    end: int


def read_count(source: str, at: int) -> Count | None:
    """Read ``{3}``, ``{3,}`` or ``{3,5}`` whose brace stands before `at`; None for a brace that stands for itself."""
    end = source.find("}", at)
    count = source[at:end] if end > 0 else ""
    if not count.replace(",", "", 1).isdigit() or count.startswith(","):
        return None
    most = count.rpartition(",")[2]
    return Count(int(most) if most else None, end + 1)


def measure_width(source: str) -> int | None:
    """Return an upper bound of the characters an RE2 expression can match, None when it has none.

    Alternatives count as the widest, groups as their content; everything else that is not a repetition is one
    character wide at most, so the bound is never too small.
    """
    return _WidthReader(source).read()


@dataclass(slots=True)
class _WidthReader:
    """Walk an expression once. It has been compiled, so its syntax is right."""

    source: str
    at: int = 0

    def read(self) -> int | None:
        widest: int | None = 0
        current: int | None = 0
        while self.at < len(self.source) and self.source[self.at] != ")":
            if self.source[self.at] == "|":
                self.at += 1
                widest, current = _wider(widest, current), 0
            else:
                current = _add(current, self._read_repeated())
        return _wider(widest, current)

    def _read_repeated(self) -> int | None:
        width = self._read_atom()
        while self.at < len(self.source) and self.source[self.at] in "*+?{":
            sign = self.source[self.at]
            self.at += 1
            if sign in "*+":
                width = None if width != 0 else 0
            elif sign == "{":
                width = self._repeat(width)
        return width

    def _repeat(self, width: int | None) -> int | None:
        count = read_count(self.source, self.at)
        if count is None:
            return _add(width, 1)  # a plain brace
        self.at = count.end
        return None if width is None or count.most is None else width * count.most

    def _read_atom(self) -> int | None:
        sign = self.source[self.at]
        self.at += 1
        match sign:
            case "(":
                return self._read_group()
            case "[":
                self.at = skip_class(self.source, self.at)
                return 1
            case "\\":
                return self._read_escape()
            case "^" | "$":
                return 0
            case _:
                return 1

    def _read_group(self) -> int | None:
        if self.source.startswith("?", self.at):
            stop = ">" if self.source.startswith(("?P<", "?<"), self.at) else ":)"
            while self.source[self.at] not in stop:
                self.at += 1
            if self.source[self.at] == ")":  # (?i): flags for the rest
                self.at += 1
                return 0
            self.at += 1
        width = self.read()
        self.at += 1
        return width

    def _read_escape(self) -> int | None:
        letter = self.source[self.at]
        self.at += 1
        if letter == "Q":
            end = self.source.find("\\E", self.at)
            end = len(self.source) if end < 0 else end
            width = end - self.at
            self.at = min(end + 2, len(self.source))
            return width
        if letter in "pPx" and self.source.startswith("{", self.at):
            self.at = self.source.index("}", self.at) + 1
        return 0 if letter in "AbBz" else 1


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _wider(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else max(left, right)


Check = Callable[[str], Iterable[Place]]
"""Turn a candidate match into what of it is a finding, e.g. after a checksum."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing to look for.

    Args:
        name: dotted name, e.g. ``pii.email``.
        category: category of a finding.
        regex: what it looks like; its first group, if it has one and `group` is 1, is the finding.
        max_match_chars: longest finding, None when there is no bound.
        ignore_case: whether case was ignored, so that case-folded text may be searched.
        loose: search the glued, leetspeak, rot13 and reversed variants too.
        group: 0 for the whole match.
        check: None accepts every match.
        known_fast: one of ours, measured; somebody else's may need a thread.
    """

    name: str
    category: str
    regex: Regex
    max_match_chars: int | None
    ignore_case: bool = False
    loose: bool = False
    group: int = 0
    check: Check | None = None
    known_fast: bool = False

    @property
    def alternative(self) -> str:
        """Return the expression for use among others."""
        return f"(?i:{self.regex.source})" if self.ignore_case else self.regex.source

    def find(self, haystack: Haystack) -> Iterator[Place]:
        """Return all findings in a text."""
        for start, end in self.regex.find(haystack, self.group):
            if self.check is None:
                yield Place(start, end)
            else:
                for first, last in self.check(haystack.text[start:end]):
                    yield Place(start + first, start + last)


def built_in(
    name: str, source: str, max_match_chars: int, *, check: Check | None = None, ignore_case: bool = False
) -> Pattern:
    """Build a pattern of ours: the category is the name; the first group of `source`, if any, is the finding."""
    regex = compile_regex(source, ignore_case=ignore_case)
    group = min(1, regex.program.groups)
    return Pattern(
        name, name, regex, max_match_chars, ignore_case=ignore_case, group=group, check=check, known_fast=True
    )
