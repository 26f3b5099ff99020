"""Log-probabilities beside a text: what they spell, and what must go with a redaction (W-09). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from sys import maxunicode
from typing import Any, Final, cast

from proxy.wire.names import is_named
from proxy.wire.segments import KEYS, SegmentList, all_keys, as_list, as_object, escape, string_leaves

_SEVERAL: Final = re.compile(r"\S\s+\S")
"""White space inside a token; before or after its word a tokenizer may have some."""
_BYTE: Final = 255
_LONGEST_NUMBER: Final = 7


def keep_outside(tokens: Iterable[Any], spans: Sequence[tuple[int, int]]) -> list[Any] | None:
    """Return the entries of the tokens that overlap none of the spans.

    Args:
        tokens: entries with a `token` each; joined, the tokens are the text.
        spans: start and end in characters of the text.

    Returns:
        None where the tokens cannot be laid on the text, as with characters split over tokens.
    """
    kept: list[Any] = []
    offset = 0
    for value in tokens:
        entry = as_object(value) or {}
        text = str(entry.get("token", ""))
        if entry.get("bytes") not in (None, list(text.encode())):
            return None
        if not any(start < offset + len(text) and offset < end for start, end in spans):
            kept.append(value)
        offset += len(text)
    return kept if offset >= max([end for _, end in spans], default=0) else None


def token_texts(logprobs: object, said: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what the log-probabilities of a choice spell beyond the text beside them, with pointers below them.

    Args:
        logprobs: lists of entries by the field they belong to (chat), or parallel lists (legacy completions).
        said: the texts beside them; tokens that spell their own text are judged, and masked, with it.
    """
    listed = as_object(logprobs)
    if listed is None:
        yield from _leaves(logprobs, "")
        return
    yield from _names(listed)
    for key, value in listed.items():
        rows = as_list(value)
        if key in ("content", "refusal") and rows is not None:
            yield from entry_texts(rows, said.get(key), f"/{key}")
        elif key == "tokens" and rows is not None:
            yield from _spelled(rows, said.get("text"), "/tokens")
        elif key == "top_logprobs" and rows is not None:
            taken = as_list(listed.get("tokens")) or []
            yield from _alternatives([[*(as_object(row) or {})] for row in rows], taken, "/top_logprobs")
            yield from _leaves([row for row in rows if not isinstance(row, dict)], "/top_logprobs")
            yield from _leaves([[*(as_object(row) or {}).values()] for row in rows], "/top_logprobs")
        else:
            yield from _leaves(value, f"/{escape(key)}")


def add_tokens(segments: SegmentList, logprobs: object, path: str, said: Mapping[str, object]) -> None:
    """Add what the log-probabilities at `path` spell beyond the texts in `said`."""
    for at, text in token_texts(logprobs, said):
        segments.add(path + at, "other", text)


def entry_texts(value: object, said: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield what a list of entries, one a token, spells beyond the text beside it.

    The tokens that a model might have taken instead stand for themselves and, read along their ranks, for a text: both
    are judged, in one segment.

    Args:
        value: the entries.
        said: the text beside them.
        path: pointer of the list.
    """
    rows = as_list(value)
    if rows is None:
        yield from _leaves(value, path)
        return
    entries = [entry for row in rows if (entry := as_object(row)) is not None]
    taken = [entry.get("token") for entry in entries]
    yield from _leaves([row for row in rows if not isinstance(row, dict)], path)
    yield from _spelled(taken, said, path)
    yield from _written(entries, taken, said, f"{path}/bytes")
    others = [as_list(entry.get("top_logprobs")) or [] for entry in entries]
    tokens = [[str((as_object(other) or {}).get("token", "")) for other in row] for row in others]
    yield from _alternatives(tokens, taken, f"{path}/top_logprobs")
    yield from _written_instead(others, f"{path}/top_logprobs/bytes")
    for entry in entries:
        yield from _rest(entry, path)
    for other in [other for row in others for other in row]:
        inner = as_object(other)
        yield from _leaves(other, path) if inner is None else _rest(inner, f"{path}/top_logprobs", nested=True)


def _rest(entry: Mapping[str, object], path: str, *, nested: bool = False) -> Iterator[tuple[str, str]]:
    """Yield what else an entry holds; numbers and documented names are nothing."""
    yield from _names(entry)
    for key, child in entry.items():
        is_token = key == "token" and isinstance(child, str)
        is_others = key == "top_logprobs" and as_list(child) is not None and not nested
        if not (is_token or is_others):
            yield from _leaves(child, f"{path}/{escape(key)}")


def _written(
    entries: Sequence[Mapping[str, object]], taken: Sequence[object], said: object, path: str
) -> Iterator[tuple[str, str]]:
    """Yield what the bytes of entries spell, in every way they can be read, unless that is the text or the tokens."""
    numbers = [_numbers(entry.get("bytes")) for entry in entries]
    spelt = "".join([str(token) for token in taken])
    for read in _ways(numbers):
        written, parts = read([number for row in numbers for number in row]), [read(row) for row in numbers]
        known = written in ("", said, spelt)
        if written and not (known and parts == taken):  # split as the tokens are, it was read with them
            yield from _both_ways(parts, "" if known else written, path)


def _written_instead(rows: Sequence[Sequence[object]], path: str) -> Iterator[tuple[str, str]]:
    """Yield what the bytes spell of the tokens that might have been taken, alone and along their ranks.

    Bytes that are those of their token, as they should be, were read with it.
    """
    entries = [[as_object(other) or {} for other in row] for row in rows]
    if not any(_is_odd(other) for row in entries for other in row):
        return
    numbers = [[_numbers(other.get("bytes")) or [*_token(other).encode()] for other in row] for row in entries]
    ranks = [[number for one in rank for number in one] for rank in zip_longest(*numbers, fillvalue=())]
    alone = [one for row in numbers for one in row]
    texts = dict.fromkeys([read(one) for read in _ways(alone) for one in (*alone, *ranks)])
    yield path, "\n".join([text for text in texts if text])


def _is_odd(entry: Mapping[str, object]) -> bool:
    value = entry.get("bytes")
    return value is not None and value != [*_token(entry).encode()]


def _token(entry: Mapping[str, object]) -> str:
    return str(entry.get("token", ""))


def _numbers(value: object) -> list[int]:
    """Return the numbers in what should be a list of bytes, in order: clients turn other shapes into bytes too."""
    if isinstance(value, int):
        return [value]
    if isinstance(value, float):
        return [int(value)] if isfinite(value) else []
    if isinstance(value, str):
        return [int(value)] if value.isascii() and value.isdecimal() and len(value) <= _LONGEST_NUMBER else []
    if isinstance(value, dict):
        value = [*cast("dict[str, object]", value).values()]
    return [number for child in as_list(value) or () for number in _numbers(child)]


def _ways(numbers: Iterable[Sequence[int]]) -> Sequence[Callable[[Sequence[int]], str]]:
    """Return how numbers can be read: as the bytes of a text, and those that are none cut, left out, or as letters."""
    plain = all(0 <= number <= _BYTE for row in numbers for number in row)
    return (_cut,) if plain else (_cut, _left_out, _letters)


def _cut(numbers: Sequence[int]) -> str:
    return bytes([number & _BYTE for number in numbers]).decode("utf-8", "replace")


def _left_out(numbers: Sequence[int]) -> str:
    return bytes([number for number in numbers if 0 <= number <= _BYTE]).decode("utf-8", "replace")


def _letters(numbers: Sequence[int]) -> str:
    return "".join([chr(number) for number in numbers if 0 <= number <= maxunicode and not 0xD800 <= number < 0xE000])


def _both_ways(tokens: Sequence[str], glued: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the text that tokens spell and what they say alone, in one segment.

    Args:
        tokens: in order.
        glued: what they spell; "" where it is judged already: then only tokens of several words say more alone.
        path: pointer of the list.
    """
    alone = tokens if glued else [token for token in tokens if _SEVERAL.search(token) is not None]
    texts = dict.fromkeys([text for text in (glued, *alone) if text])
    if texts:
        yield path, "\n".join(texts)


def _spelled(tokens: Sequence[object], said: object, path: str) -> Iterator[tuple[str, str]]:
    texts = [token for token in tokens if isinstance(token, str)]
    spelled = "".join(texts)
    if spelled != said:
        yield from _both_ways(texts, spelled, path)
    elif len(texts) > 1:
        yield from _both_ways(texts, "", path)
    yield from _leaves([token for token in tokens if not isinstance(token, str)], path)


def _alternatives(rows: Sequence[Sequence[str]], taken: Sequence[object], path: str) -> Iterator[tuple[str, str]]:
    others = [[token for token in row if token != own] for row, own in zip_longest(rows, taken, fillvalue=())]
    ranks = ["".join(rank) for rank in zip_longest(*others, fillvalue="")]
    texts = dict.fromkeys([*[token for row in others for token in row], *ranks])
    if texts:
        yield path, "\n".join(texts)


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    yield from string_leaves(value, path)
    keys = [key for key in all_keys(value) if not is_named(key, in_reply=True)]
    if keys:
        yield path + KEYS, "\n".join(keys)


def _names(members: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    keys = [key for key in members if not is_named(key, in_reply=True)]
    if keys:
        yield KEYS, "\n".join(keys)


_OF_TOKENS: Final = re.compile(r"/(?:choices|output/\d+/content)/\d+/logprobs(?:[/#]|$)")


def is_of_tokens(path: str) -> bool:
    """Say whether a path leads into log-probabilities: a redaction there drops them, since nothing masks a token."""
    return _OF_TOKENS.match(path) is not None
