r"""Read characters that are written as escapes, in place: tag characters, URL, HTML and string escapes.

String escapes are those of JSON, of JavaScript and of Python that are no octal numbers. Whoever parses a text reads
each escape, so one is enough, of URLs and HTML too; a reader is shown what they say only from three on, since a lone
``%20`` says little.

The pre-checks are a handful of C calls, and the places of the escapes are looked up only when somebody asks for them:
a document of a megabyte may hold a hundred thousand of ``\n``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import unquote_to_bytes

from supervisors.offsets import Offsets, Piece, Place, index_pieces, index_places, replace_pieces

MIN_ESCAPES: Final = 3
"""Escapes a text has at least before whoever reads the whole of it is shown what they say; tags need no company."""

LONGEST_ESCAPE: Final = 16
"""Characters of one escape at most, ``\\\\u{00000a}`` inside JSON inside JSON too; named entities may be longer."""

_MAX_DEPTH: Final = 2

_TAG_RUN: Final = "[\U000e0020-\U000e007e]+"


def _repeat(sign: str, said: str) -> str:
    """Return an expression of one escape or more; it begins with the plain sign, which a search looks for first."""
    return f"{sign}(?:{said})(?:{sign}(?:{said}))*"


_LONG_REST: Final = r"u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}"
_URL_RUN: Final = _repeat("%", "[0-9A-Fa-f]{2}")
_HTML_REST: Final = "#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};"
_HTML_RUN: Final = _repeat("&", _HTML_REST)
_ENTITY: Final = re.compile(f"&(?:{_HTML_REST})")
_TOGETHER: Final = 512
_SOME_ENTITIES: Final = re.compile(f"(?:&(?:{_HTML_REST})){{1,{_TOGETHER}}}")
_LONG: Final = re.compile(_repeat(r"\\", _LONG_REST))
_STRING_RUN: Final = rf"""\\(?:(?:{_LONG_REST})(?:\\(?:{_LONG_REST}))*|[\\/"'bfnrt])"""
_SHORT: Final[Mapping[str, str]] = {
    **{f"\\{char}": char for char in "\\/\"'"},
    "\\b": "\b",
    "\\f": "\f",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
}
_PLAIN_SHORT: Final = re.compile(r"""\\[/"'bfnrt]""")
_SHORT_CHARS: Final = 2
_UNIT_CHARS: Final = 6
_BYTE_CHARS: Final = 4
_STRING_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_APART: Final = "\x01"
"""What no entity says; many are read in one call."""

_NO_CHARACTER: Final = 0x10FFFF
_UNSURE: Final = re.compile(
    f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    f"{''.join([chr(plane + end) for plane in range(0x10000, 0x110000, 0x10000) for end in (0xFFFE, 0xFFFF)])}]"
)
"""Characters whose number a browser reads as another one or as nothing."""

_TELLING: Final = re.compile(r"\\u(?:00|\{0*)(?:20|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])(?![0-9A-Fa-f])")
"""A plain letter, digit or space that nobody has a reason to escape."""

_MARKS: Final = [chr(code) for code in range(0xFDD0, 0xFDF0)] + [chr(code) for code in range(0xE000, 0xF8FF)]
"""What stands for an escaped backslash while the others are read: a character that nobody writes."""
_SIGNS: Final = ("\\", "%", "&")
_OPEN_END: Final = re.compile(
    r"\\(?:u[0-9A-Fa-f]{0,3}|u\{[0-9A-Fa-f]{0,6}|x[0-9A-Fa-f]?)?\Z"
    r"|%[0-9A-Fa-f]?\Z|&(?:#[0-9]{0,7}|#[xX][0-9A-Fa-f]{0,6}|[A-Za-z][A-Za-z0-9]{0,31})?\Z"
)


@dataclass(frozen=True)
class Escapes:
    """The escapes of one kind in a text, each unbroken stretch of them one piece.

    Args:
        kind: ``tags``, ``url``, ``html`` or ``escape``.
        raw: the text.
        text: what it says once they are replaced.
        count: pieces that count against the bounds of a request; a line break in a JSON text does not.
        chars: characters of those.
        telling: whoever reads the whole text should be shown what it says; false where any reader sees it anyway.
        said: what each piece says, where that is known.
    """

    kind: str
    raw: str
    text: str
    count: int
    chars: int
    telling: bool
    said: Sequence[str] | None = None

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Return them in order."""
        return tuple([Piece(*place, said) for place, said in zip(self._places, self._said, strict=True)])

    @cached_property
    def offsets(self) -> Offsets:
        """Return the map from what the text says to the text."""
        return index_places(self._places, list(map(len, self._said)))

    @cached_property
    def _places(self) -> Sequence[tuple[int, int]]:
        return find_stretches(self.kind, self.raw)

    @cached_property
    def _said(self) -> Sequence[str]:
        if self.said is not None:
            return self.said
        escape = _ESCAPES[self.kind]
        runs = escape.pattern.findall(self.raw)
        return list(map(escape.decode(list(frozenset(runs))).__getitem__, runs))

    def may_spell(self, kind: str) -> bool:
        """Say whether an escape of another kind may have a character of what these say in it."""
        escape = _ESCAPES[kind]
        return escape.may_be_in(self.text) and escape.chars.search("".join(frozenset(self._said))) is not None

    @property
    def hiding(self) -> tuple[Piece, ...]:
        """Return those that hide a character, and not those that JSON needs for a line break or a quote."""
        if self.kind != "escape":
            return self.pieces
        return tuple([piece for piece in self.pieces if piece.end - piece.start > _SHORT_CHARS])

    @property
    def uncovered(self) -> Iterator[Place]:
        """Yield where in `text` stands what `hiding` says, in order."""
        hidden = frozenset([piece.start for piece in self.hiding])
        for piece, start, end in zip(self.pieces, self.offsets.outs, self.offsets.out_ends, strict=True):
            if piece.start in hidden:
                yield Place(start, end)


def find_stretches(kind: str, text: str) -> Sequence[tuple[int, int]]:
    """Return where the escapes of a kind are in a text, each unbroken stretch of them once."""
    escape = _ESCAPES[kind]
    return [match.span() for match in escape.pattern.finditer(text)] if escape.may_be_in(text) else ()


def find_escapes(kind: str, text: str, limit: int) -> Escapes | None:
    """Decode the escapes of a text; None when there are none.

    Args:
        kind: ``tags``, ``url``, ``html`` or ``escape``.
        text: any text.
        limit: pieces that count at most; beyond, the text is not decoded.
    """
    escape = _ESCAPES[kind]
    if not escape.may_be_in(text):
        return None
    if kind == "escape":
        return _read_strings(text)
    runs: list[str] = escape.pattern.findall(text)[:limit]
    if not runs:
        return None
    said = escape.decode(list(frozenset(runs)))
    each = [*map(said.__getitem__, runs)]
    decoded = _replace(escape.pattern, text, each) if len(runs) < limit else ""
    few = len(runs) < min(MIN_ESCAPES, limit)
    many = not few or escape.sign is None or sum([run.count(escape.sign) for run in runs]) >= MIN_ESCAPES
    count, chars = (len(runs), sum(map(len, each))) if many else (0, 0)
    return None if decoded == text else Escapes(kind, text, decoded, count, chars, many, each)


def _replace(pattern: re.Pattern[str], text: str, said: Iterable[str]) -> str:
    """Put something in the place of each match of an expression without groups."""
    between = pattern.split(text)
    parts = [""] * (2 * len(between) - 1)
    parts[::2] = between
    parts[1::2] = said
    return "".join(parts)


def _read_strings(text: str) -> Escapes | None:
    """Read the string escapes; the short ones in C, since they are many and each says one known character."""
    decoded = text
    mark = next((mark for mark in _MARKS if mark not in text), _MARKS[0])
    if "\\\\" in text:
        decoded = decoded.replace("\\\\", mark)
    for short in frozenset(_PLAIN_SHORT.findall(decoded)):
        decoded = decoded.replace(short, _SHORT[short])
    written: list[str] = []
    heard: dict[str, str] = {}
    if _may_hold_long(decoded):
        written = _LONG.findall(decoded)
        heard = {run: _decode_string(run).replace(mark, "\ufffd") for run in set(written)}
        decoded = _replace(_LONG, decoded, map(heard.__getitem__, written))
    if decoded == text:
        return None
    telling = sum([run.count("\\") for run in written]) >= MIN_ESCAPES or any(map(_TELLING.search, heard))
    count, chars = (len(written), sum([len(heard[run]) for run in written])) if telling else (0, 0)
    return Escapes("escape", text, decoded.replace(mark, "\\"), count, chars, telling)


def _may_hold_long(text: str) -> bool:
    return "\\u" in text or "\\x" in text


def find_unit(text: str, count: Callable[[str], int]) -> int:
    """Return a place that somebody finds in what a text says, in the text itself.

    All kinds of escapes are read, however few there are, and those inside them; one that is cut off at the end of the
    text is left out.

    Args:
        text: any text.
        count: returns an offset in what the text says, its length at most.
    """
    said = text[: _end_of_whole(text)]
    offsets: list[Offsets] = []
    for _ in range(_MAX_DEPTH):
        pieces = [
            Piece(*match.span(), _ESCAPES[str(match.lastgroup)].decode((match[0],))[match[0]])
            for match in _ANY.finditer(said)
        ]
        if not pieces:
            break
        offsets.append(index_pieces(pieces))
        said = replace_pieces(said, pieces)
        said = said[: _end_of_whole(said)]
    place = count(said)
    for made in reversed(offsets):
        place = made.locate(place, place + 1).start
    return place


def holds_signs(text: str) -> bool:
    """Say whether there may be an escape in a text."""
    return any(sign in text for sign in _SIGNS) or (not text.isascii() and _TAGS.search(text) is not None)


def _end_of_whole(text: str) -> int:
    match = _OPEN_END.search(text, max(0, len(text) - 2 * LONGEST_ESCAPE))
    return len(text) if match is None else match.start()


def _decode_tags(run: str) -> str:
    return "".join([chr(ord(char) - 0xE0000) for char in run])


def _decode_url(run: str) -> str:
    data = unquote_to_bytes(run)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _decode_html(runs: Sequence[str]) -> dict[str, str]:
    """Read runs of entities, some hundred entities at a time, so that what is made for them fits the caches."""
    read: dict[str, str] = {}
    for first in range(0, len(runs), _TOGETHER):
        some = runs[first : first + _TOGETHER]
        joined = "".join(some)
        if len(joined) <= _TOGETHER * LONGEST_ESCAPE:
            said = _decode_entities(frozenset(_ENTITY.findall(joined)))
            for run in some:
                read[run] = said[run] if run in said else "".join(map(said.__getitem__, _ENTITY.findall(run)))
        else:
            for run in some:
                parts = [_decode_entities_of(part) for part in _SOME_ENTITIES.findall(run)]
                read[run] = "".join(parts)
    return read


def _decode_entities_of(run: str) -> str:
    entities = _ENTITY.findall(run)
    return "".join(map(_decode_entities(frozenset(entities)).__getitem__, entities))


def _decode_entities(entities: frozenset[str]) -> dict[str, str]:
    """Read entities as a browser does; the numbers of ordinary characters at once: each may be another one."""
    numbers = [entity for entity in entities if entity[1] == "#" and entity[-1] == ";"]
    hexadecimal = [entity for entity in numbers if entity[2] in "xX"]
    decimal = [entity for entity in numbers if entity[2] not in "xX"] if hexadecimal else numbers
    codes = [*map(int, "".join(decimal)[2:-1].split(";&#"))] if decimal else []
    codes += [int(entity[3:-1], 16) for entity in hexadecimal]
    if max(codes, default=0) > _NO_CHARACTER:
        codes = [min(code, _NO_CHARACTER) for code in codes]
    chars = "".join(map(chr, codes))
    listed = decimal + hexadecimal if hexadecimal else decimal
    said = dict(zip(listed, chars, strict=True))
    unsure = frozenset(_UNSURE.findall(chars))
    others = [entity for entity, char in zip(listed, chars, strict=True) if char in unsure] if unsure else []
    if len(said) < len(entities):
        others += [entity for entity in entities if entity not in said]
    if others:
        said |= zip(others, html.unescape(_APART.join(others)).split(_APART), strict=True)
    return said


def _decode_string(run: str) -> str:
    if run in _SHORT:
        return _SHORT[run]
    if run.count("\\u") * _UNIT_CHARS == len(run) and "{" not in run:
        return bytes.fromhex(run.replace("\\u", "")).decode("utf-16-be", "replace")
    if run.count("\\x") * _BYTE_CHARS == len(run):
        return bytes.fromhex(run.replace("\\x", "")).decode("latin-1")
    units = [int(match.group(match.lastindex or 0), 16) for match in _STRING_ESCAPE.finditer(run)]
    text = "".join([chr(unit) for unit in units if unit <= 0x10FFFF])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogate pairs


def _is_narrow(text: str) -> bool:
    """Say quickly whether all characters are of the first 256, where there are no tags."""
    try:
        return text.isascii() or bool(text.encode("latin-1"))
    except UnicodeEncodeError:
        return False


def _each(decode: Callable[[str], str]) -> Callable[[Sequence[str]], dict[str, str]]:
    return lambda runs: {run: decode(run) for run in runs}


@dataclass(frozen=True, slots=True)
class _Escape:
    """How one kind of escape is noticed, matched and decoded, and which characters there are in one."""

    sign: str | None
    pattern: re.Pattern[str]
    decode: Callable[[Sequence[str]], dict[str, str]]
    chars: re.Pattern[str]

    def may_be_in(self, text: str) -> bool:
        """Say whether a text holds what every one of them begins with."""
        return not _is_narrow(text) if self.sign is None else self.sign in text


_TAGS: Final = re.compile(_TAG_RUN)
_ESCAPES: Final[Mapping[str, _Escape]] = {
    "tags": _Escape(None, _TAGS, _each(_decode_tags), _TAGS),
    "url": _Escape("%", re.compile(_URL_RUN), _each(_decode_url), re.compile("[%0-9A-Fa-f]")),
    "html": _Escape("&", re.compile(_HTML_RUN), _decode_html, re.compile("[&#;0-9A-Za-z]")),
    "escape": _Escape(
        "\\", re.compile(_STRING_RUN), _each(_decode_string), re.compile(r"""[\\/"'{}0-9A-Fa-fbfnrtux]""")
    ),
}
_ANY: Final = re.compile("|".join([f"(?P<{kind}>{escape.pattern.pattern})" for kind, escape in _ESCAPES.items()]))
