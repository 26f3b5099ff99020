"""Streamed legacy completions: frames into pieces of text, and the frames the proxy writes itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from proxy.wire.adapter import Chunk, Head, Notice, Piece
from proxy.wire.chat_pieces import finish_of, member_pieces, part_pieces, token_pieces, top_pieces
from proxy.wire.chat_stream import Style
from proxy.wire.forms import fits
from proxy.wire.segments import as_object, is_index
from proxy.wire.sse import data_frame
from supervisors.types import Kind

KINDS: Final[Mapping[str, Kind]] = {"text": "text", "reasoning_content": "reasoning", "reasoning": "reasoning"}
"""What the members of a choice are; any other text in it is of kind ``other``."""

_STRUCTURE: Final = frozenset({"index", "logprobs"})


def _read_choice(raw: bytes, body: dict[str, Any], value: object, usage: Mapping[str, Any] | None) -> Chunk:
    choice = as_object(value)
    index = choice.get("index", 0) if choice is not None else None
    if choice is None or not is_index(index):
        msg = "a frame holds a choice without an integer index"
        raise ValueError(msg)
    pieces: list[Piece] = []
    for key, child in choice.items():
        kind = KINDS.get(key)
        if kind is not None and isinstance(child, str):
            pieces += [Piece(f"/{key}", kind, child, (key,))] if child else []
        elif kind is not None and isinstance(child, dict | list):
            pieces += part_pieces(cast("object", child), f"/{key}", (key,), kind)
        elif not (key in _STRUCTURE or (key == "finish_reason" and fits(key, child))):
            pieces += member_pieces(key, child, "/choice", (key,), kind or "other")
    pieces += top_pieces(body)
    if choice.get("logprobs") is not None:
        pieces += token_pieces(choice["logprobs"], choice)
    broken = body.get("error") is not None
    return Chunk(raw, index, tuple(pieces), finish_of(choice), body, usage=usage, error=broken)


def frame(head: Head, choice: int, text: str, finish: str | None) -> bytes:
    """Return one frame of our own."""
    choices = [{"index": choice, "text": text, "logprobs": None, "finish_reason": finish}]
    return data_frame({**head.members, "object": "text_completion", "choices": choices})


def notice_frames(head: Head, choice: int, notice: Notice, released: bool) -> bytes:
    """Return the notice chunk and the finish chunk of a blocked choice (wire §5.2)."""
    text = f"\n\n{notice.text}" if released else notice.text
    return frame(head, choice, text, None) + frame(head, choice, "", "content_filter")


def empty_frame(head: Head) -> bytes:
    """Return a frame that adds nothing: a client's timer sees it, its text does not (W-28)."""
    return frame(head, 0, "", None)


STYLE: Final = Style(_read_choice, notice_frames, empty_frame)
