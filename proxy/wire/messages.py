"""`/v1/messages`: between Anthropic's wire bodies and canonical segments. Pure.

Everything that can reach the model or the caller as text is in a segment, unless it is on the structural
allow-list of guarding §1 (G-01). `tests/proxy/wire/test_messages.py` proves it with generated bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from proxy.wire import messages_error, messages_reply, messages_stream
from proxy.wire.adapter import Adapter, Frames, Head, Notice
from proxy.wire.definitions import add_definition, add_definitions
from proxy.wire.errors import invalid
from proxy.wire.forms import fits
from proxy.wire.messages_block import add_content, is_cache_control
from proxy.wire.segments import SegmentList, as_list, as_object, escape, is_word
from supervisors.types import Role, Segment, Span

ROUTE: Final = "/v1/messages"
ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}

_STRUCTURAL: Final = frozenset({"model", "messages", "system", "metadata", "stop_sequences", "service_tier"})
_WORDS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "thinking": {
        "type": frozenset({"enabled", "disabled", "adaptive"}),
        "display": frozenset({"summarized", "omitted"}),
    },
    "output_config": {"effort": frozenset({"low", "medium", "high", "xhigh", "max"})},
    "tool_choice": {"type": frozenset({"auto", "any", "tool", "none"})},
}


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a request: the system text, the messages, then everything else that is text.

    Raises:
        RequestError: 400 with the JSON path when a field the proxy reads has the wrong type, and for MCP servers:
            the provider would call a server of the caller's choice, whose answers nobody here judges (wire §2.3).
    """
    segments = SegmentList("system", -1)
    messages = as_list(body.get("messages"))
    if not messages:
        raise invalid("'messages' must be a non-empty list of messages.", "messages")
    _add_system(segments, body.get("system"))
    for turn, message in enumerate(messages):
        _add_message(segments, message, turn)
    segments.speak("user", -1)
    for key, value in body.items():
        if key not in _STRUCTURAL:
            _add_field(segments, key, value)
    segments.add_formed("", "service_tier", body.get("service_tier"))
    return tuple(segments.found)


def _add_system(segments: SegmentList, system: object) -> None:
    if not (system is None or isinstance(system, str) or as_list(system) is not None):
        raise invalid("'system' must be a string or a list of text blocks.", "system")
    add_content(segments, system, "/system")


def _add_message(segments: SegmentList, value: object, turn: int) -> None:
    message = as_object(value)
    if message is None:
        raise invalid("A message must be an object with a role and content.", f"messages[{turn}]")
    word = message.get("role")
    role = ROLES.get(word) if isinstance(word, str) else None
    if role is None:
        raise invalid(f"'role' must be one of {', '.join(ROLES)}.", f"messages[{turn}].role")
    content = message.get("content")
    if not isinstance(content, str) and as_list(content) is None:
        raise invalid("'content' must be a string or a list of blocks.", f"messages[{turn}].content")
    segments.speak(role, turn)
    path = f"/messages/{turn}"
    for key, child in message.items():
        if key == "content":
            add_content(segments, child, f"{path}/content")
        elif key in ("role", "id"):
            segments.add_formed(path, key, child)
        else:
            segments.add_member(path, key, "other", child)


def _add_field(segments: SegmentList, key: str, value: object) -> None:
    path = f"/{escape(key)}"
    match key:
        case "tools":
            add_definitions(segments, value, path)
        case "output_format":
            add_definition(segments, value, path)
        case "container" if isinstance(value, str) and fits("id", value):
            pass
        case "thinking" | "output_config" | "tool_choice":
            _add_options(segments, value, path, _WORDS[key])
        case _ if not is_cache_control(key, value):
            segments.add_member("", key, "other", value)
        case _:
            pass


def _add_options(segments: SegmentList, value: object, path: str, words: Mapping[str, frozenset[str]]) -> None:
    options = as_object(value)
    if options is None:
        segments.add(path, "other", value)
        return
    for key, child in options.items():
        at = f"{path}/{escape(key)}"
        if is_word(child, words.get(key, ())):
            continue
        if key == "format":
            add_definition(segments, child, at)
        else:
            segments.add_member(path, key, "name" if key == "name" else "other", child)


def wants_json(body: Mapping[str, Any]) -> bool:
    """Say whether the caller will parse the text as JSON, so that a redaction has to leave it valid (G-37)."""
    options = as_object(body.get("output_config")) or {}
    return as_object(options.get("format")) is not None or as_object(body.get("output_format")) is not None


class MessagesAdapter:
    """The Anthropic Messages family for the pipeline."""

    route = ROUTE
    upstream_path = "/messages"
    param = "messages"
    terminator = messages_stream.MESSAGE_STOP
    judges_numbers = True
    request_segments = staticmethod(request_segments)
    reply_segments = staticmethod(messages_reply.reply_segments)
    finish_reasons = staticmethod(messages_reply.finish_reasons)
    block_choices = staticmethod(messages_reply.block_choices)
    refusal_reply = staticmethod(messages_reply.refusal_reply)
    error_reply = staticmethod(messages_error.anthropic_reply)

    def unseen_history(self, body: Mapping[str, Any]) -> bool:
        """Return false: a request holds the whole conversation."""
        return False

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return 1: a message is the only choice."""
        return 1

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice; it stands in a text block even where that should be JSON: nothing else can hold it."""
        return Notice(text, only_refusal=wants_json(body))

    def mask_logprobs(self, reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
        """Do nothing: this API has no log-probabilities."""

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return a head for a message that the upstream did not begin."""
        return Head({"id": f"msg_{record_id}", "model": model})

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> Frames:
        """Return the events of one streamed reply."""
        return messages_stream.MessageFrames(head)


MESSAGES: Final[Adapter] = MessagesAdapter()
