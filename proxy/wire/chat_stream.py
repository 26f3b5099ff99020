"""Streamed chat replies: frames into pieces of text by field, and the frames the proxy writes itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from proxy.wire.adapter import Chunk, Head, Notice, Piece, is_bare
from proxy.wire.body import is_unsound
from proxy.wire.chat_order import Orders
from proxy.wire.chat_pieces import (
    CHOICE_STRUCTURE,
    LOGPROBS,
    choice_pieces,
    delta_pieces,
    finish_of,
    token_pieces,
    top_pieces,
)
from proxy.wire.errors import RequestError, error_body
from proxy.wire.forms import formed, is_plain
from proxy.wire.segments import as_list, as_object, is_index
from proxy.wire.sse import DONE, Frame, data_frame

_HEAD: Final = ("id", "created", "model", "system_fingerprint", "service_tier")
_BESIDE: Final = ("",)
_PLAIN: Final = len(b"data: \n\n")


ReadChoice = Callable[[bytes, dict[str, Any], object, Mapping[str, Any] | None], Chunk]
"""From a frame's bytes, its body, its one choice and its usage to the chunk."""


def read_frame(frame: Frame, read_choice: ReadChoice) -> tuple[Chunk, ...]:
    """Return the chunks of one frame; a frame for several choices is split by choice (W-29).

    Args:
        frame: of any family that streams `choices`.
        read_choice: reads a frame of one choice.

    Raises:
        ValueError: the data is neither JSON nor the terminator.
    """
    if not frame.data:
        return (Chunk(frame.raw),)
    raw = frame.raw
    if len(raw) != len(frame.data) + _PLAIN:  # comments, names and ids are nobody's text: only the data goes on
        raw = b"data: " + frame.data.replace(b"\n", b" ") + b"\n\n"
    if frame.data == b"[DONE]":
        return (Chunk(DONE, last=True),)
    parsed = _parse(frame.data)
    choices = as_list(parsed.get("choices"))
    usage = as_object(parsed.get("usage"))
    if not choices:
        stray = tuple(top_pieces(parsed))
        choice = 0 if stray or usage is None else None
        return (Chunk(raw, choice, stray, None, parsed, usage=usage, error=parsed.get("error") is not None),)
    if len(choices) == 1:
        return (read_choice(raw, parsed, choices[0], usage),)
    alone = [{**parsed, "choices": [choice]} for choice in choices]
    return tuple([read_choice(data_frame(one), one, one["choices"][0], usage) for one in alone])


def _parse(data: bytes) -> dict[str, Any]:
    body: object = orjson.loads(data)
    if not isinstance(body, dict):
        msg = f"a frame holds {type(body).__name__}, not an object"
        raise ValueError(msg)  # noqa: TRY004 - one error for "no frame of this family"
    parsed = cast("dict[str, Any]", body)
    if is_unsound(data, parsed):
        msg = "a frame holds an object with a key given twice, or nested too deeply"
        raise ValueError(msg)
    choices = parsed.get("choices")
    if not (choices is None or isinstance(choices, list)):
        msg = "the choices of a frame are no list"
        raise ValueError(msg)
    return parsed


def _read_choice(raw: bytes, body: dict[str, Any], value: object, usage: Mapping[str, Any] | None) -> Chunk:
    choice = as_object(value)
    index = choice.get("index", 0) if choice is not None else None
    if choice is None or not is_index(index):
        msg = "a frame holds a choice without an integer index"
        raise ValueError(msg)
    pieces = delta_pieces(choice.get("delta"))
    if not CHOICE_STRUCTURE.issuperset(choice) or choice.get("finish_reason") is not None:
        pieces += choice_pieces(choice)
    if not is_plain(body):
        pieces += top_pieces(body)
    if choice.get("logprobs") is not None:
        pieces += token_pieces(choice["logprobs"], as_object(choice.get("delta")) or {})
    broken = body.get("error") is not None
    return Chunk(raw, index, tuple(pieces), finish_of(choice), body, usage=usage, error=broken)


def _is_watched(chunk: Chunk) -> bool:
    """Say whether what comes after this chunk depends on it: on all but plain deltas and what stands beside choices."""
    for piece in chunk.pieces:  # noqa: SIM110 - a generator costs more than all that it would ask
        if piece.places or (piece.kind != "text" and piece.at[:1] != _BESIDE):
            return True
    return False


def _thinks(chunk: Chunk) -> bool:
    return any(_is_thought(piece) for piece in chunk.pieces)


def _is_thought(piece: Piece) -> bool:
    return piece.kind == "reasoning" or (piece.kind == "other" and piece.field.startswith("/message/reasoning"))


_SPOKEN: Final = frozenset({"text", "refusal", "tool_args", "name", "transcript"})


def rewrite(chunk: Chunk, texts: Sequence[str]) -> bytes:
    """Return the frame with the texts of its pieces replaced; `obfuscation` and `logprobs` go with the rewrite.

    Raises:
        ValueError: a piece cannot be addressed (text deep inside an unknown shape).
    """
    body: dict[str, Any] = orjson.loads(orjson.dumps(chunk.body))
    body.pop("obfuscation", None)
    choice: dict[str, Any] = body["choices"][0] if body.get("choices") else {}
    choice.pop("logprobs", None)
    for piece, text in zip(chunk.pieces, texts, strict=True):
        if text == piece.text or piece.at == (LOGPROBS,):
            continue
        if not piece.at:
            msg = f"the text at {piece.field} cannot be rewritten"
            raise ValueError(msg)
        holder: Any = body if piece.at[0] == "" else choice
        keys = piece.at[1:] if piece.at[0] == "" else piece.at
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = text
    return data_frame(body)


def read_head(chunk: Chunk) -> Head:
    """Return the members every frame of this reply shares."""
    body = chunk.body or {}
    return Head(formed({key: body[key] for key in _HEAD if key in body}))


def frame(head: Head, choice: int, delta: Mapping[str, Any], finish: str | None) -> bytes:
    """Return one frame of our own."""
    choices = [{"index": choice, "delta": delta, "finish_reason": finish}]
    return data_frame({**head.members, "object": "chat.completion.chunk", "choices": choices})


def notice_frames(head: Head, choice: int, notice: Notice, released: bool) -> bytes:
    """Return the notice chunk and the finish chunk of a blocked choice (wire §5.2)."""
    delta: dict[str, Any] = {} if released else {"role": "assistant"}
    if not notice.only_refusal:
        delta["content"] = f"\n\n{notice.text}" if released else notice.text
    delta["refusal"] = notice.text
    return frame(head, choice, delta, None) + frame(head, choice, {}, "content_filter")


def empty_frame(head: Head) -> bytes:
    """Return a frame that adds nothing: a client's timer sees it, its text does not (W-28)."""
    return frame(head, 0, {}, None)


def error_frame(error: RequestError) -> bytes:
    """Return the frame of an error after the first byte; no terminator follows it (W-06)."""
    return data_frame(error_body(error))


@dataclass(frozen=True, slots=True)
class Style:
    """How a family that streams `choices` reads a frame and writes its own.

    Args:
        read_choice: reads a frame of one choice.
        notice: writes what closes a blocked choice.
        empty: writes a frame that adds nothing.
    """

    read_choice: ReadChoice
    notice: Callable[[Head, int, Notice, bool], bytes]
    empty: Callable[[Head], bytes]


CHAT_STYLE: Final = Style(_read_choice, notice_frames, empty_frame)


class ChatFrames:
    """The frames of one streamed reply made of choices: all it must remember is the head they share.

    Args:
        head: until the upstream's first frame shows its own.
        style: of the family.
    """

    __slots__ = ("_begun", "_head", "_orders", "_read_choice", "_style", "_thinking", "model")

    def __init__(self, head: Head, style: Style = CHAT_STYLE) -> None:
        self._head = head
        self._style = style
        self._read_choice = style.read_choice
        self._begun = False
        self._thinking: dict[int, dict[str, bool]] = {}
        self._orders: dict[int | None, Orders] = {}
        self.model: str | None = None

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunks of one frame; the first one shows the head."""
        chunks = read_frame(frame, self._read_choice)
        if not self._begun and chunks[0].body is not None:
            self._begun = True
            self._head = read_head(chunks[0])
            model = chunks[0].body.get("model")
            self.model = model if isinstance(model, str) else None
        for chunk in chunks:
            if self._orders or _is_watched(chunk):
                return tuple([self._end_thought(self._follow(one)) for one in chunks])
        return chunks

    def _follow(self, chunk: Chunk) -> Chunk:
        orders = self._orders.get(chunk.choice)
        if orders is None:
            orders = self._orders[chunk.choice] = Orders()
        return orders.follow(chunk) if chunk.pieces else chunk

    def _end_thought(self, chunk: Chunk) -> Chunk:
        """Note what a choice thinks; once it speaks, say that its thoughts have ended, so that they hold up no text.

        A thought that goes on after that has no second end: it is held to the last verdict.
        """
        if chunk.choice is None:
            return chunk
        open_fields = self._thinking.setdefault(chunk.choice, {})
        if _thinks(chunk):
            for piece in chunk.pieces:
                if _is_thought(piece):
                    open_fields.setdefault(piece.field, True)
            return chunk
        if not any(piece.kind in _SPOKEN for piece in chunk.pieces):
            return chunk
        ended = tuple([field for field, is_open in open_fields.items() if is_open])
        open_fields.update(dict.fromkeys(ended, False))
        return replace(chunk, ends=ended) if ended else chunk

    def path(self, choice: int, field: str) -> str:
        """Return the JSON Pointer of a field in the whole reply."""
        return f"/choices/{choice}{field}"

    def forward(self, chunk: Chunk, texts: Sequence[str] | None = None) -> bytes:
        """Return a chunk as it leaves now."""
        return chunk.raw if texts is None else rewrite(chunk, texts)

    def is_bare(self, chunk: Chunk) -> bool:
        """Say whether the chunk holds nothing but its pieces."""
        choices = as_list((chunk.body or {}).get("choices"))
        kept = {piece.at for piece in chunk.pieces if piece.at != (LOGPROBS,)}
        return choices is not None and len(choices) == 1 and not chunk.usage and is_bare(choices[0], kept)

    def notice(self, choice: int, notice: Notice, *, released: bool) -> bytes:
        """Return the notice chunk and the finish chunk of a blocked choice."""
        return self._style.notice(self._head, choice, notice, released)

    def empty(self) -> bytes:
        """Return a frame that adds nothing."""
        return self._style.empty(self._head)

    def moderation(self, member: Mapping[str, Any]) -> bytes:
        """Return the frame that answers the `moderation` field."""
        return data_frame(
            {**self._head.members, "object": "chat.completion.chunk", "choices": [], "moderation": member}
        )

    def error(self, error: RequestError) -> bytes:
        """Return the frame of an error after the first byte."""
        return error_frame(error)
