"""Streamed chat replies: frames into pieces of text by field, and the frames the proxy writes itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from proxy.wire.adapter import Chunk, Head, Notice, Piece
from proxy.wire.body import hides_a_key
from proxy.wire.errors import RequestError, error_body
from proxy.wire.segments import all_keys, as_list, as_object, escape, leaves_by_index
from proxy.wire.sse import DONE, Frame, data_frame
from supervisors.types import Kind

_KINDS: Final[Mapping[str, Kind]] = {
    "content": "text",
    "refusal": "refusal",
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
    "thinking": "reasoning",
}
_PARTS: Final = frozenset({*_KINDS, "reasoning_details"})
_DELTAS: Final = ("/text", "/thinking", "/summary")
"""Ends of the pointers of texts that come in deltas although they stand in a part: some servers stream parts."""
_HEAD: Final = ("id", "created", "model", "system_fingerprint", "service_tier")
_TOP_STRUCTURE: Final = frozenset({*_HEAD, "object", "choices", "usage", "obfuscation"})
_CHOICE_STRUCTURE: Final = frozenset({"index", "finish_reason", "logprobs", "delta"})
LOGPROBS: Final = "logprobs"
"""Address of text that leaves with a frame's log-probabilities, and goes with them when the frame is rewritten."""
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
    body: object = orjson.loads(frame.data)
    if not isinstance(body, dict):
        msg = f"a frame holds {type(body).__name__}, not an object"
        raise ValueError(msg)  # noqa: TRY004 - one error for "no frame of this family"
    parsed = cast("dict[str, Any]", body)
    if hides_a_key(frame.data, parsed):
        msg = "a frame holds an object with a key given twice"
        raise ValueError(msg)
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


def _read_choice(raw: bytes, body: dict[str, Any], value: object, usage: Mapping[str, Any] | None) -> Chunk:
    choice = as_object(value)
    index = choice.get("index", 0) if choice is not None else None
    if choice is None or not isinstance(index, int):
        msg = "a frame holds a choice without an integer index"
        raise ValueError(msg)
    pieces = _delta_pieces(choice.get("delta"))
    if not _CHOICE_STRUCTURE.issuperset(choice):
        pieces += _stray_pieces(choice)
    if not _TOP_STRUCTURE.issuperset(body):
        pieces += top_pieces(body)
    if choice.get("logprobs") is not None:
        pieces += _unspoken_tokens(choice, pieces)
    broken = body.get("error") is not None
    return Chunk(raw, index, tuple(pieces), choice.get("finish_reason"), body, usage=usage, error=broken)


def _unspoken_tokens(choice: Mapping[str, Any], pieces: Sequence[Piece]) -> list[Piece]:
    """Return the tokens of log-probabilities that spell anything but the frame's own text, as text to judge."""
    said = {piece.field: piece.text for piece in pieces}
    logprobs = as_object(choice["logprobs"]) or {}
    found: list[Piece] = []
    for name in ("content", "refusal"):
        entries = [as_object(entry) or {} for entry in as_list(logprobs.get(name)) or []]
        spelled = "".join([str(entry.get("token", "")) for entry in entries])
        if spelled and spelled != said.get(f"/message/{name}"):
            found.append(Piece(f"/{LOGPROBS}/{name}", "other", spelled, (LOGPROBS,), alone=True))
    return found


def _delta_pieces(value: object) -> list[Piece]:
    delta = as_object(value)
    if delta is None:
        return leaf_pieces(value, "/message", ("delta",), "other")
    pieces: list[Piece] = []
    for key, child in delta.items():
        kind = _KINDS.get(key)
        if kind is not None and isinstance(child, str):
            if child:
                pieces.append(Piece(f"/message/{key}", kind, child, ("delta", key)))
        elif child is not None and key != "role":
            pieces += _odd_pieces(key, child)
    return pieces


def _stray_pieces(choice: Mapping[str, Any]) -> list[Piece]:
    pieces: list[Piece] = []
    for key, child in choice.items():
        if key not in _CHOICE_STRUCTURE:
            pieces += leaf_pieces(child, f"/choice/{escape(key)}", (key,), "other")
    return pieces


def _odd_pieces(key: str, value: object) -> list[Piece]:
    match key:
        case "tool_calls":
            calls = as_list(value)
            if calls is None:
                return leaf_pieces(value, "/message/tool_calls", (), "other")
            return [piece for position, call in enumerate(calls) for piece in _call_pieces(call, position)]
        case "function_call" if isinstance(value, dict):
            called = cast("dict[str, Any]", value)
            return list(_called_pieces(called, "/message/function_call", ("delta", "function_call")))
        case "audio" if isinstance(value, dict):
            return _audio_pieces(cast("dict[str, Any]", value))
        case _:
            kind: Kind = _KINDS.get(key, "annotation" if key == "annotations" else "other")
            return leaf_pieces(value, f"/message/{escape(key)}", ("delta", key), kind, grows=key in _PARTS)


def _call_pieces(value: object, position: int) -> list[Piece]:
    call = as_object(value)
    at: tuple[str | int, ...] = ("delta", "tool_calls", position)
    if call is None:
        return leaf_pieces(value, f"/message/tool_calls/{position}~", at, "other")
    index = call.get("index")
    path = f"/message/tool_calls/{index if isinstance(index, int) else f'{position}~'}"
    begins = isinstance(call.get("id"), str)
    found: list[Piece] = []
    for key, child in call.items():
        called = as_object(child)
        if key in ("function", "custom") and called is not None:
            found += _called_pieces(called, f"{path}/{key}", (*at, key), begins=begins)
        elif key not in ("index", "id", "type"):
            found += leaf_pieces(child, f"{path}/{escape(key)}", (*at, key), "other")
    return found


def _called_pieces(
    called: Mapping[str, Any], path: str, at: tuple[str | int, ...], *, begins: bool = False
) -> Iterator[Piece]:
    """Yield the text of a called function; only arguments grow, and where a call `begins` they may be whole."""
    for key, child in called.items():
        kind: Kind = "name" if key == "name" else "tool_args" if key in ("arguments", "input") else "other"
        if kind == "tool_args" and isinstance(child, str):
            yield from [Piece(f"{path}/{key}", kind, child, (*at, key), alone=begins)] if child else []
            continue
        yield from leaf_pieces(child, f"{path}/{escape(key)}", (*at, key), kind)
        keys = "\n".join(all_keys(child))
        if keys:
            yield Piece(f"{path}/{escape(key)}/~", kind, keys, (), alone=True)


def _audio_pieces(audio: Mapping[str, Any]) -> list[Piece]:
    found: list[Piece] = []
    for key, child in audio.items():
        if key == "transcript" and isinstance(child, str):
            found += [Piece("/message/audio/transcript", "transcript", child, ("delta", "audio", key))] if child else []
        elif key == "data" and isinstance(child, str) and child:
            found.append(Piece("/message/audio/data", "media", child, ("delta", "audio", key)))
        elif key not in ("id", "expires_at", "data"):
            found += leaf_pieces(child, f"/message/audio/{escape(key)}", ("delta", "audio", key), "other")
    return found


def top_pieces(body: Mapping[str, Any]) -> list[Piece]:
    """Return the text of a frame that stands beside its choices."""
    found: list[Piece] = []
    for key, child in body.items():
        if key not in _TOP_STRUCTURE:
            found += leaf_pieces(child, f"/top/{escape(key)}", ("", key), "other")
    return found


def leaf_pieces(value: object, path: str, at: tuple[str | int, ...], kind: Kind, *, grows: bool = False) -> list[Piece]:
    """Return the text below a member that is no delta, so that it is read both joined to other frames' and alone.

    Text deep inside an unknown shape has no address and cannot be rewritten.

    Args:
        value: the member's.
        path: pointer of the field.
        at: keys from the choice to the value.
        kind: what its text is.
        grows: the texts of its parts are deltas all the same, where the parts are numbered or follow one another.
    """
    if isinstance(value, str):
        return [Piece(path, kind, value, at, alone=True)] if value else []
    return [
        Piece(leaf, kind, text, (), alone=not (grows and leaf.endswith(_DELTAS) and (counted or at[-1] == "content")))
        for leaf, text, counted in leaves_by_index(value, path)
    ]


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
    return Head({key: body[key] for key in _HEAD if key in body})


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

    __slots__ = ("_begun", "_head", "_read_choice", "_style", "model")

    def __init__(self, head: Head, style: Style = CHAT_STYLE) -> None:
        self._head = head
        self._style = style
        self._read_choice = style.read_choice
        self._begun = False
        self.model: str | None = None

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunks of one frame; the first one shows the head."""
        chunks = read_frame(frame, self._read_choice)
        if not self._begun and chunks[0].body is not None:
            self._begun = True
            self._head = read_head(chunks[0])
            model = chunks[0].body.get("model")
            self.model = model if isinstance(model, str) else None
        return chunks

    def path(self, choice: int, field: str) -> str:
        """Return the JSON Pointer of a field in the whole reply."""
        return f"/choices/{choice}{field}"

    def forward(self, chunk: Chunk, texts: Sequence[str] | None = None) -> bytes:
        """Return a chunk as it leaves now."""
        return chunk.raw if texts is None else rewrite(chunk, texts)

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
