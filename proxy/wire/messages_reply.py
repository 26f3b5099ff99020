"""Whole replies of Anthropic Messages: their view, what a block makes of them, signed thinking. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from proxy.wire.adapter import Head, Notice
from proxy.wire.forms import formed, is_usage
from proxy.wire.messages_block import IDS, add_content
from proxy.wire.segments import SegmentList, as_list, as_object, escape
from supervisors.types import Segment

_SCALARS: Final = frozenset({"id", "type", "role", "model", "stop_reason", "request_id"})
_KEPT: Final = ("id", "type", "role", "model", "usage")


def reply_segments(reply: Mapping[str, Any], turn: int, body: Mapping[str, Any]) -> dict[int, tuple[Segment, ...]]:
    """Return the segments of a message, as choice 0.

    Raises:
        ValueError: the reply has no list of content blocks.
    """
    blocks = as_list(reply.get("content"))
    if blocks is None:
        msg = "the reply has no list of content blocks"
        raise ValueError(msg)
    segments = SegmentList("assistant", turn, 0)
    add_content(segments, blocks, "/content")
    add_message_members(segments, reply, "")
    return {0: tuple(segments.found)}


def add_message_members(segments: SegmentList, message: Mapping[str, Any], path: str) -> None:
    """Add what else in a message is text, `content` excepted: why the model stopped, and whatever is unknown."""
    for key, child in message.items():
        if key == "usage":
            if not is_usage(child):
                segments.add(f"{path}/usage", "other", child)
        elif key in _SCALARS:
            segments.add_formed(path, key, child)
        elif key != "content":
            add_member(segments, key, child, path)


def add_member(segments: SegmentList, key: str, value: object, path: str) -> None:
    """Add one member of a message or of its last delta, which stands at `path`."""
    inner = as_object(value)
    if inner is None:
        segments.add_member(path, key, "other", value)
        return
    at = f"{path}/{escape(key)}"
    segments.add_keys(path, [key])
    for name, child in inner.items():
        if name in IDS:
            segments.add_formed(at, name, child)
        elif not (key == "stop_details" and name == "type" and child == "refusal"):
            segments.add_member(at, name, "refusal" if key == "stop_details" else "other", child)


def finish_reasons(reply: Mapping[str, Any]) -> dict[int, str | None]:
    """Return the stop reason."""
    return {0: reply.get("stop_reason")}


def blocked_members(notice: Notice) -> dict[str, Any]:
    """Return what a blocked message says and why it stopped (wire §5.1)."""
    return {"content": [{"type": "text", "text": notice.text}], **refusal_members()}


def refusal_members() -> dict[str, Any]:
    """Return the members that say a message was stopped by a policy."""
    details = {"type": "refusal", "category": None, "explanation": None}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def block_choices(reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
    """Replace the message by the notice, in place; of the upstream's stay id, model and usage."""
    if not blocked:
        return
    kept: dict[str, Any] = formed({key: reply[key] for key in _KEPT if key in reply})
    reply.clear()
    reply.update(kept, **blocked_members(notice))


def refusal_reply(head: Head, count: int, notice: Notice) -> dict[str, Any]:
    """Return a whole message made by the proxy: the notice, no tokens used."""
    return {**message_head(head), **blocked_members(notice), "usage": {"input_tokens": 0, "output_tokens": 0}}


def message_head(head: Head) -> dict[str, Any]:
    """Return the members every message begins with."""
    return {
        "id": head.members.get("id", "msg_0"),
        "type": "message",
        "role": "assistant",
        "model": head.members.get("model", ""),
    }
