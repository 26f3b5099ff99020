"""One chat message, of a request or of a reply choice, as canonical segments. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from proxy.wire.nested import kind_in
from proxy.wire.segments import DATA, SegmentList, as_list, as_object, is_recording, is_word

_AUDIO_FORMATS: Final = frozenset({"wav", "mp3", "flac", "opus", "pcm16", "aac"})
_MESSAGE_STRUCTURE: Final = frozenset({"role", "tool_call_id", "id", "type", "index", "object"})
_NULLS: Final = frozenset({"content", "refusal", "tool_calls", "function_call", "audio", "annotations", "name"})
_REASONING: Final = frozenset({"reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks"})
_CALL_STRUCTURE: Final = frozenset({"id", "type", "index"})


def add_message(segments: SegmentList, message: Mapping[str, Any], path: str) -> None:
    """Add everything in a message that is text: content, names, calls, reasoning, and whatever is unknown."""
    for key, value in message.items():
        if not value and key in _NULLS:
            continue
        if key in _MESSAGE_STRUCTURE:
            segments.add_formed(path, key, value)
            continue
        if key == "content":
            add_content(segments, value, f"{path}/content")
            continue
        add = _MESSAGE_FIELDS.get(key)
        if add is not None:
            add(segments, value, f"{path}/{key}")
        else:
            segments.add_member(path, key, "reasoning" if key in _REASONING else "other", value)


def add_content(segments: SegmentList, content: object, path: str) -> None:
    """Add the content of a message: a text, or a list of parts."""
    is_result = segments.role in ("tool", "function")
    parts = as_list(content)
    if parts is None:
        segments.add(path, "tool_result" if is_result else "text", content)
        return
    for index, value in enumerate(parts):
        part = as_object(value)
        if part is None:
            segments.add(f"{path}/{index}", "text", value)
        else:
            _add_part(segments, part, f"{path}/{index}")


def _add_part(segments: SegmentList, part: Mapping[str, Any], path: str) -> None:
    is_result = segments.role in ("tool", "function")
    for key, value in part.items():
        if key == "type" and is_word(value, _PART_TYPES):
            continue
        add, kind = _PART_FIELDS.get(key), kind_in(key, "text", part)
        if add is not None:
            add(segments, value, f"{path}/{key}")
        elif kind == "text" and is_result:
            segments.add(f"{path}/{key}", "tool_result", value)
        else:
            segments.add_member(path, key, kind or "other", value)


def _add_image(segments: SegmentList, value: object, path: str) -> None:
    image = as_object(value)
    if image is None:
        segments.add_url(path, value)
        return
    for key, child in image.items():
        if key == "url":
            segments.add_url(f"{path}/url", child)
        elif not (key == "detail" and child in ("auto", "low", "high")):
            segments.add_member(path, key, "other", child)


def add_audio(segments: SegmentList, value: object, path: str) -> None:
    """Add an audio part: its transcript as text, its bytes as media; a reply is judged by its transcript (W-12)."""
    audio = as_object(value)
    if audio is None:
        segments.add(path, "other", value)
        return
    told = segments.choice is not None and bool(audio.get("transcript"))  # a caller's own transcript proves nothing
    for key, child in audio.items():
        if key == "data" and isinstance(child, str):
            _add_recording(segments, child, f"{path}/data", None if told else _audio_mime(audio))
        elif key == "transcript":
            segments.add(f"{path}/transcript", "transcript", child)
        elif key in ("id", "expires_at"):
            segments.add_formed(path, key, child)
        elif not (key == "format" and is_word(child, _AUDIO_FORMATS)):
            segments.add_member(path, key, "other", child)


def _add_recording(segments: SegmentList, data: str, path: str, mime: str | None) -> None:
    """Add sound as media unless it is told in words, and as text what nobody can hear, because it reads."""
    if mime is not None:
        segments.add_media(path, mime, data.encode())
    if not is_recording(data):
        segments.add(path + DATA, "other", data)


def _audio_mime(audio: Mapping[str, Any]) -> str:
    form = audio.get("format")
    return f"audio/{form}" if is_word(form, _AUDIO_FORMATS) else "audio/unknown"


def _add_file(segments: SegmentList, value: object, path: str) -> None:
    file = as_object(value)
    if file is None:
        segments.add(path, "other", value)
        return
    for key, child in file.items():
        if key == "filename":
            segments.add(f"{path}/filename", "name", child)
        elif key == "file_data":
            segments.add_url(f"{path}/file_data", child)
        elif key == "file_id":
            segments.add_formed(path, key, child)
        else:
            segments.add_member(path, key, "other", child)


def _add_calls(segments: SegmentList, value: object, path: str) -> None:
    calls = as_list(value)
    if calls is None:
        _add_call(segments, value, path)
        return
    for index, call in enumerate(calls):
        _add_call(segments, call, f"{path}/{index}")


def _add_call(segments: SegmentList, value: object, path: str) -> None:
    call = as_object(value)
    if call is None:
        segments.add(path, "other", value)
        return
    for key, child in call.items():
        inner = as_object(child)
        if key in _CALL_STRUCTURE:
            segments.add_formed(path, key, child)
        elif key in ("function", "custom") and inner is not None:
            _add_called(segments, inner, f"{path}/{key}")
        else:
            segments.add_member(path, key, "other", child)


def _add_called(segments: SegmentList, value: object, path: str) -> None:
    called = as_object(value)
    if called is None:
        segments.add(path, "other", value)
        return
    for key, child in called.items():
        if key == "name":
            segments.add(f"{path}/name", "name", child)
        elif key in ("arguments", "input"):
            segments.add_arguments(f"{path}/{key}", child)
        else:
            segments.add_member(path, key, "other", child)


def _add_annotations(segments: SegmentList, value: object, path: str) -> None:
    segments.add_leaves(path, "annotation", value)


def _add_name(segments: SegmentList, value: object, path: str) -> None:
    segments.add(path, "name", value)


def _add_refusal(segments: SegmentList, value: object, path: str) -> None:
    segments.add(path, "refusal", value)


_Adder = Callable[[SegmentList, object, str], None]
_MESSAGE_FIELDS: Final[Mapping[str, _Adder]] = {
    "name": _add_name,
    "refusal": _add_refusal,
    "tool_calls": _add_calls,
    "function_call": _add_called,
    "audio": add_audio,
    "annotations": _add_annotations,
}
_PART_FIELDS: Final[Mapping[str, _Adder]] = {
    "refusal": _add_refusal,
    "image_url": _add_image,
    "input_audio": add_audio,
    "file": _add_file,
}
_PART_TYPES: Final = frozenset({"text", "refusal", "thinking", "image_url", "input_audio", "file"})
