"""Log-probabilities beside a text: what must go when a part of the text is redacted (W-09). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from proxy.wire.segments import as_object


def keep_outside(tokens: Iterable[Any], spans: Sequence[tuple[int, int]]) -> list[Any]:
    """Return the entries of the tokens that overlap none of the spans.

    Args:
        tokens: entries with a `token` each; joined, the tokens are the text.
        spans: start and end in characters of the text.
    """
    kept: list[Any] = []
    offset = 0
    for token in tokens:
        length = len(str((as_object(token) or {}).get("token", "")))
        if not any(start < offset + length and offset < end for start, end in spans):
            kept.append(token)
        offset += length
    return kept
