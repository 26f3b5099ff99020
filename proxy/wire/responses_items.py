"""Items of the Responses API, of a request's input or of a reply's output, as canonical segments. Pure.

A table says for each item type what its fields are; a field that is not in it is judged leaf by leaf as ``other``,
and so is everything in an item of an unknown type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

from proxy.wire.chat_message import add_audio
from proxy.wire.definitions import add_definitions
from proxy.wire.forms import fits
from proxy.wire.logprobs import entry_texts
from proxy.wire.nested import kind_in
from proxy.wire.segments import SegmentList, as_list, as_object, decode_base64, escape, is_word
from supervisors.types import Kind, Role

How = Kind | Literal["parts", "results", "part", "arguments", "image", "link", "audio", "sound"]
"""What a field is: text of a kind; content parts; JSON text; base64 of an image; a link; audio; base64 of audio."""

ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "critic": "assistant",
    "discriminator": "assistant",
    "tool": "tool",
}
IDS: Final = frozenset(
    {
        "id",
        "call_id",
        "item_id",
        "file_id",
        "container_id",
        "caller_id",
        "approval_request_id",
        "response_id",
        "created_by",
    }
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "status": frozenset(
        {"in_progress", "completed", "incomplete", "searching", "interpreting", "calling", "generating", "failed"}
    ),
    "phase": frozenset({"commentary", "final_answer"}),
    "execution": frozenset({"server", "client"}),
    "detail": frozenset({"auto", "low", "high", "original"}),
    "format": frozenset({"mp3", "wav"}),
    "output_format": frozenset({"png", "webp", "jpeg", "gif", "svg"}),
    "quality": frozenset({"low", "medium", "high", "xhigh", "max", "auto"}),
    "background": frozenset({"transparent", "opaque", "auto"}),
    "action": frozenset({"generate", "edit", "auto"}),
}
_ITEMS: Final[Mapping[str, Mapping[str, How]]] = {
    "message": {"content": "parts"},
    "reasoning": {"summary": "parts", "content": "parts", "encrypted_content": "opaque"},
    "compaction": {"encrypted_content": "opaque"},
    "function_call": {"name": "name", "namespace": "name", "arguments": "arguments"},
    "function_call_output": {"name": "name", "namespace": "name", "output": "results"},
    "custom_tool_call": {"name": "name", "namespace": "name", "input": "arguments"},
    "custom_tool_call_output": {"output": "results"},
    "computer_call": {"action": "tool_args", "actions": "tool_args"},
    "computer_call_output": {"output": "part"},
    "file_search_call": {"queries": "tool_args", "results": "tool_result"},
    "web_search_call": {"action": "tool_args"},
    "code_interpreter_call": {"code": "tool_args", "outputs": "tool_result"},
    "image_generation_call": {"result": "image", "revised_prompt": "tool_args"},
    "local_shell_call": {"action": "tool_args"},
    "local_shell_call_output": {"output": "tool_result"},
    "shell_call": {"action": "tool_args", "environment": "tool_args"},
    "shell_call_output": {"output": "tool_result"},
    "apply_patch_call": {"operation": "tool_args"},
    "apply_patch_call_output": {"output": "tool_result"},
    "mcp_call": {
        "name": "name",
        "server_label": "name",
        "arguments": "arguments",
        "output": "tool_result",
        "error": "tool_result",
    },
    "mcp_list_tools": {"server_label": "name", "tools": "tool_def", "error": "tool_result"},
    "mcp_approval_request": {"name": "name", "server_label": "name", "arguments": "arguments"},
    "mcp_approval_response": {"reason": "text"},
    "additional_tools": {"tools": "tool_def"},
    "tool_search_call": {"arguments": "arguments"},
    "tool_search_output": {"tools": "tool_def"},
    "program": {"code": "tool_args", "fingerprint": "opaque"},
    "program_output": {"result": "tool_result"},
    "item_reference": {},
    "compaction_trigger": {},
}
_RESULTS: Final = frozenset({name for name in _ITEMS if name.endswith("_output")})
_USER_ITEMS: Final = frozenset({"mcp_approval_response", "item_reference", "compaction_trigger"})
_OBJECT_KINDS: Final = frozenset({"tool_args", "tool_result", "annotation"})
CALLER_CALLS: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_approval_request",
        "tool_search_call",
    }
)
"""Calls that the caller carries out: they stay until the final verdict (G-20); the provider has run the others."""


def type_of(item: Mapping[str, Any]) -> str | None:
    """Return the type of an item; a message and a reference may leave it out. None when it is not known."""
    kind = item.get("type")
    if kind is None:
        if "role" in item:
            return "message"
        return "item_reference" if item.keys() <= {"id", "type"} else None
    return kind if isinstance(kind, str) and kind in _ITEMS else None


def add_item(segments: SegmentList, item: Mapping[str, Any], path: str) -> None:
    """Add everything in an item that is text; the role follows from the item, the turn is the list's."""
    kind = type_of(item)
    if kind is None:
        segments.speak("user" if segments.choice is None else "assistant", segments.turn)
        segments.add_leaves(path, "other", item)
        return
    segments.speak(_role_of(kind, item), segments.turn)
    fields = _ITEMS[kind]
    for key, value in item.items():
        if key == "type" or _is_word(key, value):
            continue
        if key in IDS or (kind == "message" and key == "role"):
            segments.add_formed(path, key, value)
        elif key == "caller":
            _add_object(segments, value, f"{path}/caller", "other")
        elif key in fields:
            _add_field(segments, value, f"{path}/{escape(key)}", fields[key])
        else:
            segments.add_member(path, key, "other", value)


def _role_of(kind: str, item: Mapping[str, Any]) -> Role:
    if kind == "message":
        role = item.get("role")
        return ROLES.get(role, "assistant") if isinstance(role, str) else "assistant"
    if kind in _RESULTS:
        return "tool"
    return "user" if kind in _USER_ITEMS else "assistant"


def _is_word(key: str, value: object) -> bool:
    words = _WORDS.get(key)
    return words is not None and is_word(value, words)


def _add_field(segments: SegmentList, value: object, path: str, how: How) -> None:
    adder = _ADDERS.get(how)
    if adder is not None:
        adder(segments, value, path)
    elif how in _OBJECT_KINDS:
        _add_objects(segments, value, path, cast("Kind", how))
    else:
        segments.add(path, cast("Kind", how), value)  # what has no adder is a kind


def _add_parts(segments: SegmentList, value: object, path: str, kind: Kind) -> None:
    parts = as_list(value)
    if parts is None:
        segments.add(path, kind, value)
        return
    for index, child in enumerate(parts):
        part = as_object(child)
        if part is None:
            segments.add(f"{path}/{index}", kind, child)
        else:
            add_part(segments, part, f"{path}/{index}", kind)


def add_part(segments: SegmentList, part: Mapping[str, Any], path: str, kind: Kind = "text") -> None:
    """Add one content part.

    Args:
        segments: where it goes.
        part: the part.
        path: JSON Pointer of the part.
        kind: what plain text in it is: ``text``, or ``tool_result`` in the output of a tool.
    """
    text: Kind = "reasoning" if is_word(part.get("type"), _THOUGHTS) else kind
    for key, value in part.items():
        if (key == "type" and is_word(value, _PART_TYPES)) or (key == "file_id" and fits(key, value)):
            continue
        if _is_word(key, value):
            continue
        if key == "logprobs" and segments.choice is not None:
            for at, spelled in entry_texts(value, part.get("text")):
                segments.add(f"{path}/logprobs{at}", "other", spelled)
            continue
        how = text if key == "text" else _PART_FIELDS.get(key)
        if how is None:
            segments.add_member(path, key, kind_in(key, text) or "other", value)
        else:
            _add_field(segments, value, f"{path}/{key}", how)


_PART_TYPES: Final = frozenset(
    {
        "text",
        "input_text",
        "output_text",
        "refusal",
        "input_image",
        "input_file",
        "input_audio",
        "output_audio",
        "summary_text",
        "reasoning_text",
        "computer_screenshot",
        "encrypted_content",
    }
)
_THOUGHTS: Final = frozenset({"summary_text", "reasoning_text"})


_PART_FIELDS: Final[Mapping[str, How]] = {
    "refusal": "refusal",
    "transcript": "transcript",
    "annotations": "annotation",
    "image_url": "link",
    "file_url": "link",
    "file_data": "link",
    "filename": "name",
    "input_audio": "audio",
    "data": "sound",
    "encrypted_content": "opaque",
}


def add_annotation(segments: SegmentList, value: object, path: str) -> None:
    """Add the title, link or file name of a citation."""
    _add_object(segments, value, path, "annotation")


def _add_objects(segments: SegmentList, value: object, path: str, kind: Kind) -> None:
    """Add the leaves of an object or of a list of objects; their own types and ids are structure."""
    listed = as_list(value)
    if listed is None:
        _add_object(segments, value, path, kind)
        return
    for index, child in enumerate(listed):
        _add_object(segments, child, f"{path}/{index}", kind)


def _add_object(segments: SegmentList, value: object, path: str, kind: Kind) -> None:
    obj = as_object(value)
    if obj is None:
        segments.add(path, kind, value)
        return
    for key, child in obj.items():
        if key == "type" or key in IDS:
            segments.add_formed(path, key, child)
        else:
            segments.add_member(path, key, kind, child)


def _add_text_parts(segments: SegmentList, value: object, path: str) -> None:
    _add_parts(segments, value, path, "text")


def _add_results(segments: SegmentList, value: object, path: str) -> None:
    _add_parts(segments, value, path, "tool_result")


def _add_result_part(segments: SegmentList, value: object, path: str) -> None:
    part = as_object(value)
    if part is None:
        segments.add(path, "tool_result", value)
    else:
        add_part(segments, part, path, "tool_result")


def _add_arguments(segments: SegmentList, value: object, path: str) -> None:
    segments.add_arguments(path, value)


def _add_link(segments: SegmentList, value: object, path: str) -> None:
    segments.add_url(path, value)


def _add_image(segments: SegmentList, value: object, path: str) -> None:
    _add_base64(segments, value, path, "image/unknown")


def _add_sound(segments: SegmentList, value: object, path: str) -> None:
    _add_base64(segments, value, path, "audio/unknown")


def _add_base64(segments: SegmentList, value: object, path: str, mime: str) -> None:
    if not isinstance(value, str):
        segments.add(path, "other", value)
    elif value:
        segments.add_media(path, mime, decode_base64(value) or value.encode())


def _add_tools(segments: SegmentList, value: object, path: str) -> None:
    add_definitions(segments, value, path)


_ADDERS: Final[Mapping[str, Callable[[SegmentList, object, str], None]]] = {
    "parts": _add_text_parts,
    "results": _add_results,
    "part": _add_result_part,
    "arguments": _add_arguments,
    "image": _add_image,
    "link": _add_link,
    "audio": add_audio,
    "sound": _add_sound,
    "tool_def": _add_tools,
}
