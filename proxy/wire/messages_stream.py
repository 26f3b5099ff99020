"""Streamed replies of Anthropic Messages: events into pieces of text, and the events the proxy writes itself. Pure.

All text blocks are one field, ``/content/text``: a client shows them as one text, so a phrase that is split over two
of them is held back and found like any other. Every other text is a field of its block, complete when the block
stops; the JSON text of a tool call's input is its ``arguments``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import orjson

from proxy.wire.adapter import Chunk, Head, Notice, Piece, is_bare
from proxy.wire.body import is_unsound, load_exactly
from proxy.wire.errors import RequestError
from proxy.wire.forms import fits, formed, is_usage
from proxy.wire.messages_block import add_block, add_citation, add_content
from proxy.wire.messages_error import error_frame
from proxy.wire.messages_reply import add_member, add_message_members, message_head, refusal_members
from proxy.wire.nested import RUNNING
from proxy.wire.segments import JOINED, SegmentList, as_object, escape, is_word, unescape
from proxy.wire.sse import Frame, event_frame, only_data
from supervisors.types import Kind, Segment

MESSAGE_STOP: Final = event_frame("message_stop", {"type": "message_stop"})
PING: Final = event_frame("ping", {"type": "ping"})
TEXT: Final = "/content/text"

_DELTAS: Final[Mapping[str, tuple[str, str, Kind]]] = {
    "text_delta": ("text", "text", "text"),
    "input_json_delta": ("partial_json", "arguments", "tool_args"),
    "thinking_delta": ("thinking", "thinking", "reasoning"),
}
_START_STRUCTURE: Final = frozenset({"type", "index", "content_block"})
_DELTA_STRUCTURE: Final = frozenset({"type", "index", "delta"})
_END_STRUCTURE: Final = frozenset({"type", "delta", "usage"})


def read_frame(frame: Frame) -> Chunk:
    """Return the chunk of one event; comments and other lines are nobody's text and do not go on.

    Raises:
        ValueError: the data is no event of this family.
    """
    if not frame.data:
        return Chunk(frame.raw)
    parsed: object = orjson.loads(frame.data)
    if not isinstance(parsed, dict) or is_unsound(frame.data, cast("object", parsed)):
        msg = "an event is no object, or holds one with a key given twice or nested too deeply"
        raise ValueError(msg)
    body = cast("dict[str, Any]", parsed)
    event = body.get("type")
    if not isinstance(event, str) or not fits("type", event) or (frame.event and frame.event != event):
        msg = "an event has no type that is a word, or another one than its data"
        raise ValueError(msg)
    raw = only_data(frame, event, named=True)
    match event:
        case "content_block_start":  # may hold a whole input, which a redaction writes again
            return _read_block_event(raw, cast("dict[str, Any]", load_exactly(frame.data)), event)
        case "content_block_delta" | "content_block_stop":
            return _read_block_event(raw, body, event)
        case "message_start":
            return _read_start(raw, body)
        case "message_delta":
            return _read_end(raw, body)
        case _:
            return _read_other(raw, body, event)


def _read_other(raw: bytes, body: dict[str, Any], event: str) -> Chunk:
    if event == "error":
        return Chunk(raw, body=body, error=True)
    pieces = _stray_pieces(body, frozenset({"type"}))
    if event == "message_stop":
        return Chunk(MESSAGE_STOP if pieces else raw, last=True)  # what else it says cannot be judged any more
    return Chunk(raw, 0, pieces, body=body if pieces else None)


def _read_start(raw: bytes, body: dict[str, Any]) -> Chunk:
    segments = SegmentList("assistant", 0, 0)
    message = _open(segments, body, "message")
    add_content(segments, message.get("content"), "/message/content")
    add_message_members(segments, message, "/message")
    pieces = (*_to_pieces(segments.found, body), *_stray_pieces(body, frozenset({"type", "message"})))
    return Chunk(raw, 0, pieces, body=body, usage=as_object(message.get("usage")))


def _read_end(raw: bytes, body: dict[str, Any]) -> Chunk:
    segments = SegmentList("assistant", 0, 0)
    delta = _open(segments, body, "delta")
    for key, child in delta.items():
        if key in _MEMBERS:
            segments.add(f"/delta/{key}", _MEMBERS[key], child)
        elif not (key == "stop_reason" and fits(key, child)):
            add_member(segments, key, child, "/delta")
    if not is_usage(body.get("usage")):
        segments.add("/usage", "other", body.get("usage"))
    pieces = (*_to_pieces(segments.found, body), *_stray_pieces(body, _END_STRUCTURE))
    reason = delta.get("stop_reason")
    finish = reason if isinstance(reason, str) and reason else None
    return Chunk(raw, 0, pieces, finish, body, usage=as_object(body.get("usage")))


def _open(segments: SegmentList, body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object of an event; anything else there is judged leaf by leaf."""
    value = body.get(key)
    inner = as_object(value)
    if inner is None:
        segments.add(f"/{key}", "other", value)
    return inner or {}


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
            return Chunk(raw, 0, pieces, body=body, part=part)


def _start_pieces(body: dict[str, Any], part: str) -> tuple[Piece, ...]:
    block = body.get("content_block")
    segments = SegmentList("assistant", 0, 0)
    add_block(segments, block, "/content_block")
    pieces = _to_pieces(segments.found, body, part)
    begun = as_object(block) or {}
    if begun.get("type") == "text":  # a client may show it as a paragraph of its own
        return (Piece(TEXT, "text", "", ("content_block", "text"), alone=True), *pieces)
    if begun.get("thinking") == "":  # begins a text that may have to go as a whole, this event included
        return (*pieces, Piece(f"{part}thinking", "reasoning", "", ("content_block", "thinking"), signed=True))
    return pieces


def _delta_pieces(body: dict[str, Any], part: str) -> tuple[Piece, ...]:
    segments = SegmentList("assistant", 0, 0)
    delta = _open(segments, body, "delta")
    known = _DELTAS.get(str(delta.get("type")))
    found: list[Piece] = []
    for key, child in delta.items():
        if known is not None and key == known[0] and isinstance(child, str):
            field = TEXT if key == "text" else part + known[1]
            found.append(Piece(field, known[2], child, ("delta", key), signed=key == "thinking"))
        elif key == "citation":
            add_citation(segments, child, "/delta/citation")
        elif key in _MEMBERS:  # of whatever type and in whatever form: a client may look for nothing but the member
            segments.add(f"/delta/{key}", _MEMBERS[key], child)
        elif not ((key == "signature" and fits(key, child)) or (key == "type" and is_word(child, _DELTA_TYPES))):
            segments.add_member("/delta", key, "other", child)
    pieces = (*found, *_to_pieces(segments.found, body, part))
    return (*pieces, *_join_members(pieces, list(delta), part)) if segments.found else pieces


def _join_members(pieces: Sequence[Piece], keys: Sequence[str], part: str) -> list[Piece]:
    """Return what the members of a delta say one after another, if one of them is unknown."""
    said = [piece for piece in pieces if piece.at[:1] == ("delta",) and piece.at[1:2] not in ((), ("type",))]
    if len(said) < _FEWEST_JOINED or not any(piece.kind == "other" for piece in said):
        return []
    order = {key: number for number, key in enumerate(keys)}  # a delta that is a list has none, and its own order
    said.sort(key=lambda piece: order.get(str(piece.at[1]), len(order)))
    return [Piece(f"{part}delta{JOINED}", "other", piece.text, (), alone=True) for piece in said]


_FEWEST_JOINED: Final = 2
_MEMBERS: Final[Mapping[str, Kind]] = {
    "text": "text",
    "content": "text",
    "thinking": "reasoning",
    "partial_json": "tool_args",
}
_DELTA_TYPES: Final = frozenset({*_DELTAS, "signature_delta", "citations_delta", "compaction_delta"})


def _stray_pieces(body: dict[str, Any], known: frozenset[str], part: str = "/") -> tuple[Piece, ...]:
    if body.keys() <= known:
        return ()
    segments = SegmentList("assistant", 0, 0)
    for key, child in body.items():
        if key not in known:
            _add_stray(segments, key, child)
    return _to_pieces(segments.found, body, part)


def _add_stray(segments: SegmentList, key: str, value: object) -> None:
    """Add a member where this event has none; a client may read a delta or a block of any event at all."""
    inner = as_object(value) if (key,) in _HOLDERS else None
    if inner is None:
        segments.add_member("", key, "other", value)
        return
    for name, child in inner.items():
        if name in _MEMBERS:
            segments.add(f"/{key}/{name}", _MEMBERS[name], child)
        else:
            segments.add_member(f"/{key}", name, "other", child)


def _to_pieces(found: Sequence[Segment], body: dict[str, Any], part: str = "/") -> tuple[Piece, ...]:
    """Return segments of an event as pieces; `field` says where they stand in the whole message."""
    pieces: list[Piece] = []
    for segment in found:
        pointer, _, inner = segment.path.partition("#")
        if inner in ("key", "keys"):
            field = part + "/".join(segment.path.split("/")[1:])
            pieces.append(Piece(field, "other", segment.text, (), alone=True))
            continue
        at = _keys(pointer, body)
        text = segment.text
        if segment.kind == "media" or (inner and segment.kind == "text"):
            text = str(_leaf(body, at))
        elif inner:
            continue  # an escaped string inside arguments: its JSON text is a piece already
        field = _field_of(at, segment.kind, part)
        signed = field == f"{part}thinking"
        pieces.append(Piece(field, segment.kind, text, at, signed=signed, alone=True))
    return tuple(pieces)


def _field_of(at: Sequence[str | int], kind: Kind, part: str) -> str:
    if at[:2] == _BEGUN and kind in _LEAVES:  # a client goes on with the blocks that a message begins with
        return TEXT if kind == "text" else f"/content/{at[2] if at[2:] else 0}/{_LEAVES[kind]}"
    if at[:1] in _HOLDERS and at[1:2] in _RUNNING and kind in _LEAVES:
        return TEXT if kind == "text" else part + _LEAVES[kind]
    if at in (("content_block", "input"), ("delta", "partial_json")):
        return part + "arguments"  # a redaction must leave JSON, as in arguments that come in parts
    if at in (("content_block", "content"), ("delta", "content")):  # of a compaction
        return part + "content"
    if at[:2] == ("content_block", "citations") and at[3:]:
        at = ("delta", "citation", *at[3:])
    inner = at[1:] if at[0] == "content_block" else at
    return part + "/".join([escape(str(key)) for key in inner])


_BEGUN: Final = ("message", "content")
_HOLDERS: Final = (("content_block",), ("delta",))
_RUNNING: Final = (("text",), ("thinking",))
_UNPLACED: Final = frozenset({"/thinking", "/arguments"})
_LEAVES: Final[Mapping[str, str]] = {"text": "text", "reasoning": "thinking", "refusal": "refusal"}


def _keys(pointer: str, holder: Any) -> tuple[str | int, ...]:
    keys: list[str | int] = []
    for token in pointer.split("/")[1:]:
        keys.append(_key(holder, token))
        holder = holder[keys[-1]]
    return tuple(keys)


def _key(holder: object, token: str) -> str | int:
    return int(token) if isinstance(holder, list) else unescape(token)


def _leaf(holder: Any, at: Sequence[str | int]) -> Any:
    for key in at:
        holder = holder[key]
    return holder


def _block_frame(event: str, index: int, **members: Mapping[str, Any]) -> bytes:
    return event_frame(event, {"type": event, "index": index, **members})


class MessageFrames:
    """The events of one streamed message: which blocks have left, and under which number.

    Args:
        head: until the upstream's `message_start` shows its own.
    """

    __slots__ = ("_fields", "_head", "_last", "_left", "_number", "_open", "_spoke", "model")

    def __init__(self, head: Head) -> None:
        self._head = head
        self._fields: set[str] = set()
        self._last = "/"
        self._left = 0
        self._number: dict[int, int] = {}
        self._open = False
        self._spoke: dict[str, dict[int, None]] = {}
        self.model: str | None = None

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunk of one event; `message_start` shows the head, the end of a block ends its fields.

        Raises:
            ValueError: no event of this family, or a text goes on after that of another block of its kind has begun:
                nobody knows how a client would join those.
        """
        chunk = read_frame(frame)
        body = chunk.body or {}
        if body.get("type") == "message_start":
            self._head = _read_head(body, self._head)
            model = self._head.members.get("model")
            self.model = model if isinstance(model, str) else None
        if not chunk.part:
            return (replace(chunk, pieces=tuple(map(self._place, chunk.pieces))),) if chunk.pieces else (chunk,)
        for piece in chunk.pieces:
            if piece.kind in RUNNING and piece.at[:1] in _HOLDERS and piece.text:
                self._note_speaker(piece.kind, body["index"])
        self._fields.update([piece.field for piece in chunk.pieces if piece.field != TEXT])
        self._last = chunk.part
        if body.get("type") == "content_block_stop":
            chunk = replace(chunk, ends=tuple(self._fields))
            self._fields = set()
        return (chunk,)

    def _place(self, piece: Piece) -> Piece:
        """Return a piece of an event without a number: what stands in it as in a delta goes on with the last block."""
        return replace(piece, field=self._last + piece.field[1:]) if piece.field in _UNPLACED else piece

    def _note_speaker(self, kind: str, index: int) -> None:
        spoke = self._spoke.setdefault(kind, {})
        if index not in spoke:
            spoke[index] = None
        elif next(reversed(spoke)) != index:
            msg = f"a text comes for block {index} after that of another"
            raise ValueError(msg)

    def path(self, choice: int, field: str) -> str:
        """Return the field: its name is its place in the message, but for joined text."""
        return field

    def forward(self, chunk: Chunk, texts: Sequence[str] | None = None) -> bytes:
        """Return an event as it leaves: counted without the blocks that were left out before it."""
        index = chunk.body.get("index") if chunk.part and chunk.body is not None else None
        if chunk.body is None or not isinstance(index, int):
            return chunk.raw if texts is None else _rewrite(chunk, chunk.body or {}, texts)
        event = chunk.body["type"]
        if event == "content_block_start":
            self._number[index] = self._left
            self._left += 1
        self._open = event != "content_block_stop"
        number = self._number.get(index, index)
        if number == index and texts is None:
            return chunk.raw
        said = [piece.text for piece in chunk.pieces] if texts is None else texts
        return _rewrite(chunk, {**chunk.body, "index": number}, said)

    def is_bare(self, chunk: Chunk) -> bool:
        """Say whether the event is a delta of its pieces and nothing else."""
        body = chunk.body or {}
        return body.get("type") == "content_block_delta" and is_bare(body, {piece.at for piece in chunk.pieces})

    def notice(self, choice: int, notice: Notice, *, released: bool) -> bytes:
        """Close what is open, add the notice as a text block, and end the message; its `message_stop` follows."""
        usage = as_object(self._head.members.get("usage")) or {"input_tokens": 0, "output_tokens": 0}
        frames = [b"" if released else _start(self._head, usage)]
        if self._open:
            frames.append(_block_frame("content_block_stop", self._left - 1))
        frames += [
            _block_frame("content_block_start", self._left, content_block={"type": "text", "text": ""}),
            _block_frame("content_block_delta", self._left, delta={"type": "text_delta", "text": notice.text}),
            _block_frame("content_block_stop", self._left),
        ]
        spent = {"output_tokens": usage.get("output_tokens", 0)}
        end = {"type": "message_delta", "delta": refusal_members(), "usage": spent}
        return b"".join([*frames, event_frame("message_delta", end)])

    def empty(self) -> bytes:
        """Return a ping (W-28)."""
        return PING

    def error(self, error: RequestError) -> bytes:
        """Return the event of an error after the first byte."""
        return error_frame(error)


def _rewrite(chunk: Chunk, body: Mapping[str, Any], texts: Sequence[str]) -> bytes:
    """Return an event with the texts of its pieces replaced."""
    changed = cast("dict[str, Any]", load_exactly(orjson.dumps(body)))
    for piece, text in zip(chunk.pieces, texts, strict=True):
        if text != piece.text and not piece.field.endswith(JOINED):  # what those say stands in other pieces, too
            holder = _leaf(changed, piece.at[:-1])
            key = piece.at[-1]
            holder[key] = text if isinstance(holder[key], str) else load_exactly(text)
    return event_frame(changed["type"], changed)


def _read_head(body: Mapping[str, Any], before: Head) -> Head:
    message = as_object(body.get("message")) or {}
    return Head({**before.members, **formed({key: message[key] for key in ("id", "model", "usage") if key in message})})


def _start(head: Head, usage: Mapping[str, Any]) -> bytes:
    message: dict[str, Any] = {**message_head(head), "content": [], "stop_reason": None, "stop_sequence": None}
    message["usage"] = usage
    return event_frame("message_start", {"type": "message_start", "message": message})
