"""The texts of one frame of a family that streams `choices`: deltas, and whatever else in it is text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from proxy.wire.adapter import Piece
from proxy.wire.forms import FORMS, fits, is_usage
from proxy.wire.logprobs import token_texts
from proxy.wire.names import is_named
from proxy.wire.nested import walk_parts, write_number
from proxy.wire.segments import (
    DATA,
    ENTRY,
    KEYS,
    all_keys,
    as_list,
    as_object,
    escape,
    is_recording,
    leaves_by_place,
)
from supervisors.types import Kind

KINDS: Final[Mapping[str, Kind]] = {
    "content": "text",
    "refusal": "refusal",
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
    "thinking": "reasoning",
}
"""What the texts of a chat delta are."""
LOGPROBS: Final = "logprobs"
"""Address of text that leaves with a frame's log-probabilities, and goes with them when the frame is rewritten."""

_PARTS: Final[Mapping[str, Kind]] = {**KINDS, "reasoning_details": "reasoning", "thinking_blocks": "reasoning"}
"""What the texts are in the parts of a member: some servers stream parts."""
CHOICE_STRUCTURE: Final = frozenset({"index", "finish_reason", "logprobs", "delta"})
"""Members of a choice of a stream that hold no text but that of the delta and of tokens."""
_CALL_STRUCTURE: Final = frozenset({"index", "id", "type"})

_SEVERITIES: Final = frozenset({"safe", "low", "medium", "high"})
"""What content filters report with every frame: text that ends nowhere would hold up the stream."""

At = tuple[str | int, ...]


def finish_of(choice: Mapping[str, Any]) -> str | None:
    """Return why a choice has finished; an empty word, or anything else that is no word, is no reason."""
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) and reason else None


def delta_pieces(value: object, holder: str = "delta") -> list[Piece]:
    """Return the texts of a delta.

    Args:
        value: the delta.
        holder: name of the member of the choice that it is.
    """
    delta = as_object(value)
    if delta is None:
        return _stray_pieces(value, holder)
    pieces: list[Piece] = []
    for key, child in delta.items():
        kind = KINDS.get(key)
        if kind is not None and isinstance(child, str):
            if child:
                pieces.append(Piece(f"/message/{key}", kind, child, (holder, key)))
        elif key == "role":
            pieces += [] if fits(key, child) else leaf_pieces(child, "/message/role", (holder, key), "other")
        elif child is not None or not is_named(key, in_reply=True):
            pieces += _odd_pieces(key, child, (holder, key))
    return pieces


def choice_pieces(choice: Mapping[str, Any]) -> list[Piece]:
    """Return the text of a choice beside its delta."""
    pieces: list[Piece] = []
    for key, child in choice.items():
        if key == "message" and isinstance(child, dict | list | str):
            pieces += _message_pieces(cast("object", child))
        elif key == "text" and isinstance(child, str):
            pieces += [_stray_text(child, key)] if child else []
        elif key not in CHOICE_STRUCTURE:
            pieces += member_pieces(key, child, "/choice", (key,), "other")
        elif key == "finish_reason" and child is not None and not fits(key, child):
            pieces += leaf_pieces(child, "/choice/finish_reason", (key,), "other")
    return pieces


def _stray_pieces(value: object, holder: str) -> list[Piece]:
    """Return the text of a delta that is no object: it goes on with the content, to whoever reads it so."""
    if isinstance(value, str):
        return [_stray_text(value, holder)] if value else []
    return part_pieces(value, "/message/content", (holder,), "text")


def _stray_text(text: str, key: str) -> Piece:
    """Return a text of a choice that stands where no delta has it."""
    return Piece("/message/content", "text", text, (key,), alone=True, places=(f"/choice/{key}",))


def _message_pieces(message: object) -> list[Piece]:
    """Return the texts of a message where a delta should be: some clients take the one for the other."""
    return [
        replace(piece, alone=True, places=tuple([f"/choice{name}" for name in (*piece.places, piece.field)]))
        for piece in delta_pieces(message, "message")
    ]


def token_pieces(logprobs: object, said: Mapping[str, object]) -> list[Piece]:
    """Return what log-probabilities spell beyond the frame's own text."""
    return [
        Piece(f"/{LOGPROBS}{at}", "other", text, (LOGPROBS,), alone=True) for at, text in token_texts(logprobs, said)
    ]


def _odd_pieces(key: str, value: object, at: At) -> list[Piece]:
    match key:
        case "tool_calls":
            calls = as_list(value)
            if calls is None:
                return leaf_pieces(value, "/message/tool_calls", (), "other")
            return [piece for position, call in enumerate(calls) for piece in _call_pieces(call, position, at)]
        case "function_call" if isinstance(value, dict):
            return list(_called_pieces(cast("dict[str, Any]", value), "/message/function_call", at))
        case "audio" if isinstance(value, dict):
            return _audio_pieces(cast("dict[str, Any]", value), at)
        case _:
            kind: Kind = KINDS.get(key, "annotation" if key == "annotations" else "other")
            return member_pieces(key, value, "/message", at, kind)


def _call_pieces(value: object, position: int, at: At) -> list[Piece]:
    call = as_object(value)
    at = (*at, position)
    if call is None:
        return leaf_pieces(value, f"/message/tool_calls/{position}~", at, "other")
    index = write_number(call.get("index"))
    path = f"/message/tool_calls/{f'{position}~' if index is None else escape(index)}"
    begins = isinstance(call.get("id"), str)
    found: list[Piece] = []
    for key, child in call.items():
        called = as_object(child)
        if key in ("function", "custom") and called is not None:
            found += _called_pieces(called, f"{path}/{key}", (*at, key), begins=begins)
        elif key in _CALL_STRUCTURE and fits(key, child):
            found += _formed_pieces(key, child, path, at)
        else:
            found += member_pieces(key, child, path, (*at, key), "other")
    return found


def _formed_pieces(key: str, value: object, path: str, at: At) -> list[Piece]:
    """Return a member that has its form and says nothing, unless it goes on in another form."""
    if key == "index" or value is None or value == "":
        return []
    return [Piece(f"{path}/{key}", "other", str(value), (*at, key), repeats=True)]


def _called_pieces(called: Mapping[str, Any], path: str, at: At, *, begins: bool = False) -> Iterator[Piece]:
    """Yield the text of a called function; only arguments grow, and where a call `begins` they may be whole."""
    for key, child in called.items():
        kind: Kind = "name" if key == "name" else "tool_args" if key in ("arguments", "input") else "other"
        if kind == "tool_args" and isinstance(child, str):
            yield from [Piece(f"{path}/{key}", kind, child, (*at, key), alone=begins)] if child else []
        elif kind == "tool_args":
            yield from leaf_pieces(child, f"{path}/{key}", (*at, key), kind)
            yield from _key_pieces(f"{path}/{key}", all_keys(child), every=True)
        else:
            yield from member_pieces(key, child, path, (*at, key), kind)


def _audio_pieces(audio: Mapping[str, Any], at: At) -> list[Piece]:
    found: list[Piece] = []
    path = "/message/audio"
    for key, child in audio.items():
        if key == "transcript" and isinstance(child, str):
            found += [Piece(f"{path}/transcript", "transcript", child, (*at, key))] if child else []
        elif key == "data" and isinstance(child, str) and child:
            found.append(Piece(f"{path}/data", "media", child, (*at, key)))
            if not is_recording(child):  # nobody can hear it, because it reads
                found.append(Piece(f"{path}/data{DATA}", "other", child, (), alone=True))
        elif key in ("id", "expires_at") and fits(key, child):
            found += _formed_pieces(key, child, path, at)
        else:
            found += member_pieces(key, child, path, (*at, key), "other")
    return found


def top_pieces(body: Mapping[str, Any]) -> list[Piece]:
    """Return the text of a frame that stands beside its choices."""
    found: list[Piece] = []
    for key, child in body.items():
        if key in FORMS:
            if not fits(key, child):
                found += leaf_pieces(child, f"/top/{key}", ("", key), "other")
        elif key != "choices" and not (key == "usage" and is_usage(child)):
            found += member_pieces(key, child, "/top", ("", key), "other")
    return found


def member_pieces(key: str, value: object, path: str, at: At, kind: Kind, places: tuple[str, ...] = ()) -> list[Piece]:
    """Return the text of a member that nobody here reads, and its name unless a document defines it.

    Args:
        key: its name.
        value: its value.
        path: pointer of the object it stands in.
        at: keys from the choice to the value.
        kind: what its text is.
        places: pointers of the member by number and by id, where it stands in a list.
    """
    field = f"{path}/{escape(key)}"
    parts = _PARTS.get(key) if path == "/message" else None
    if parts is not None and isinstance(value, dict | list):
        return part_pieces(cast("object", value), field, at, parts)
    pieces = leaf_pieces(value, field, at, kind, places)
    if not is_named(key, in_reply=True):
        pieces.append(Piece(f"{field}#key", "other", key, (), alone=True))
    return pieces


def part_pieces(value: object, field: str, at: At, kind: Kind) -> list[Piece]:
    """Return the texts of parts, all of one kind as one field: a client shows them one after another as they come.

    A part without a number may go on with the one before it, or be a text of its own, as it is in a whole reply.

    Args:
        value: a part, or a list of them.
        field: pointer of the member.
        at: keys from the choice to the value.
        kind: what its texts are.
    """
    pieces: list[Piece] = []
    for leaf in walk_parts(value, kind):
        where = (*at, *leaf.at)
        places = tuple(dict.fromkeys([_point(field, leaf.path), _point(field, leaf.ids)]))
        if leaf.kind is None:
            inside = _point(field, [ENTRY if isinstance(key, int) else key for key in leaf.at[:-1]])
            pieces += member_pieces(str(leaf.at[-1]), leaf.value, inside, where, "other", places)
            continue
        name = field if leaf.kind == kind else f"{field}/{leaf.kind}"
        places = places if leaf.numbered else (f"{name}/{ENTRY}",)
        pieces.append(Piece(name, leaf.kind, str(leaf.value), where, alone=not leaf.numbered, places=places))
    return pieces


def _point(field: str, keys: Iterable[str]) -> str:
    return "/".join([field, *[escape(key) for key in keys]])


def leaf_pieces(value: object, path: str, at: At, kind: Kind, places: tuple[str, ...] = ()) -> list[Piece]:
    """Return the text below a member that is no delta, so that it is read both joined to other frames' and alone.

    Text deep inside an unknown shape has no address and cannot be rewritten.

    Args:
        value: the member's.
        path: pointer of the field.
        at: keys from the choice to the value.
        kind: what its text is.
        places: pointers of the member by number and by id, where it stands in a list.
    """
    if isinstance(value, str):
        return [Piece(path, kind, value, at, alone=True, places=places)] if value else []
    if not isinstance(value, dict | list):
        return []
    found = [
        Piece(leaf, kind, text, (), alone=True, places=named)
        for leaf, text, named in leaves_by_place(cast("object", value), path, places)
        if not (text in _SEVERITIES and leaf.endswith("/severity"))
    ]
    return [*found, *_key_pieces(path, all_keys(cast("object", value)))]


def _key_pieces(path: str, keys: Iterable[str], *, every: bool = False) -> list[Piece]:
    own = [key for key in keys if every or not is_named(key, in_reply=True)]
    return [Piece(path + KEYS, "other", "\n".join(own), (), alone=True)] if own else []
