"""One content block of Anthropic Messages, of a request or of a reply, as canonical segments. Pure.

Blocks nest: a tool result holds blocks, a document's source may. One walk serves them all; what it does not know it
adds leaf by leaf, so that a new kind of block is judged before it is understood (G-01).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from proxy.wire.forms import fits
from proxy.wire.segments import (
    DATA,
    SegmentList,
    as_list,
    as_object,
    decode_base64,
    decode_text,
    escape,
    is_text,
    is_word,
)
from supervisors.types import Kind

IDS: Final = frozenset({"id", "tool_use_id", "file_id", "container_id", "expires_at"})
_MIME: Final = re.compile(r"[a-z]+/[a-zA-Z0-9.+-]{1,100}")
_RESULTS: Final = frozenset(
    {
        "tool_result",
        "search_result",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_result",
    }
)
"""Blocks whose text comes from a tool or from retrieval: role ``tool``, whoever sends them."""

_TYPES: Final = _RESULTS | frozenset(
    {
        "text",
        "image",
        "document",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "thinking",
        "redacted_thinking",
        "container_upload",
        "compaction",
        "base64",
        "url",
        "file",
        "content",
        "char_location",
        "page_location",
        "content_block_location",
        "search_result_location",
        "web_search_result_location",
        "web_search_result",
        "web_search_tool_result_error",
        "web_fetch_result",
        "web_fetch_tool_result_error",
        "code_execution_result",
        "code_execution_output",
        "code_execution_tool_result_error",
        "encrypted_code_execution_result",
        "bash_code_execution_result",
        "bash_code_execution_output",
        "bash_code_execution_tool_result_error",
        "text_editor_code_execution_view_result",
        "text_editor_code_execution_create_result",
        "text_editor_code_execution_str_replace_result",
        "text_editor_code_execution_tool_result_error",
        "tool_search_tool_search_result",
        "tool_search_tool_result_error",
        "tool_reference",
        "direct",
        "ephemeral",
    }
)
_TTLS: Final = frozenset({"5m", "1h"})


def add_block(segments: SegmentList, value: object, path: str, plain: Kind = "text") -> None:
    """Add everything in a block that is text.

    Args:
        segments: where to; role and turn are those of the message.
        value: the block; a bare string counts as running text.
        path: JSON Pointer of the block.
        plain: kind of running text here: ``text``, or ``tool_result`` inside a result.
    """
    block = as_object(value)
    if block is None:
        segments.add(path, plain, value)
        return
    if not is_word(block.get("type"), _RESULTS):
        _add_members(segments, block, path, plain)
        return
    role = segments.role
    segments.speak("tool", segments.turn)
    _add_members(segments, block, path, "tool_result")
    segments.speak(role, segments.turn)


def add_content(segments: SegmentList, value: object, path: str, plain: Kind = "text") -> None:
    """Add `content`: a string, a list of blocks, or one object."""
    blocks = as_list(value)
    if blocks is None:
        add_block(segments, value, path, plain)
        return
    for index, block in enumerate(blocks):
        add_block(segments, block, f"{path}/{index}", plain)


def add_input(segments: SegmentList, value: object, path: str) -> None:
    """Add the input of a tool call as JSON text, so that keys and numbers are judged like the strings (G-37)."""
    if isinstance(value, str):
        segments.add_arguments(path, value)
    elif as_object(value) or as_list(value):
        segments.add_arguments(path, input_text(value))


def input_text(value: object) -> str:
    """Return the JSON text that stands for a tool call's input: judged, and what a redaction's offsets count in."""
    return orjson.dumps(value).decode()


def is_cache_control(key: str, value: object) -> bool:
    """Say whether a member is a cache mark made of documented words only."""
    mark = as_object(value)
    if key != "cache_control" or mark is None:
        return False
    return all(
        (name == "type" and word == "ephemeral") or (name == "ttl" and is_word(word, _TTLS))
        for name, word in mark.items()
    )


def _add_members(segments: SegmentList, block: Mapping[str, Any], path: str, plain: Kind) -> None:
    for key, child in block.items():
        if _is_structure(block, key, child):
            continue
        at = f"{path}/{escape(key)}"
        add = _MEMBERS.get(key)
        if add is not None:
            add(segments, child, at, plain)
        elif key in _KINDS:
            segments.add(at, _KINDS[key], child)
        elif key == "data" and block.get("type") == "redacted_thinking":
            _add_opaque(segments, child, at, plain)
        else:
            segments.add_member(path, key, "other" if plain == "text" else plain, child)


def _is_structure(block: Mapping[str, Any], key: str, child: object) -> bool:
    if key == "type":
        return is_word(child, _TYPES)
    if key == "signature":
        return block.get("type") == "thinking" and fits(key, child)
    return (key in IDS and fits(key, child)) or is_cache_control(key, child)


def _add_plain(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    segments.add(path, plain, value)


def _add_call_input(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    add_input(segments, value, path)


def _add_link(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    segments.add_url(path, value)


def _add_opaque(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    segments.add(path, "opaque", value)


def _add_citations(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    citations = as_list(value)
    if citations is None:
        segments.add(path, "other", value)
        return
    for index, citation in enumerate(citations):
        add_citation(segments, citation, f"{path}/{index}")


def add_citation(segments: SegmentList, value: object, path: str) -> None:
    """Add one citation: the words it quotes, titles and links; its encrypted index is opaque."""
    citation = as_object(value)
    if citation is None:
        segments.add(path, "annotation", value)
        return
    for key, child in citation.items():
        if not _is_structure(citation, key, child):
            segments.add_member(path, key, "opaque" if key == "encrypted_index" else "annotation", child)


def _add_source(segments: SegmentList, value: object, path: str, plain: Kind) -> None:
    """Add the source of an image or document; of a search result it is a link."""
    source = as_object(value)
    if source is None:
        segments.add_url(path, value)
        return
    mime = source.get("media_type")
    for key, child in source.items():
        at = f"{path}/{escape(key)}"
        if _is_structure(source, key, child) or (key == "media_type" and _is_mime(child)):
            continue
        if key == "data" and source.get("type") == "base64" and isinstance(child, str):
            _add_bytes(segments, child, at, mime if isinstance(mime, str) else "application/octet-stream")
        elif key == "url":
            segments.add_url(at, child)
        elif key == "content":
            add_content(segments, child, at, plain)
        else:
            segments.add_member(path, key, plain if key == "data" else "other", child)


def _add_bytes(segments: SegmentList, value: str, path: str, mime: str) -> None:
    """Add base64 data: text MIME types are judged as text (G-02), the rest is media."""
    data = decode_base64(value)
    text = decode_text(data, "utf-8") if data is not None and is_text(mime) else None
    if text is None:
        segments.add_media(path, mime, data)
    else:
        segments.add(path + DATA, "text", text)


def _is_mime(value: object) -> bool:
    return isinstance(value, str) and _MIME.fullmatch(value) is not None


_Adder = Callable[[SegmentList, object, str, Kind], None]
_MEMBERS: Final[Mapping[str, _Adder]] = {
    "text": _add_plain,
    "context": _add_plain,
    "content": add_content,
    "input": _add_call_input,
    "source": _add_source,
    "citations": _add_citations,
    "url": _add_link,
    "encrypted_content": _add_opaque,
    "encrypted_stdout": _add_opaque,
}
_KINDS: Final[Mapping[str, Kind]] = {
    "thinking": "reasoning",
    "name": "name",
    "server_name": "name",
    "tool_name": "name",
    "title": "name",
    "file_name": "name",
}
