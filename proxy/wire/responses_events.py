"""Events of a streamed response: what text each adds, repeats or completes. No I/O.

Deltas grow a field. Other events carry objects (parts, items, the whole response) that repeat the text of their
fields: a repeated text that equals what grew is judged already, any other text is new and judged as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import orjson

from proxy.wire.adapter import Chunk, Piece
from proxy.wire.body import is_unsound
from proxy.wire.forms import FORMS, fits
from proxy.wire.logprobs import entry_texts
from proxy.wire.names import is_named
from proxy.wire.responses_items import CALLER_CALLS, add_annotation, add_item, add_part, type_of
from proxy.wire.responses_reply import finish_of, response_segments
from proxy.wire.responses_texts import TEXTS, Text, place_at, place_of, running_texts
from proxy.wire.segments import (
    DATA,
    JOINED,
    KEYS,
    SegmentList,
    all_keys,
    as_list,
    as_object,
    escape,
    is_recording,
    leaves_by_index,
    unescape,
)
from proxy.wire.sse import Frame, only_data
from proxy.wire.turns import Source, Turns
from supervisors.types import Kind, Segment

LIFECYCLE: Final = frozenset(
    [f"response.{word}" for word in ("created", "queued", "in_progress", "completed", "incomplete")]
)
TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
_NAME: Final = re.compile(r"[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){0,8}")
_ANNOTATED: Final = "response.output_text.annotation.added"
_OBJECTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(LIFECYCLE, "response"),
    "response.output_item.added": "item",
    "response.output_item.done": "item",
    "response.content_part.added": "part",
    "response.content_part.done": "part",
    "response.reasoning_summary_part.added": "part",
    "response.reasoning_summary_part.done": "part",
    _ANNOTATED: "annotation",
}
_NUMBERS: Final = frozenset(
    {
        "sequence_number",
        "output_index",
        "content_index",
        "summary_index",
        "annotation_index",
        "command_index",
        "partial_image_index",
    }
)
_PLACES: Final = ("item_id", "output_index", "content_index", "summary_index", "command_index")
_MOST_GIVEN: Final = 4
_GROWING: Final = frozenset({"text", "reasoning", "refusal", "tool_args", "transcript"})


class EventReader:
    """Read the events of one response.

    Args:
        body: the request: what a response repeats from it is no text of the model.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._texts: dict[str, list[str]] = {}
        self._ended: set[str] = set()
        self._given: dict[str, list[str]] = {}
        self._cited: dict[str, dict[str, None]] = {}
        self._turns = Turns()
        self._key: tuple[object, ...] | None = None
        self._field = ""
        self.response: Mapping[str, Any] | None = None

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunk of one event.

        Raises:
            ValueError: the data is no JSON object, or text comes for a field that has ended.
        """
        if not frame.data:
            return (Chunk(frame.raw),)
        if frame.data == b"[DONE]":  # some servers end every stream so; this API does not
            return (Chunk(b"", last=True),)
        parsed: object = orjson.loads(frame.data)
        if not isinstance(parsed, dict):
            msg = f"an event holds {type(parsed).__name__}, not an object"
            raise ValueError(msg)  # noqa: TRY004 - one error for "no frame of this family"
        event = cast("dict[str, Any]", parsed)
        if is_unsound(frame.data, event):
            msg = "an event holds an object with a key given twice, or nested too deeply"
            raise ValueError(msg)
        name = event.get("type") or frame.event
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = "an event has no type that is a name"
            raise ValueError(msg)
        if name in ("error", "response.failed"):  # what a model server says of itself is not for the caller
            return (Chunk(frame.raw, body=event, error=True),)
        text = TEXTS.get(name)
        if text is not None:
            return (self._read_text(only_data(frame, name), event, name, text),)
        return (self._read_object(only_data(frame, name), event, name),)

    def _read_text(self, raw: bytes, event: dict[str, Any], name: str, text: Text) -> Chunk:
        value = event.get(text.key)
        key = text.tell_apart(name, event)
        field = self._field if key == self._key else text.field(event)
        pieces: list[Piece] = []
        if not isinstance(value, str):
            pieces += self._parts(field, text, event, value)
        elif value and text.done:
            pieces += self._repeat(field, text.kind, value, (text.key,))
        elif value and key == self._key:
            pieces += [Piece(one, text.kind, value, ()) for one in self._turns.go_on(value)]
            self._grow(pieces, field, text.kind, value, (text.key,))
        elif value:
            pieces += self._say(field, text, event, value)
            self._key, self._field = (key, field) if text.kind != "media" else (None, "")
        if event.get("logprobs"):  # tokens that are not those of the text are a text of their own
            spelled = entry_texts(event["logprobs"], value)
            pieces += [Piece(f"{field}/logprobs{at}", "other", one, (), alone=True) for at, one in spelled]
        for member, child in _others(event, text.key):
            if member != "logprobs":
                pieces += self._other_pieces(event, name, member, child)
        ends = self._end([field]) if text.done and not text.waits else ()
        return Chunk(raw, 0, tuple(pieces), None, event, ends=ends)

    def _say(self, field: str, text: Text, event: Mapping[str, Any], value: str) -> list[Piece]:
        """Return a delta that does not belong where the last one did."""
        at = (text.key,)
        if text.kind != "media":
            found = self._turns.follow(Source(text.kind, text.kind, field), text.place(event), value, at)
            self._grow(found, field, text.kind, value, at)
            return found
        heard: list[Piece] = []
        self._grow(heard, field, text.kind, value, at)
        if not is_recording(value):  # nobody can hear it, because it reads
            heard.append(Piece(field + DATA, "other", value, (), alone=True))
        return heard

    def _parts(self, field: str, text: Text, event: Mapping[str, Any], value: object) -> list[Piece]:
        """Return what stands where a text should: leaf by leaf, and what may be joined to that text so, too."""
        self._key = None
        pieces = _stray_pieces(value, f"{field}~", (text.key,))
        said = list(running_texts(value, text.kind)) if text.kind != "media" else []
        if text.done:
            whole = "".join([one for kind, one in said if kind == text.kind])
            return [*pieces, *self._repeat(field, text.kind, whole, ())] if whole else pieces
        for kind, one in said:
            own = field if kind == text.kind else f"{field}/{kind}"
            pieces += self._turns.follow(Source(kind, kind, own), text.place(event), one)
            grown: list[Piece] = []
            self._grow(grown, own, kind, one, ())
            pieces += [replace(piece, alone=True) for piece in grown]
        return pieces

    def _other_pieces(self, event: Mapping[str, Any], name: str, key: str, value: object) -> list[Piece]:
        if key == "name" and isinstance(value, str) and value:
            return self._repeat(f"/output/{event.get('output_index', 0)}/name", "name", value, (key,))
        if key == "partial_image_b64" and isinstance(value, str) and value:
            field = f"/output/{event.get('output_index', 0)}/partial_images/{event.get('partial_image_index', 0)}"
            return self._repeat(field, "media", value, (key,))
        field = f"/events/{name}{_place_of(event)}/{escape(key)}"
        pieces: list[Piece] = []
        for piece in _stray_pieces(value, field, (key,)):
            if not piece.field.endswith(KEYS):
                group = f"events/{name}/{escape(key)}{piece.field[len(field) :]}"
                source = Source(group, piece.kind, piece.field, chained=False)
                pieces += self._turns.follow(source, place_of(event), piece.text, piece.at)
                self._key = None
            pieces.append(piece)
        if not is_named(key, in_reply=True):
            pieces.append(Piece(f"{field}#key", "other", key, (), alone=True))
        return pieces

    def _read_object(self, raw: bytes, event: dict[str, Any], name: str) -> Chunk:
        holder = _OBJECTS.get(name)
        pieces: list[Piece] = []
        value = event.get(holder) if holder is not None else None
        found = as_object(value)
        if holder is not None and found is not None:
            base, segments = self._segments(name, event, found)
            for one in segments:
                pieces += [] if _is_inside(one) else self._piece(holder, found, base, one)
        ends = self._end(_complete(name, found or {}, pieces))
        if name == _ANNOTATED and found is not None:
            pieces += self._cite(_part_at(event), pieces)
        for key, child in _others(event, holder if found is not None else None):
            pieces += self._other_pieces(event, name, key, child)
        if holder != "response":
            return Chunk(raw, 0, tuple(pieces), None, event, ends=ends)
        self.response = found or self.response
        finish = finish_of(found or {}) if name in TERMINAL else None
        usage = as_object((found or {}).get("usage"))
        return Chunk(raw, 0, tuple(pieces), finish, event, name in TERMINAL, usage, ends=ends)

    def _segments(
        self, name: str, event: Mapping[str, Any], value: Mapping[str, Any]
    ) -> tuple[str, tuple[Segment, ...]]:
        """Return where the object of an event stands in the response, and its segments."""
        if name in LIFECYCLE:
            return "", response_segments(value, 0, self._body)
        segments = SegmentList("assistant", 0, 0)
        base = f"/output/{event.get('output_index', 0)}"
        if name.startswith("response.output_item."):
            add_item(segments, value, base)
        elif name.startswith("response.reasoning_summary_part."):
            base = f"{base}/summary/{event.get('summary_index', 0)}"
            add_part(segments, value, base, "reasoning")
        else:
            base = f"{base}/content/{event.get('content_index', 0)}"
            if name.startswith("response.content_part."):
                add_part(segments, value, base)
            else:
                base = f"{base}/annotations/{event.get('annotation_index', 0)}"
                add_annotation(segments, value, base)
        return base, tuple(segments.found)

    def _piece(self, holder: str, value: Mapping[str, Any], base: str, segment: Segment) -> list[Piece]:
        keys, leaf = _walk(value, segment.path.removesuffix(DATA).removesuffix(KEYS)[len(base) :])
        text = leaf if segment.kind == "media" and isinstance(leaf, str) else segment.text
        at: tuple[str | int, ...] = (holder, *keys) if leaf == text else ()
        return self._repeat(segment.path, segment.kind, text, at)

    def _grow(self, pieces: list[Piece], field: str, kind: Kind, text: str, at: tuple[str | int, ...]) -> None:
        """Add a delta, which goes on behind what came before and behind what was given as the text so far."""
        if field in self._ended:
            msg = f"text comes for {field} after its end"
            raise ValueError(msg)
        self._texts.setdefault(field, []).append(text)
        pieces.append(Piece(field, kind, text, at))
        if self._given:
            for given in self._given.get(field, ()):
                self._texts[given].append(text)
                pieces.append(Piece(given, kind, text, ()))

    def _repeat(self, field: str, kind: Kind, text: str, at: tuple[str | int, ...]) -> list[Piece]:
        """Return a text given as a whole: a repetition, the first text of its field, or a field of its own.

        It stands by itself where it is given, whatever comes behind it: so it is judged as it is, too.

        Raises:
            ValueError: the text so far is given in more ways than anybody can follow.
        """
        first = field
        while (parts := self._texts.get(field)) is not None:
            known = "".join(parts)
            self._texts[field] = [known]
            if known == text:
                return [Piece(field, kind, text, at, repeats=True, alone=True)]
            field = f"{field}~"
        self._texts[field] = [text]
        begun = [Piece(field, kind, text, at, alone=True)]
        if kind not in _GROWING:
            return begun
        if field == first:
            self._key = None
            return [*self._turns.follow(Source(kind, kind, field), place_at(field), text, at), *begun]
        if first not in self._ended:
            given = self._given.setdefault(first, [])
            given.append(field)
            if len(given) > _MOST_GIVEN:
                msg = f"the text of {first} is given in more than {_MOST_GIVEN} other ways before its end"
                raise ValueError(msg)
        return begun

    def _cite(self, part: str, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the texts of a citation once more: what each member of all those of a part says, one by one.

        Args:
            part: pointer of the part, whose end is theirs: another may come until then, and go on.
            pieces: its texts.
        """
        said = [(f"{part}/annotations/{_member_of(one.field)}{JOINED}", one.text) for one in pieces if _is_cited(one)]
        self._cited.setdefault(part, {}).update(dict.fromkeys([name for name, _ in said]))
        return [Piece(name, "annotation", text, (), alone=True) for name, text in said]

    def _end(self, fields: list[str]) -> tuple[str, ...]:
        self._ended.update(fields)
        if not self._cited:
            return tuple(fields)
        parts = dict.fromkeys([field.rpartition("/")[0] for field in fields])
        return (*fields, *[name for part in parts for name in self._cited.pop(part, ())])


def _part_at(event: Mapping[str, Any]) -> str:
    """Return the pointer of the content part that an event is about."""
    return f"/output/{event.get('output_index', 0)}/content/{event.get('content_index', 0)}"


def _is_cited(piece: Piece) -> bool:
    return piece.kind == "annotation"


def _member_of(field: str) -> str:
    """Return the name of the member of a citation, whatever its number is."""
    return field.partition("/annotations/")[2].partition("/")[2].rstrip("~")


def _stray_pieces(value: object, field: str, at: tuple[str | int, ...]) -> list[Piece]:
    """Return the text of a member nobody knows: joined to that of events of the same kind and place, and alone."""
    if isinstance(value, str):
        return [Piece(field, "other", value, at, alone=True)] if value else []
    found = [Piece(path, "other", text, (), alone=True) for path, text in leaves_by_index(value, field)]
    keys = [key for key in all_keys(value) if not is_named(key, in_reply=True)]
    return [*found, Piece(field + KEYS, "other", "\n".join(keys), (), alone=True)] if keys else found


def _place_of(event: Mapping[str, Any]) -> str:
    """Return a pointer's middle that says which item and part an event is about."""
    return "".join([f"/{key}={escape(str(event[key]))}" for key in _PLACES if isinstance(event.get(key), str | int)])


def _others(event: Mapping[str, Any], read: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the members of an event that are neither structure nor read already.

    Raises:
        ValueError: a number is none: nobody would judge what stands there instead.
    """
    for key, value in event.items():
        if key in _NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool):
                msg = f"{key} of an event is {type(value).__name__}, not a number"
                raise ValueError(msg)
        elif key not in ("type", read) and not (key in FORMS and fits(key, value)):
            yield key, value


def _is_inside(segment: Segment) -> bool:
    """Say whether a segment is a string inside arguments: the gate reads those itself, from what has grown."""
    return segment.kind == "tool_args" and "#" in segment.path


def _complete(name: str, value: Mapping[str, Any], pieces: list[Piece]) -> list[str]:
    """Return which fields of an event's object are complete with it."""
    if name in LIFECYCLE:
        return [piece.field for piece in pieces if not piece.field.startswith("/output/")]
    if name.startswith("response.output_item."):
        if type_of(value) in CALLER_CALLS:
            return []
        whole = name.endswith(".done")
        return [piece.field for piece in pieces if whole or piece.kind not in _GROWING]
    if name.endswith(".done") or name == _ANNOTATED:
        return [piece.field for piece in pieces]
    return []


def _walk(value: object, pointer: str) -> tuple[tuple[str | int, ...], object]:
    """Follow a pointer and return its keys and the leaf, None where it leads nowhere."""
    return _follow(value, iter([unescape(token) for token in pointer.split("/")[1:]]))


def _follow(value: object, tokens: Iterator[str]) -> tuple[tuple[str | int, ...], object]:
    keys: list[str | int] = []
    at = value
    for token in tokens:
        listed = as_list(at)
        if listed is not None:
            keys.append(int(token))
            at = listed[int(token)]
        else:
            keys.append(token)
            at = (as_object(at) or {}).get(token)
    return tuple(keys), at
