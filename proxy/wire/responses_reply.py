"""Whole replies of the Responses API: their segments, and what a blocked or redacted one becomes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from proxy.wire.adapter import Head, Notice
from proxy.wire.forms import FORMS, formed, is_usage
from proxy.wire.logprobs import keep_outside
from proxy.wire.names import OF_REPLIES
from proxy.wire.responses_items import add_item
from proxy.wire.segments import SegmentList, all_keys, as_list, as_object, escape, string_leaves
from supervisors.types import Role, Segment, Span

STRUCTURE: Final = frozenset(
    {
        "id",
        "object",
        "created_at",
        "completed_at",
        "model",
        "output",
        "usage",
        "status",
        "service_tier",
        "previous_response_id",
    }
)
"""Members of a response object that are no text (the reply half of the allow-list of guarding §1)."""
_PLAIN_WORDS: Final = frozenset(
    {
        *("auto", "none", "required", "disabled", "enabled", "concise", "detailed", "current_turn", "all_turns"),
        *("text", "low", "medium", "high", "minimal", "xhigh", "max", "standard", "pro", "in_memory", "24h"),
        *("max_output_tokens", "max_messages", "content_filter", "steered", "developer", "openai"),
    }
)
_REPEATED: Final = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
_NEUTRAL: Final[Mapping[str, Any]] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
_NO_USAGE: Final[Mapping[str, Any]] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def reply_segments(reply: Mapping[str, Any], turn: int, body: Mapping[str, Any]) -> dict[int, tuple[Segment, ...]]:
    """Return the segments of a whole reply; it is one choice, number 0.

    Args:
        reply: the upstream's reply.
        turn: turn number of the reply.
        body: the request: what the reply repeats from it, unchanged, is no text of the model.

    Raises:
        ValueError: the reply has no list of output items.
    """
    if as_list(reply.get("output")) is None:
        msg = "the reply has no list of output items"
        raise ValueError(msg)
    return {0: response_segments(reply, turn, body)}


def response_segments(response: Mapping[str, Any], turn: int, body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a response object, finished or not."""
    segments = SegmentList("assistant", turn, 0)
    _add_output(segments, response.get("output"))
    for key, value in response.items():
        if key in FORMS:
            segments.add_formed("", key, value)
        elif key == "usage":
            if not is_usage(value):
                segments.add("/usage", "other", value)
        elif key != "output" and (value is not None or key not in OF_REPLIES):
            _add_member(segments, key, value, body.get(key))
    return tuple(segments.found)


def _add_output(segments: SegmentList, value: object) -> None:
    items = as_list(value)
    if items is None:
        segments.add("/output", "other", value)
    for index, child in enumerate(items or []):
        item = as_object(child)
        if item is None:
            segments.add(f"/output/{index}", "other", child)
        else:
            add_item(segments, item, f"/output/{index}")


def _add_member(segments: SegmentList, key: str, value: object, asked: object) -> None:
    """Add the leaves of a member beside the output, unless the caller sent them or they are documented words."""
    known = {text for _, text in string_leaves(asked, "")}
    role: Role = "system" if key == "instructions" else "assistant"
    segments.speak(role, segments.turn)
    for path, text in string_leaves(value, f"/{escape(key)}"):
        if text not in known and text not in _PLAIN_WORDS:
            segments.add(path, "other", text)
    asked_keys = set(all_keys(asked))
    segments.add_keys(f"/{escape(key)}", [name for name in (key, *all_keys(value)) if name not in asked_keys])


def finish_of(response: Mapping[str, Any]) -> str:
    """Return why a response ended: its status, or the reason of an incomplete one."""
    status = response.get("status")
    if status == "incomplete":
        reason = (as_object(response.get("incomplete_details")) or {}).get("reason")
        return reason if isinstance(reason, str) else "incomplete"
    return status if isinstance(status, str) else "completed"


def finish_reasons(reply: Mapping[str, Any]) -> dict[int, str | None]:
    """Return the finish reason of the one choice."""
    return {0: finish_of(reply)}


def repeat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request that a response repeats, with those every response must have."""
    return {**_NEUTRAL, **{key: body[key] for key in _REPEATED if body.get(key) is not None}}


def message_id(response_id: object) -> str:
    """Return the id of a message that the proxy writes into a response."""
    return f"msg_{str(response_id or 0).removeprefix('resp_')}"


def notice_parts(notice: Notice) -> list[dict[str, Any]]:
    """Return the content of a message that holds only the notice (wire §5.1, W-22)."""
    refusal = {"type": "refusal", "refusal": notice.text}
    if notice.only_refusal:
        return [refusal]
    return [{"type": "output_text", "text": notice.text, "annotations": []}, refusal]


def notice_message(response_id: object, content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a message of the proxy's own."""
    return {
        "id": message_id(response_id),
        "type": "message",
        "role": "assistant",
        "status": "incomplete",
        "content": content,
    }


def without_texts(response: Mapping[str, Any], repeated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response object with nothing in it that the model or the upstream may have worded.

    Args:
        response: as the upstream sent it.
        repeated: members of the request, which take the place of the upstream's copy of them.
    """
    kept = {
        key: value
        for key, value in formed(response).items()
        if key in STRUCTURE or key in repeated or (key in OF_REPLIES and not isinstance(value, str | list | dict))
    }
    return {**kept, **repeated}


def incomplete(response: Mapping[str, Any], output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response object as a content filter ends it."""
    ended = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "error": None}
    return {**response, **ended, "output": output}


def block_choices(reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
    """Replace the output by the notice, in place; nothing of the model's items stays."""
    if not blocked:
        return
    kept = without_texts(reply, notice.members)
    shown = incomplete(kept, [notice_message(kept.get("id"), notice_parts(notice))])
    reply.clear()
    reply.update(shown)


def refusal_reply(head: Head, count: int, notice: Notice) -> dict[str, Any]:
    """Return a whole reply made by the proxy: the notice, no tokens used."""
    message = notice_message(head.members.get("id"), notice_parts(notice))
    return {**incomplete({**head.members, **notice.members}, [message]), "usage": dict(_NO_USAGE)}


def mask_logprobs(reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
    """Drop the entries of every token that overlaps a redacted span of its part; they spell the secret (W-09)."""
    for path, part in _parts_of(reply):
        found = [(span.start, span.end) for span in spans if span.path == f"{path}/text"]
        if any(span.path.startswith(f"{path}/logprobs") for span in spans):
            part["logprobs"] = []
        elif found and part.get("logprobs") is not None:
            part["logprobs"] = keep_outside(as_list(part["logprobs"]) or [], found)


def _parts_of(reply: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, item in enumerate(as_list(reply.get("output")) or []):
        for index, value in enumerate(as_list((as_object(item) or {}).get("content")) or []):
            part = as_object(value)
            if part is not None:
                yield f"/output/{number}/content/{index}", part
