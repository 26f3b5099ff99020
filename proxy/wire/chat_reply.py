"""Whole chat replies: what a blocked choice becomes, and which log-probabilities must go with a redaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.wire.adapter import Head, Notice
from proxy.wire.logprobs import keep_outside
from proxy.wire.segments import as_list, as_object
from supervisors.types import Span


def choices_of(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the choice objects of a reply, in wire order."""
    return [choice for value in as_list(reply.get("choices")) or [] if (choice := as_object(value)) is not None]


def finish_reasons(reply: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return one finish reason a choice, in index order."""
    choices = sorted(choices_of(reply), key=lambda choice: choice.get("index", 0))
    return tuple([choice.get("finish_reason") for choice in choices])


def blocked_message(notice: Notice) -> dict[str, Any]:
    """Return the message of a blocked choice (wire §5.1, W-22)."""
    content = None if notice.only_refusal else notice.text
    return {"role": "assistant", "content": content, "refusal": notice.text}


def block_choices(reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
    """Replace the blocked choices by the notice, in place; nothing of the model's message stays."""
    for position, choice in enumerate(choices_of(reply)):
        if choice.get("index", position) in blocked:
            kept = {key: choice[key] for key in ("index",) if key in choice}
            choice.clear()
            choice.update(kept, message=blocked_message(notice), logprobs=None, finish_reason="content_filter")


def refusal_reply(head: Head, count: int, notice: Notice) -> dict[str, Any]:
    """Return a whole reply made by the proxy: the notice in every choice, no tokens used."""
    choice = {"message": blocked_message(notice), "logprobs": None, "finish_reason": "content_filter"}
    return {
        **head.members,
        "object": "chat.completion",
        "choices": [{"index": index, **choice} for index in range(count)],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def mask_logprobs(reply: dict[str, Any], spans: Sequence[Span]) -> None:
    """Drop the entries of every token that overlaps a redacted span of the content; they spell the secret (W-09).

    Args:
        reply: the reply, edited in place.
        spans: as redacted, in the original texts.
    """
    for position, choice in enumerate(choices_of(reply)):
        found = [(span.start, span.end) for span in spans if span.path == f"/choices/{position}/message/content"]
        logprobs = as_object(choice.get("logprobs"))
        if found and logprobs is not None:
            logprobs["content"] = keep_outside(as_list(logprobs.get("content")) or [], found)
