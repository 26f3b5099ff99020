"""Prompts and embedding inputs: texts, token arrays, and lists of either, as canonical segments. Pure.

Input that is no text becomes a ``media`` segment: a supervisor of text answers ``unknown/unsupported`` to it, and the
policy decides (G-05).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import orjson

from proxy.wire.errors import RequestError, invalid
from proxy.wire.segments import SegmentList, as_list
from supervisors.types import Media, Segment

TOKENS: Final = "application/x-tokens"
"""Media type of token arrays: text that nobody can read without the model's tokenizer."""


def add_inputs(segments: SegmentList, value: object, name: str) -> int:
    """Add a prompt or an embedding's input, each of its texts as a turn, and return how many there are.

    Args:
        segments: where they go.
        value: a string, a list of strings, a token array, a list of token arrays, or None.
        name: field of the body, for paths and errors.

    Raises:
        RequestError: 400 for anything else.
    """
    if value is None:
        return 0
    if isinstance(value, str):
        segments.add(f"/{name}", "text", value)
        return 1
    items = as_list(value)
    if items and are_tokens(items):
        add_unreadable(segments, f"/{name}", TOKENS, items)
        return 1
    for turn, item in enumerate(items or ()):
        segments.speak("user", turn)
        tokens = as_list(item)
        if isinstance(item, str):
            segments.add(f"/{name}/{turn}", "text", item)
        elif tokens and are_tokens(tokens):
            add_unreadable(segments, f"/{name}/{turn}", TOKENS, tokens)
        else:
            raise _wrong_input(name, f"{name}[{turn}]")
    if not items:
        raise _wrong_input(name, name)
    return len(items)


def are_tokens(values: Sequence[object]) -> bool:
    """Say whether a list is one token array."""
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def add_unreadable(segments: SegmentList, path: str, mime: str, value: object) -> None:
    """Add JSON that stands for something else than its text, such as tokens, tensors or pictures."""
    raw = orjson.dumps(value)
    media = Media(mime, len(raw), sha256(raw).hexdigest())
    segments.found.append(Segment(path, segments.role, "media", "", segments.turn, segments.choice, media))


def _wrong_input(name: str, param: str) -> RequestError:
    message = f"{name!r} must be a string, a list of strings, a list of token ids or a list of such lists."
    return invalid(message, param)
