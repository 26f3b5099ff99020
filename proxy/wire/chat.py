"""`/v1/chat/completions`: between wire bodies and canonical segments. Pure.

Everything that can reach the model or the caller as text is in a segment, unless it is on the structural
allow-list of guarding §1 (G-01). `tests/proxy/wire/test_chat.py` proves it with generated bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from proxy.wire import chat_reply, chat_stream
from proxy.wire.adapter import Adapter, Frames, Head, Notice
from proxy.wire.chat_message import add_audio, add_content, add_message
from proxy.wire.choices import read_n, segment_choices
from proxy.wire.definitions import add_definition, add_definitions
from proxy.wire.errors import invalid, openai_reply
from proxy.wire.logprobs import add_tokens
from proxy.wire.names import OF_REQUESTS
from proxy.wire.segments import SegmentList, as_list, as_object, escape, is_word
from proxy.wire.sse import DONE
from supervisors.types import Role, Segment

ROUTE: Final = "/v1/chat/completions"
ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "function",
}

_STRUCTURAL: Final = frozenset(
    {
        "model",
        "messages",
        "service_tier",
        "stream_options",
        "stop",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "metadata",
    }
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "reasoning_effort": frozenset({"none", "minimal", "low", "medium", "high", "xhigh"}),
    "verbosity": frozenset({"low", "medium", "high"}),
    "prompt_cache_retention": frozenset({"in-memory", "in_memory", "24h"}),
    "tool_choice": frozenset({"none", "auto", "required"}),
    "function_call": frozenset({"none", "auto"}),
}
_WORD_LISTS: Final[Mapping[str, frozenset[str]]] = {"modalities": frozenset({"text", "audio"})}
_NUMBERS: Final = (bool, int, float)
_MESSAGES: Final = frozenset({"message", "delta"})
"""Where clients find a message, and some servers put it whether they stream or not."""
_CHOICE_STRUCTURE: Final = frozenset({"index", "logprobs"})


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a request in wire order: messages first, then everything else that is text.

    Raises:
        RequestError: 400 with the JSON path when a field the proxy reads has the wrong type.
    """
    segments = SegmentList()
    messages = as_list(body.get("messages"))
    if not messages:
        raise invalid("'messages' must be a non-empty list of messages.", "messages")
    for turn, message in enumerate(messages):
        _add_request_message(segments, message, turn)
    segments.speak("user", -1)
    for key, value in body.items():
        if key in _STRUCTURAL:
            continue
        if value is None or isinstance(value, _NUMBERS):
            if key not in OF_REQUESTS:
                segments.add_keys("", (key,))
        else:
            _add_field(segments, key, value)
    if "service_tier" in body:
        segments.add_formed("", "service_tier", body["service_tier"])
    return tuple(segments.found)


def reply_segments(
    reply: Mapping[str, Any], turn: int, body: Mapping[str, Any] | None = None
) -> dict[int, tuple[Segment, ...]]:
    """Return the segments of each choice of a whole reply, by choice index.

    Args:
        reply: the upstream's reply.
        turn: turn number of the reply, last of the request + 1.
        body: the request; a chat reply repeats nothing of it.

    Raises:
        ValueError: the reply has no choices, or a choice has no distinct integer index.
    """
    return segment_choices(reply, turn, choice_segments)


def choice_segments(value: object, path: str, index: int, turn: int) -> tuple[Segment, ...]:
    """Return the segments of one choice: its message and whatever else in it is text."""
    segments = SegmentList("assistant", turn, index)
    choice = as_object(value)
    if choice is None:
        segments.add(path, "other", value)
        return tuple(segments.found)
    for key, child in choice.items():
        message = as_object(child) if key in _MESSAGES else None
        if message is not None:
            add_message(segments, message, f"{path}/{key}")
        elif key == "finish_reason":
            segments.add_formed(path, key, child)
        elif key not in _CHOICE_STRUCTURE:
            segments.add_member(path, key, "text" if key == "text" else "other", child)
    if choice.get("logprobs") is not None:
        add_tokens(segments, choice["logprobs"], f"{path}/logprobs", as_object(choice.get("message")) or {})
    return tuple(segments.found)


def _add_request_message(segments: SegmentList, value: object, turn: int) -> None:
    message = as_object(value)
    if message is None:
        raise invalid("A message must be an object with a role.", f"messages[{turn}]")
    role = ROLES.get(cast("str", message.get("role"))) if isinstance(message.get("role"), str) else None
    if role is None:
        raise invalid(f"'role' must be one of {', '.join(ROLES)}.", f"messages[{turn}].role")
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        raise invalid("'content' must be a string, a list of parts or null.", f"messages[{turn}].content")
    segments.speak(role, turn)
    if len(message) == 2 and isinstance(content, str):  # role and content, as nearly all have
        add_content(segments, content, f"/messages/{turn}/content")
    else:
        add_message(segments, message, f"/messages/{turn}")


def _add_field(segments: SegmentList, key: str, value: object) -> None:
    path = f"/{escape(key)}"
    if _is_documented_word(key, value):
        return
    match key:
        case "tool_choice" | "function_call" if isinstance(value, dict):
            _add_choice_of_tool(segments, cast("dict[str, Any]", value), path)
        case "tools" | "functions":
            add_definitions(segments, value, path)
        case "response_format":
            add_definition(segments, value, path)
        case "prediction":
            _add_prediction(segments, value, path)
        case "audio":
            add_audio(segments, value, path)
        case _:
            segments.add_member("", key, "other", value)


def _is_documented_word(key: str, value: object) -> bool:
    if isinstance(value, str):
        return value in _WORDS.get(key, ())
    words = _WORD_LISTS.get(key)
    listed = as_list(value)
    return words is not None and listed is not None and all(is_word(item, words) for item in listed)


def _add_choice_of_tool(segments: SegmentList, value: Mapping[str, Any], path: str) -> None:
    for key, child in value.items():
        if key == "type":
            segments.add_formed(path, key, child)
        elif not (key == "mode" and is_word(child, _WORDS["tool_choice"])):
            segments.add_member(path, key, "name", child)


def _add_prediction(segments: SegmentList, value: object, path: str) -> None:
    prediction = as_object(value)
    if prediction is None:
        segments.add(path, "prediction", value)
        return
    for key, child in prediction.items():
        if not (key == "type" and child == "content"):
            segments.add_member(path, key, "prediction", child)


def wants_json(body: Mapping[str, Any]) -> bool:
    """Say whether the caller will parse the content as JSON, so that a notice must not stand in it (W-22)."""
    response_format = as_object(body.get("response_format")) or {}
    return response_format.get("type") in ("json_object", "json_schema")


class ChatAdapter:
    """The chat family for the pipeline."""

    route = ROUTE
    upstream_path = "/chat/completions"
    param = "messages"
    terminator = DONE
    judges_numbers = False
    request_segments = staticmethod(request_segments)
    reply_segments = staticmethod(reply_segments)
    finish_reasons = staticmethod(chat_reply.finish_reasons)
    block_choices = staticmethod(chat_reply.block_choices)
    mask_logprobs = staticmethod(chat_reply.mask_logprobs)
    refusal_reply = staticmethod(chat_reply.refusal_reply)
    error_reply = staticmethod(openai_reply)
    choice_count = staticmethod(read_n)

    def unseen_history(self, body: Mapping[str, Any]) -> bool:
        """Return false: a chat request carries its whole history."""
        return False

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice in the form this request can take."""
        return Notice(text, only_refusal=wants_json(body))

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return a head for a reply that the upstream did not begin."""
        return Head({"id": f"chatcmpl-{record_id}", "created": created, "model": model})

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> Frames:
        """Return the frames of one streamed reply."""
        return chat_stream.ChatFrames(head)


CHAT: Final[Adapter] = ChatAdapter()
