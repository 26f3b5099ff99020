"""`/v1/responses`: between wire bodies and canonical segments. Pure.

Everything that can reach the model or the caller as text is in a segment, unless it is on the structural
allow-list of guarding §1 (G-01). `tests/proxy/wire/test_responses.py` proves it with generated bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from proxy.wire import responses_reply
from proxy.wire.adapter import Adapter, Frames, Head, Notice
from proxy.wire.definitions import add_definition, add_definitions
from proxy.wire.errors import RequestError, invalid, openai_reply
from proxy.wire.forms import fits
from proxy.wire.responses_items import ROLES, add_item, add_part, type_of
from proxy.wire.responses_stream import ResponsesFrames
from proxy.wire.segments import SegmentList, as_list, as_object, escape, is_word
from supervisors.types import Segment

ROUTE: Final = "/v1/responses"

_STRUCTURAL: Final = frozenset(
    {
        "model",
        "input",
        "instructions",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "stream_options",
        "previous_response_id",
        "moderation",
    }
)
_WORDS: Final = frozenset({"auto", "disabled", "none", "required", "current_turn", "all_turns", "concise", "detailed"})
_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max", "standard", "pro"})
_INCLUDABLE: Final = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "message.output_text.logprobs",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a request: instructions, input items, then everything else that is text.

    Raises:
        RequestError: 400 with the JSON path when a field is refused, or has the wrong type.
    """
    _refuse_background(body)
    segments = SegmentList("system")
    segments.add("/instructions", "text", body.get("instructions"))
    segments.speak("user", 0)
    _add_input(segments, body.get("input"))
    segments.speak("user", -1)
    for key, value in body.items():
        if key not in _STRUCTURAL:
            _add_field(segments, key, value)
    for key in ("service_tier", "previous_response_id"):
        segments.add_formed("", key, body.get(key))
    return tuple(segments.found)


def _refuse_background(body: Mapping[str, Any]) -> None:
    background = body.get("background")
    if background is None or background is False:
        return
    if background is not True:
        raise invalid("'background' must be false here.", "background")
    message = "'background' may not be true: the answer would be fetched on a route that is not judged."
    raise RequestError(400, "unsupported_parameter", message, param="background")


def _add_input(segments: SegmentList, value: object) -> None:
    if value is None:  # a stored prompt or an earlier response may stand for it
        return
    items = as_list(value)
    if items is None:
        if not isinstance(value, str):
            raise invalid("'input' must be a string or a list of items.", "input")
        segments.add("/input", "text", value)
        return
    for turn, child in enumerate(items):
        item = as_object(child)
        if item is None:
            raise invalid("An item must be an object.", f"input[{turn}]")
        _check_message(item, turn)
        segments.turn = turn
        add_item(segments, item, f"/input/{turn}")


def _check_message(item: Mapping[str, Any], turn: int) -> None:
    if type_of(item) != "message":
        return
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise invalid(f"'role' must be one of {', '.join(ROLES)}.", f"input[{turn}].role")
    content = item.get("content")
    if content is not None and not isinstance(content, str | list):
        raise invalid("'content' must be a string or a list of parts.", f"input[{turn}].content")


def _add_field(segments: SegmentList, key: str, value: object) -> None:
    adder = _FIELDS.get(key)
    if adder is None:
        segments.add_member("", key, "other", value)
    elif value is not None:
        adder(segments, value, f"/{key}")


def _add_unless(segments: SegmentList, path: str, value: object, words: frozenset[str]) -> None:
    if not is_word(value, words):
        segments.add(path, "other", value)


def _add_text_settings(segments: SegmentList, value: object, path: str) -> None:
    settings = as_object(value)
    if settings is None:
        segments.add(path, "other", value)
        return
    for name, child in settings.items():
        if name == "format":
            add_definition(segments, child, f"{path}/format")
        elif name == "verbosity":
            _add_unless(segments, f"{path}/verbosity", child, _EFFORTS)
        else:
            segments.add_member(path, name, "other", child)


def _add_tool_choice(segments: SegmentList, value: object, path: str) -> None:
    choice = as_object(value)
    if choice is None:
        _add_unless(segments, path, value, _WORDS)
        return
    for key, child in choice.items():
        if key == "type":
            segments.add_formed(path, key, child)
        elif not (key == "mode" and is_word(child, _WORDS)):
            segments.add_member(path, key, "name", child)


def _add_conversation(segments: SegmentList, value: object, path: str) -> None:
    """Add what is more than the id of a conversation."""
    conversation = as_object(value)
    if conversation is None:
        if not (isinstance(value, str) and fits("id", value)):
            segments.add(path, "other", value)
        return
    for key, child in conversation.items():
        if key == "id":
            segments.add_formed(path, key, child)
        else:
            segments.add_member(path, key, "other", child)


def _add_prompt(segments: SegmentList, value: object, path: str) -> None:
    """Add the variables of a stored prompt: text and parts that are put into it."""
    prompt = as_object(value)
    if prompt is None:
        segments.add(path, "other", value)
        return
    for key, child in prompt.items():
        variables = as_object(child) if key == "variables" else None
        if variables is not None:
            segments.add_keys(f"{path}/variables", variables)
            for name, filled in variables.items():
                _add_variable(segments, filled, f"{path}/variables/{escape(name)}")
        elif not (key in ("id", "version") and fits("id", child)):
            segments.add_member(path, key, "other", child)


def _add_variable(segments: SegmentList, value: object, path: str) -> None:
    part = as_object(value)
    if part is None:
        segments.add(path, "text", value)
    else:
        add_part(segments, part, path)


def _add_tools(segments: SegmentList, value: object, path: str) -> None:
    add_definitions(segments, value, path)


def _add_include(segments: SegmentList, value: object, path: str) -> None:
    words = as_list(value)
    if words is None:
        segments.add(path, "other", value)
        return
    for index, word in enumerate(words):
        _add_unless(segments, f"{path}/{index}", word, _INCLUDABLE)


def _add_reasoning(segments: SegmentList, value: object, path: str) -> None:
    settings = as_object(value)
    if settings is None:
        segments.add(path, "other", value)
        return
    for name, child in settings.items():
        if not is_word(child, _WORDS | _EFFORTS):
            segments.add_member(path, name, "other", child)


def _add_truncation(segments: SegmentList, value: object, path: str) -> None:
    _add_unless(segments, path, value, _WORDS)


_FIELDS: Final[Mapping[str, Callable[[SegmentList, object, str], None]]] = {
    "tools": _add_tools,
    "text": _add_text_settings,
    "tool_choice": _add_tool_choice,
    "prompt": _add_prompt,
    "conversation": _add_conversation,
    "include": _add_include,
    "reasoning": _add_reasoning,
    "truncation": _add_truncation,
}


def unseen_history(body: Mapping[str, Any]) -> bool:
    """Say whether the model will see older content that lives at the provider only (W-20)."""
    if body.get("previous_response_id") or body.get("conversation") or body.get("prompt"):
        return True
    items = [item for value in as_list(body.get("input")) or [] if (item := as_object(value)) is not None]
    return any(type_of(item) == "item_reference" for item in items)


def wants_json(body: Mapping[str, Any]) -> bool:
    """Say whether the caller will parse the text as JSON, so that a notice must not stand in it (W-22)."""
    settings = as_object(body.get("text")) or {}
    return (as_object(settings.get("format")) or {}).get("type") in ("json_object", "json_schema")


class ResponsesAdapter:
    """The Responses family for the pipeline; a response is one choice, number 0."""

    route = ROUTE
    upstream_path = "/responses"
    param = "input"
    terminator = b""
    judges_numbers = False
    request_segments = staticmethod(request_segments)
    unseen_history = staticmethod(unseen_history)
    reply_segments = staticmethod(responses_reply.reply_segments)
    finish_reasons = staticmethod(responses_reply.finish_reasons)
    block_choices = staticmethod(responses_reply.block_choices)
    mask_logprobs = staticmethod(responses_reply.mask_logprobs)
    refusal_reply = staticmethod(responses_reply.refusal_reply)
    error_reply = staticmethod(openai_reply)

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return 1: there is no `n` here."""
        return 1

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice in the form this request can take."""
        return Notice(text, only_refusal=wants_json(body), members=responses_reply.repeat_request(body))

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return a head for a reply that the upstream did not begin."""
        return Head({"id": f"resp_{record_id}", "object": "response", "created_at": created, "model": model})

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> Frames:
        """Return the frames of one streamed reply."""
        return ResponsesFrames(head, body)


RESPONSES: Final[Adapter] = ResponsesAdapter()
