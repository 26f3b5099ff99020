"""Building blocks of the canonical view, shared by all route families: pointers, leaves, media, tool calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import orjson

from supervisors.types import Kind, Media, Role, Segment

_TEXT_MIMES = ("text/", "application/json", "application/xml", "application/csv")


def escape(key: str) -> str:
    """Return one JSON Pointer token (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


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
        """Add a string as one segment; anything that is no string goes in leaf by leaf; empty text is nothing."""
        if isinstance(text, str):
            if text:
                self.found.append(Segment(path, self.role, kind, text, self.turn, self.choice))
        elif text is not None:
            self.add_leaves(path, kind, text)

    def add_leaves(self, path: str, kind: Kind, value: object) -> None:
        """Add every string leaf below `path`."""
        for leaf_path, text in string_leaves(value, path):
            self.found.append(Segment(leaf_path, self.role, kind, text, self.turn, self.choice))

    def add_url(self, path: str, url: object) -> None:
        """Add a link as kind ``url``; a data URL as decoded text (G-02) or as media."""
        if not isinstance(url, str) or not url.startswith("data:"):
            self.add(path, "url", url)
            return
        mime, data = decode_data_url(url)
        self.add_bytes(path, mime, data)

    def add_bytes(self, path: str, mime: str, data: bytes | None) -> None:
        """Add the content of a file part: text MIME types are judged as text, the rest is media.

        The path of decoded text leads inside the string it was decoded from, where nothing can be redacted.
        """
        if data is not None and mime.startswith(_TEXT_MIMES):
            self.add(f"{path}#data", "text", data.decode("utf-8", "replace"))
            return
        media = Media(mime, len(data or b""), sha256(data or b"").hexdigest())
        self.found.append(Segment(path, self.role, "media", "", self.turn, self.choice, media))

    def add_arguments(self, path: str, text: object) -> None:
        """Add the arguments of a tool call: the JSON text as sent, and each string inside that hides an escape."""
        self.add(path, "tool_args", text)
        if isinstance(text, str) and "\\" in text:
            try:
                parsed: object = orjson.loads(text)
            except orjson.JSONDecodeError:
                return
            for inner, leaf in string_leaves(parsed, ""):
                if leaf not in text:
                    self.add(f"{path}#{inner}", "tool_args", leaf)


def next_turn(segments: Iterable[Segment]) -> int:
    """Return the turn number of the reply: the last of the request + 1."""
    return max([segment.turn for segment in segments], default=-1) + 1


def decode_data_url(url: str) -> tuple[str, bytes | None]:
    """Split a data URL into MIME type and bytes; None when it cannot be decoded."""
    head, _, payload = url[5:].partition(",")
    mime = head.split(";", 1)[0].strip().lower() or "text/plain"
    if not head.endswith(";base64"):
        return mime, unquote_to_bytes(payload)
    return mime, decode_base64(payload)


def decode_base64(payload: str) -> bytes | None:
    """Decode standard base64; None when it is none."""
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return None


def as_object(value: object) -> dict[str, Any] | None:
    """Return the value if it is a JSON object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Return the value if it is a JSON list."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] # JSON
