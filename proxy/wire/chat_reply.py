"""Whole chat replies: what a blocked choice becomes, and which log-probabilities must go with a redaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from proxy.wire.adapter import Head, Notice
from proxy.wire.forms import formed
from proxy.wire.logprobs import keep_outside
from proxy.wire.segments import as_list, as_object, is_index
from supervisors.types import Span

STRUCTURE: Final = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation"}
)
"""Members of a reply that hold no text of the model."""


def index_of(choice: object, position: int) -> object:
    """Return the index a choice gives itself, its position when it gives none."""
    return (as_object(choice) or {}).get("index", position)


def finish_reasons(reply: Mapping[str, Any]) -> dict[int, str | None]:
    """Return the finish reason of each choice that has an index, in index order."""
    found: dict[int, str | None] = {}
    for position, choice in enumerate(as_list(reply.get("choices")) or []):
        index = index_of(choice, position)
        if is_index(index):
            found[index] = (as_object(choice) or {}).get("finish_reason")
    return found if len(found) < 2 else dict(sorted(found.items()))


def blocked_message(notice: Notice) -> dict[str, Any]:
    """Return the message of a blocked choice (wire §5.1, W-22)."""
    content = None if notice.only_refusal else notice.text
    return {"role": "assistant", "content": content, "refusal": notice.text}


def block_choices(reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
    """Replace the blocked choices by the notice, in place; nothing of the model's message stays."""
    made = {"message": blocked_message(notice), "logprobs": None, "finish_reason": "content_filter"}
    replace_choices(reply, blocked, made)


def replace_choices(reply: dict[str, Any], blocked: Sequence[int], made: Mapping[str, Any]) -> None:
    """Replace whole choices, in place.

    Text beside the choices is judged with the first of them, and goes with it.

    Args:
        reply: the reply.
        blocked: indexes of the choices to replace.
        made: what stands in their place, beside the index.
    """
    choices = as_list(reply.get("choices")) or []
    indexes = [index_of(choice, position) for position, choice in enumerate(choices)]
    for position, index in enumerate(indexes):
        if index in blocked:
            choices[position] = {"index": index, **made}
    if blocked and min([index for index in indexes if isinstance(index, int)], default=None) in blocked:
        for key in reply.keys() - formed(reply).keys() | (reply.keys() - STRUCTURE):
            del reply[key]


def refusal_reply(head: Head, count: int, notice: Notice) -> dict[str, Any]:
    """Return a whole reply made by the proxy: the notice in every choice, no tokens used."""
    choice = {"message": blocked_message(notice), "logprobs": None, "finish_reason": "content_filter"}
    return {
        **head.members,
        "object": "chat.completion",
        "choices": [{"index": index, **choice} for index in range(count)],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def mask_logprobs(reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
    """Drop the entries of every token that overlaps a redacted span; they spell the secret (W-09).

    Where tokens cannot be laid on the text, as with characters split over tokens, all entries go.

    Args:
        reply: the reply, edited in place.
        choice: index of the redacted choice.
        spans: places in the original texts of the choice.
    """
    for position, value in enumerate(as_list(reply.get("choices")) or []):
        own_choice = as_object(value) or {}
        if index_of(value, position) != choice:
            continue
        if any(span.path.startswith(f"/choices/{position}/logprobs") for span in spans):
            own_choice["logprobs"] = None
        logprobs = as_object(own_choice.get("logprobs"))
        if logprobs is None:
            continue
        for name in ("content", "refusal"):
            path = f"/choices/{position}/message/{name}"
            own = [(span.start, span.end) for span in spans if span.path == path]
            if any(span.path.startswith(f"{path}/") for span in spans):
                logprobs[name] = None
            elif own and logprobs.get(name) is not None:
                logprobs[name] = keep_outside(as_list(logprobs[name]) or [], own)
