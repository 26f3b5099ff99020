"""Log-probabilities beside a text: what must go when a part of the text is redacted (W-09). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from proxy.wire.segments import as_list, as_object


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


def spell_tokens(logprobs: object) -> str:
    """Return the text that the tokens of log-probabilities spell."""
    entries = [as_object(entry) or {} for entry in as_list(logprobs) or []]
    return "".join([str(entry.get("token", "")) for entry in entries])
