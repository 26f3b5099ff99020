"""Building blocks of the canonical view, shared by all route families: pointers, leaves, media, tool calls."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from typing import Any, TypeGuard, cast
from urllib.parse import unquote_to_bytes

import orjson

from proxy.wire.forms import fits, is_opaque
from proxy.wire.names import is_named
from proxy.wire.nested import PARTED, name_entry, walk_parts
from supervisors.types import Kind, Media, Role, Segment

_TEXT_MIMES = frozenset({"application/json", "application/xml", "application/csv"})
_CHARSETS = frozenset(
    {"utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso8859-1", "iso8859-15", "cp1252"}
)
"""Encodings read here, by Python's names; text in any other is media, which nobody takes for safe."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
KEYS = "#keys"
"""Suffix of the path of names: keys of what stands there, in a segment that cannot be redacted."""
DATA = "#data"
"""Suffix of the path of text decoded from a data URL: offsets in it are no offsets in the URL."""
ENTRY = "-"
"""In the path of a stream: any entry of a list."""
JOINED = "#joined"
"""Suffix of the path of what several members say one after another, each of which is judged by itself as well."""


def escape(key: str) -> str:
    """Return one JSON Pointer token (RFC 6901); ``#``, which stands before a pointer into a text here, is ``~2``."""
    return key.replace("~", "~0").replace("/", "~1").replace("#", "~2")


def unescape(token: str) -> str:
    """Return the key of a token that `escape` made."""
    return token.replace("~2", "#").replace("~1", "/").replace("~0", "~")


def string_leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield (pointer, text) of every non-empty string leaf below `path`, keys excluded."""
    if isinstance(value, str):
        if value:
            yield path, value
    elif isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield from string_leaves(child, f"{path}/{escape(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[object]", value)):
            yield from string_leaves(child, f"{path}/{index}")


def leaves_by_index(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield (pointer, text) of every non-empty string leaf of part of a stream.

    An element that gives itself an `index` is known by it in every frame, any other by where it stands in its frame.
    """
    if isinstance(value, str):
        if value:
            yield path, value
    elif isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield from leaves_by_index(child, f"{path}/{escape(key)}")
    elif isinstance(value, list):
        for position, child in enumerate(cast("list[object]", value)):
            index = (as_object(child) or {}).get("index")
            yield from leaves_by_index(child, f"{path}/{index if isinstance(index, int) else f'{position}~'}")


def leaves_by_place(
    value: object, path: str, places: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (pointer, text, pointers) of every non-empty string leaf of part of a stream.

    The first pointer is that of all entries of a list, the others know its entries by number and by id.
    """
    if isinstance(value, str):
        if value:
            yield path, value, places
    elif isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            entry = key.isascii() and key.isdecimal()
            inner = [f"{place}/{escape(key)}" for place in places or ((path,) if entry else ())]
            yield from leaves_by_place(child, f"{path}/{ENTRY if entry else escape(key)}", tuple(inner))
    elif isinstance(value, list):
        for position, child in enumerate(cast("list[object]", value)):
            names = name_entry(child, position)
            by_index = [f"{place}/{escape(names.by_number)}" for place in places or (path,)]
            by_id = [f"{place}/{escape(names.by_id)}" for place in places[-1:] or (path,)]
            yield from leaves_by_place(child, f"{path}/{ENTRY}", tuple(dict.fromkeys([*by_index[:1], *by_id])))


def all_keys(value: object) -> Iterator[str]:
    """Yield every key of the objects in `value`."""
    if isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield key
            yield from all_keys(child)
    elif isinstance(value, list):
        for child in cast("list[object]", value):
            yield from all_keys(child)


def is_index(value: object) -> TypeGuard[int]:
    """Say whether a JSON value can be the index of a choice: an integer of at least 0, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_word(value: object, words: Collection[str]) -> bool:
    """Say whether a JSON value is one of these words."""
    return isinstance(value, str) and value in words


class SegmentList:
    """Collect the segments of one message or body in wire order.

    Args:
        role: role of the texts that follow; change it with `speak`.
        turn: turn of the texts that follow.
        choice: reply choice, None on input.
    """

    __slots__ = ("choice", "found", "role", "turn")

    def __init__(self, role: Role = "user", turn: int = 0, choice: int | None = None) -> None:
        self.found: list[Segment] = []
        self.role: Role = role
        self.turn = turn
        self.choice = choice

    def speak(self, role: Role, turn: int) -> None:
        """Set who speaks from here on, and in which turn."""
        self.role = role
        self.turn = turn

    def add(self, path: str, kind: Kind, text: object) -> None:
        """Add a string as one segment; anything that is no string goes in leaf by leaf; empty text is nothing.

        What should be opaque and can be read, or is no string at all, is text like any other: kind ``other``. Where
        running text may stand, the texts of parts are such text, and whatever else is in the parts is ``other``.
        """
        if isinstance(text, str):
            if text:
                read = "other" if kind == "opaque" and not is_opaque(text) else kind
                self.found.append(Segment(path, self.role, read, text, self.turn, self.choice))
        elif kind in PARTED and isinstance(text, list | dict):
            self._add_parts(path, kind, cast("object", text))
        elif text is not None:
            self.add_leaves(path, "other" if kind == "opaque" else kind, text)

    def _add_parts(self, path: str, kind: Kind, value: object) -> None:
        for leaf in walk_parts(value, kind):
            at = path + "".join([f"/{escape(str(key))}" for key in leaf.at])
            if leaf.kind is not None:
                self.found.append(Segment(at, self.role, leaf.kind, str(leaf.value), self.turn, self.choice))
            else:
                self.add_member(at.rpartition("/")[0], str(leaf.at[-1]), "other", leaf.value)

    def add_leaves(self, path: str, kind: Kind, value: object) -> None:
        """Add every string leaf below `path`, and the keys there that no document defines."""
        self.add_keys(path, all_keys(value))
        for leaf_path, text in string_leaves(value, path):
            self.found.append(Segment(leaf_path, self.role, kind, text, self.turn, self.choice))

    def add_member(self, path: str, key: str, kind: Kind, value: object) -> None:
        """Add a member of the object at `path`, and its name unless a document defines it."""
        at = f"{path}/{escape(key)}"
        if not is_named(key, in_reply=self.choice is not None):
            self.found.append(Segment(f"{at}#key", self.role, "other", key, self.turn, self.choice))
        self.add(at, kind, value)

    def add_formed(self, path: str, key: str, value: object) -> None:
        """Add a member that holds no text, such as an id, if it has another form than it should."""
        if not fits(key, value):
            self.add(f"{path}/{escape(key)}", "other", value)

    def add_keys(self, path: str, keys: Iterable[str]) -> None:
        """Add names, those that no document defines, as one segment."""
        in_reply = self.choice is not None
        own = [key for key in keys if not is_named(key, in_reply=in_reply)]
        if own:
            self.found.append(Segment(path + KEYS, self.role, "other", "\n".join(own), self.turn, self.choice))

    def add_url(self, path: str, url: object) -> None:
        """Add a link as kind ``url``; a data URL as decoded text (G-02) or as media."""
        if not isinstance(url, str) or url[:5].lower() != "data:":
            self.add(path, "url", url)
            return
        mime, charset, data = decode_data_url(url)
        text = decode_text(data, charset) if data is not None and is_text(mime) else None
        if text is None:
            self.add_media(path, mime, data)
        else:
            self.add(path + DATA, "text", text)

    def add_media(self, path: str, mime: str, data: bytes | None) -> None:
        """Add something that is not text, or cannot be read as text."""
        media = Media(mime, len(data or b""), sha256(data or b"").hexdigest())
        self.found.append(Segment(path, self.role, "media", "", self.turn, self.choice, media))

    def add_arguments(self, path: str, text: object) -> None:
        """Add the arguments of a tool call: the JSON text as sent, and what each string inside with an escape says.

        Arguments that are no text go in leaf by leaf, and their keys as one segment that cannot be redacted.
        """
        if not isinstance(text, str):
            for leaf_path, leaf in string_leaves(text, path):
                self.add(leaf_path, "tool_args", leaf)
            self.add(path, "tool_args", "\n".join(all_keys(text)))
            return
        self.add(path, "tool_args", text)
        if "\\" in text:
            self._add_escaped(path, text)

    def _add_escaped(self, path: str, text: str) -> None:
        """Add what the strings of a JSON text say that are written with an escape, keys as one segment of names."""
        parsed = _parse(text)
        read = [_parse(written) for written in _STRING.findall(text) if "\\" in written]
        hidden = {decoded for decoded in read if isinstance(decoded, str)}
        leaves = [(inner, leaf) for inner, leaf in string_leaves(parsed, "") if leaf in hidden]
        for inner, leaf in leaves:
            self.add(f"{path}#{inner}", "tool_args", leaf)
        rest = hidden.difference([leaf for _, leaf in leaves])  # keys, values of keys given twice, text that is no JSON
        self.add(path + KEYS, "tool_args", "\n".join(sorted(rest)))


def _parse(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def next_turn(segments: Iterable[Segment]) -> int:
    """Return the turn number of the reply: the last of the request + 1."""
    return max([segment.turn for segment in segments], default=-1) + 1


def decode_data_url(url: str) -> tuple[str, str, bytes | None]:
    """Split a data URL into MIME type, charset and bytes; None when it cannot be decoded."""
    head, _, payload = url[5:].partition(",")
    mime, *options = [part.strip() for part in head.lower().split(";")]
    named = [option.partition("=")[2].strip("'\" ") for option in options if option.startswith("charset=")]
    data = decode_base64(payload) if "base64" in options else unquote_to_bytes(payload)
    return mime or "text/plain", named[0] if named else "utf-8", data


def is_text(mime: str) -> bool:
    """Say whether a MIME type promises text (G-02); drawings in XML are pictures first."""
    if mime.startswith("text/") or mime in _TEXT_MIMES:
        return True
    return mime.endswith(("+json", "+xml")) and not mime.startswith("image/")


def decode_text(data: bytes, charset: str) -> str | None:
    """Return the text that these bytes can be taken for: as declared, and as UTF-8 if that reads differently.

    Returns:
        None when the declared reading fails or holds what text does not.
    """
    try:
        name = codecs.lookup(charset).name
        declared = data.decode(name) if name in _CHARSETS else "\0"
    except (LookupError, ValueError):
        return None
    if "\0" in declared:
        return None
    plain = data.decode("utf-8", "replace")
    if plain == declared or "\0" in plain or "\ufffd" in plain:
        return declared
    return f"{declared}\n{plain}"


def decode_base64(payload: str) -> bytes | None:
    """Decode standard base64; None when it is none."""
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return None


def is_recording(payload: str) -> bool:
    """Say whether a text can be the base64 of sound or pictures: not short, and neither letters nor bytes read."""
    if len(payload) < _SHORTEST_RECORDING or sum(map(payload.count, _LOWER)) > _MOSTLY * len(payload):
        return False
    data = decode_base64(payload)
    if data is None:
        return False
    try:
        return not data.decode("utf-8").replace("\n", " ").isprintable()
    except UnicodeDecodeError:
        return True


_SHORTEST_RECORDING = 40
_MOSTLY = 0.7
_LOWER = "abcdefghijklmnopqrstuvwxyz"
"""In base64 of anything but text, two characters of five are lower-case letters."""


def as_object(value: object) -> dict[str, Any] | None:
    """Return the value if it is a JSON object."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] # JSON


def as_list(value: object) -> list[Any] | None:
    """Return the value if it is a JSON list."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] # JSON
