"""Whole legacy completions: what a blocked choice becomes, and which log-probabilities go with a redaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from proxy.wire.adapter import Head, Notice
from proxy.wire.chat_reply import index_of, replace_choices
from proxy.wire.segments import as_list, as_object
from supervisors.types import Span


def block_choices(reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
    """Replace the text of the blocked choices by the notice, in place; nothing the model said stays."""
    replace_choices(reply, blocked, _blocked_choice(notice))


def _blocked_choice(notice: Notice) -> dict[str, Any]:
    return {"text": notice.text, "logprobs": None, "finish_reason": "content_filter"}


def refusal_reply(head: Head, count: int, notice: Notice) -> dict[str, Any]:
    """Return a whole reply made by the proxy: the notice in every choice, no tokens used."""
    return {
        **head.members,
        "object": "text_completion",
        "choices": [{"index": index, **_blocked_choice(notice)} for index in range(count)],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def mask_logprobs(reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
    """Drop every token that overlaps a redacted span from the parallel lists of the log-probabilities (W-09).

    Args:
        reply: the reply, its texts redacted already; edited in place.
        choice: index of the redacted choice.
        spans: places in the original texts of the choice.
    """
    for position, value in enumerate(as_list(reply.get("choices")) or []):
        redacted = as_object(value) or {}
        logprobs = as_object(redacted.get("logprobs"))
        own = [(span.start, span.end) for span in spans if span.path == f"/choices/{position}/text"]
        if any(span.path.startswith(f"/choices/{position}/logprobs") for span in spans):
            redacted["logprobs"] = None
        elif own and logprobs is not None and index_of(value, position) == choice:
            redacted["logprobs"] = _mask(logprobs, str(redacted.get("text", "")), own)


def _mask(logprobs: Mapping[str, Any], text: str, spans: Sequence[tuple[int, int]]) -> dict[str, Any] | None:
    """Return the lists without the tokens of the spans; None when the tokens do not spell the text.

    Tokens that are parts of a character are written as escapes, so their lengths are not those of the text.
    """
    tokens = [str(token) for token in as_list(logprobs.get("tokens")) or ()]
    spelt = "".join(tokens)
    before, after = min(start for start, _ in spans), max(end for _, end in spans)
    if not (text.startswith(spelt[:before]) and text.endswith(spelt[after:])):
        return None
    kept: list[bool] = []
    offset = 0
    for token in tokens:
        end = offset + len(token)
        kept.append(not any(start < end and offset < stop for start, stop in spans))
        offset = end
    rows = {key: as_list(value) for key, value in logprobs.items()}
    if any(row is not None and len(row) != len(tokens) for row in rows.values()):
        return None
    return {key: value if (row := rows[key]) is None else list(compress(row, kept)) for key, value in logprobs.items()}
