"""Streamed replies of Anthropic Messages: events into pieces of text, and the events the proxy writes itself. Pure.

All text blocks are one field, ``/content/text``: a client shows them as one text, so a phrase that is split over two
of them is held back and found like any other. Every other text is a field of its block, complete when the block
stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson

from proxy.wire.adapter import Chunk, Head, Notice, Piece, Released
from proxy.wire.messages_block import add_block, add_citation
from proxy.wire.messages_reply import add_member, add_message_members, message_head, refusal_members
from proxy.wire.segments import SegmentList, as_object, escape
from proxy.wire.sse import Frame, event_frame
from supervisors.types import Kind, Segment

MESSAGE_STOP: Final = event_frame("message_stop", {"type": "message_stop"})
PING: Final = event_frame("ping", {"type": "ping"})
TEXT: Final = "/content/text"

_DELTAS: Final[Mapping[str, tuple[str, str, Kind]]] = {
    "text_delta": ("text", "text", "text"),
    "input_json_delta": ("partial_json", "input", "tool_args"),
    "thinking_delta": ("thinking", "thinking", "reasoning"),
}
_START_STRUCTURE: Final = frozenset({"type", "index", "content_block"})
_DELTA_STRUCTURE: Final = frozenset({"type", "index", "delta"})
_END_STRUCTURE: Final = frozenset({"type", "delta", "usage"})
_END_DELTA_STRUCTURE: Final = frozenset({"stop_reason", "stop_sequence"})


def read_frame(frame: Frame) -> tuple[Chunk, ...]:
    """Return the chunk of one event.

    Raises:
        ValueError: the data is no event of this family.
    """
    if not frame.data:
        return (Chunk(frame.raw),)
    parsed: object = orjson.loads(frame.data)
    if not isinstance(parsed, dict):
        msg = f"an event holds {type(parsed).__name__}, not an object"
        raise ValueError(msg)  # noqa: TRY004 - one error for "no event of this family"
    body = cast("dict[str, Any]", parsed)
    event = body.get("type")
    if not isinstance(event, str) or (frame.event and frame.event != event):
        msg = "an event has no type, or another one than its data"
        raise ValueError(msg)
    match event:
        case "content_block_start" | "content_block_delta" | "content_block_stop":
            return (_read_block_event(frame.raw, body, event),)
        case "message_start":
            return (_read_start(frame.raw, body),)
        case "message_delta":
            return (_read_end(frame.raw, body),)
        case _:
            return (_read_other(frame.raw, body, event),)


def _read_other(raw: bytes, body: dict[str, Any], event: str) -> Chunk:
    if event == "error":
        return Chunk(raw, body=body, error=True)
    pieces = _stray_pieces(body, frozenset({"type"}))
    if event == "message_stop":
        return Chunk(MESSAGE_STOP if pieces else raw, last=True)  # what else it says cannot be judged any more
    return Chunk(raw, 0, pieces, body=body if pieces else None)


def _read_start(raw: bytes, body: dict[str, Any]) -> Chunk:
    message = as_object(body.get("message")) or {}
    segments = SegmentList("assistant", 0, 0)
    for index, block in enumerate(message.get("content") or []):
        add_block(segments, block, f"/message/content/{index}")
    add_message_members(segments, message, "/message")
    pieces = (*_to_pieces(segments.found, body), *_stray_pieces(body, frozenset({"type", "message"})))
    return Chunk(raw, 0, pieces, body=body, usage=as_object(message.get("usage")))


def _read_end(raw: bytes, body: dict[str, Any]) -> Chunk:
    delta = as_object(body.get("delta")) or {}
    segments = SegmentList("assistant", 0, 0)
    for key, child in delta.items():
        if key not in _END_DELTA_STRUCTURE:
            add_member(segments, key, child, f"/delta/{escape(key)}")
    pieces = (*_to_pieces(segments.found, body), *_stray_pieces(body, _END_STRUCTURE))
    return Chunk(raw, 0, pieces, delta.get("stop_reason"), body, usage=as_object(body.get("usage")))


def _read_block_event(raw: bytes, body: dict[str, Any], event: str) -> Chunk:
    index = body.get("index")
    if not isinstance(index, int):
        msg = "an event of a block has no index"
        raise ValueError(msg)  # noqa: TRY004 - one error for "no event of this family"
    part = f"/content/{index}/"
    match event:
        case "content_block_start":
            pieces = (*_start_pieces(body, part), *_stray_pieces(body, _START_STRUCTURE, part))
            return Chunk(raw, 0, pieces, body=body, part=part)
        case "content_block_delta":
            pieces = (*_delta_pieces(body, part), *_stray_pieces(body, _DELTA_STRUCTURE, part))
            return Chunk(raw, 0, pieces, body=body, part=part)
        case _:
            pieces = _stray_pieces(body, frozenset({"type", "index"}), part)
            return Chunk(raw, 0, pieces, body=body, part=part, closes=True)


def _start_pieces(body: dict[str, Any], part: str) -> tuple[Piece, ...]:
    segments = SegmentList("assistant", 0, 0)
    add_block(segments, body.get("content_block"), "/content_block")
    return _to_pieces(segments.found, body, part)


def _delta_pieces(body: dict[str, Any], part: str) -> tuple[Piece, ...]:
    delta = as_object(body.get("delta")) or {}
    known = _DELTAS.get(str(delta.get("type")))
    segments = SegmentList("assistant", 0, 0)
    found: list[Piece] = []
    for key, child in delta.items():
        if known is not None and key == known[0] and isinstance(child, str):
            field = TEXT if key == "text" else part + known[1]
            found.append(Piece(field, known[2], child, ("delta", key)))
        elif key == "citation":
            add_citation(segments, child, "/delta/citation")
        elif not (key == "signature" or (key == "type" and child in _DELTA_TYPES)):
            segments.add(f"/delta/{escape(key)}", "other", child)
    return (*found, *_to_pieces(segments.found, body, part))


_DELTA_TYPES: Final = frozenset({*_DELTAS, "signature_delta", "citations_delta", "compaction_delta"})


def _stray_pieces(body: dict[str, Any], known: frozenset[str], part: str = "/") -> tuple[Piece, ...]:
    if body.keys() <= known:
        return ()
    segments = SegmentList("assistant", 0, 0)
    for key, child in body.items():
        if key not in known:
            segments.add(f"/{escape(key)}", "other", child)
    return _to_pieces(segments.found, body, part)


def _to_pieces(found: Sequence[Segment], body: dict[str, Any], part: str = "/") -> tuple[Piece, ...]:
    """Return segments of an event as pieces; `field` says where they stand in the whole message."""
    pieces: list[Piece] = []
    for segment in found:
        pointer, _, inner = segment.path.partition("#")
        at = _keys(pointer, body)
        text = segment.text
        if segment.kind == "media" or (inner and segment.kind == "text"):
            text = str(_leaf(body, at))
        elif inner:
            continue  # an escaped string inside arguments: its JSON text is a piece already
        pieces.append(Piece(_field_of(at, segment.kind, part), segment.kind, text, at))
    return tuple(pieces)


def _field_of(at: Sequence[str | int], kind: Kind, part: str) -> str:
    if kind == "text" and at == ("content_block", "text"):
        return TEXT
    inner = at[1:] if at[0] == "content_block" else at
    return part + "/".join([escape(str(key)) for key in inner])


def _keys(pointer: str, holder: Any) -> tuple[str | int, ...]:
    keys: list[str | int] = []
    for token in pointer.split("/")[1:]:
        keys.append(_key(holder, token))
        holder = holder[keys[-1]]
    return tuple(keys)


def _key(holder: object, token: str) -> str | int:
    return int(token) if isinstance(holder, list) else token.replace("~1", "/").replace("~0", "~")


def _leaf(holder: Any, at: Sequence[str | int]) -> Any:
    for key in at:
        holder = holder[key]
    return holder


def rewrite(chunk: Chunk, texts: Sequence[str], dropped: int = 0) -> bytes:
    """Return the event with the texts of its pieces replaced and its block counted without the dropped ones."""
    body: dict[str, Any] = orjson.loads(orjson.dumps(chunk.body))
    for piece, text in zip(chunk.pieces, texts, strict=True):
        if text != piece.text:
            holder = _leaf(body, piece.at[:-1])
            key = piece.at[-1]
            holder[key] = text if isinstance(holder[key], str) else orjson.loads(text)
    if dropped:
        body["index"] -= dropped
    return event_frame(body["type"], body)


def read_head(chunk: Chunk) -> Head:
    """Return what `message_start` says of the message."""
    message = as_object((chunk.body or {}).get("message")) or {}
    return Head({key: message[key] for key in ("id", "model", "usage") if key in message})


def notice_frames(head: Head, choice: int, notice: Notice, *, released: Released | None) -> bytes:
    """Close what is open, add the notice as a text block, and end the message; its `message_stop` follows."""
    usage = as_object(head.members.get("usage")) or {"input_tokens": 0, "output_tokens": 0}
    frames = [b"" if released else _start(head, usage)]
    index = 0
    if released is not None and released.last is not None and released.last.body is not None:
        index = released.last.body["index"] - released.dropped + 1
        if not released.last.closes:
            frames.append(_block_frame("content_block_stop", index - 1))
    frames += [
        _block_frame("content_block_start", index, content_block={"type": "text", "text": ""}),
        _block_frame("content_block_delta", index, delta={"type": "text_delta", "text": notice.text}),
        _block_frame("content_block_stop", index),
    ]
    spent = {"output_tokens": usage.get("output_tokens", 0)}
    end = {"type": "message_delta", "delta": refusal_members(), "usage": spent}
    return b"".join([*frames, event_frame("message_delta", end)])


def _block_frame(event: str, index: int, **members: Mapping[str, Any]) -> bytes:
    return event_frame(event, {"type": event, "index": index, **members})


def _start(head: Head, usage: Mapping[str, Any]) -> bytes:
    message: dict[str, Any] = {**message_head(head), "content": [], "stop_reason": None, "stop_sequence": None}
    message["usage"] = usage
    return event_frame("message_start", {"type": "message_start", "message": message})
