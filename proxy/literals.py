"""The strings of a JSON text that may still grow: where a redaction leaves it valid (G-37). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import orjson

from proxy.redact import Mark

_TOKEN: Final = re.compile(
    r'[ \t\r\n]+|[{}\[\],:]|"(?:[^"\\\x00-\x1f]|\\.)*+(?:"|\\?\Z)|[-+.0-9A-Za-z]+',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{0,4}|\\.?", re.DOTALL
)


def masks_strings(text: str, marks: Sequence[Mark]) -> bool:
    """Say whether these marks leave a text as valid as it is.

    Args:
        text: what the caller will parse as JSON, as far as it has come.
        marks: disjoint and ascending.

    Returns:
        True where each mark lies inside one string that is a value, and cuts no escape; also where the text is no
        JSON, so that nothing can be broken.
    """
    values = _value_strings(text)
    if values is None:
        return True
    return all(any(_fits(text, mark, begin, end) for begin, end in values) for mark in marks)


def _fits(text: str, mark: Mark, begin: int, end: int) -> bool:
    if not begin <= mark.start <= mark.end <= end:
        return False
    cuts = [escape.span() for escape in _ESCAPE.finditer(text, begin, end)]
    whole = not any(start < edge < stop for start, stop in cuts for edge in (mark.start, mark.end))
    return whole and orjson.dumps(mark.placeholder)[1:-1] == mark.placeholder.encode()


def _value_strings(text: str) -> list[tuple[int, int]] | None:
    """Return where the strings that are values lie, without their quotes; None when this is no beginning of JSON."""
    tokens = list(_TOKEN.finditer(text))
    if text.lstrip()[:1] not in ("{", "[") or sum([len(token.group()) for token in tokens]) != len(text):
        return None
    found: list[tuple[int, int]] = []
    inside: list[str] = []
    is_key = False
    for token in tokens:
        word = token.group()
        if word[0] in "{[":
            inside.append(word[0])
        elif word[0] in "}]":
            inside = inside[:-1]
        elif word[0] == '"' and not is_key:
            found.append((token.start() + 1, token.end() - _is_closed(word)))
        if word[0] in "{[,:":
            is_key = word[0] in "{," and inside[-1:] == ["{"]
    return found


def _is_closed(string: str) -> bool:
    if len(string) == 1 or not string.endswith('"'):
        return False
    behind = string[1:-1]
    return (len(behind) - len(behind.rstrip("\\"))) % 2 == 0
