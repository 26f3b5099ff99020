"""Server-sent events: an incremental parser and the few frames the proxy writes itself (wire §6).

Source of the grammar: HTML standard, "Server-sent events", event stream interpretation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

DONE: Final = b"data: [DONE]\n\n"
COMMENT: Final = b": keep-alive\n\n"
_BOM: Final = b"\xef\xbb\xbf"


class FrameTooLarge(ValueError):
    """A frame grew beyond the limit."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it came.

    Args:
        raw: bytes to forward when nothing in the frame was rewritten, blank line included.
        data: joined `data:` lines, empty for comments.
        event: value of the last `event:` line, empty when absent.
    """

    raw: bytes
    data: bytes
    event: str = ""


class SseParser:
    """Cut a byte stream into frames at blank lines, wherever the network splits it.

    Args:
        max_frame_bytes: a longer frame raises `FrameTooLarge`.
    """

    __slots__ = ("_buffer", "_max", "_started")

    def __init__(self, max_frame_bytes: int = 8 * 1024 * 1024) -> None:
        self._buffer = b""
        self._max = max_frame_bytes
        self._started = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames completed by this chunk.

        Raises:
            FrameTooLarge: a frame is longer than the limit.
        """
        buffer = self._buffer + chunk if self._buffer else chunk
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._buffer = buffer
                return []
            self._started = True
            buffer = buffer.removeprefix(_BOM)
        if b"\r" in buffer:
            return self._feed_with_returns(buffer)
        return self._cut(buffer)

    @property
    def partial(self) -> bool:
        """Say whether a part of a frame has come."""
        return bool(self._buffer)

    def close(self) -> list[Frame]:
        """Return the last frame if the stream ended without its blank line."""
        rest, self._buffer = self._buffer, b""
        rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return [_parse(rest + b"\n\n")] if rest.strip() else []

    def _feed_with_returns(self, buffer: bytes) -> list[Frame]:
        held = b"\r" if buffer.endswith(b"\r") else b""
        body = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        frames = self._cut(body)
        self._buffer += held
        return frames

    def _cut(self, buffer: bytes) -> list[Frame]:
        frames: list[Frame] = []
        start = 0
        while (end := buffer.find(b"\n\n", start)) >= 0:
            frames.append(_parse(buffer[start : end + 2]))
            start = end + 2
        self._buffer = buffer[start:] if start else buffer
        if len(self._buffer) > self._max:
            msg = f"a frame of the stream is longer than {self._max} bytes"
            raise FrameTooLarge(msg)
        return frames


def _parse(raw: bytes) -> Frame:
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2:
        return Frame(raw, raw[6:-2])
    data: list[bytes] = []
    event = ""
    for line in raw.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return Frame(raw, b"\n".join(data), event)


def only_data(frame: Frame, name: str, *, named: bool = False) -> bytes:
    """Return the frame without anything but its name and data: comments and ids are nobody's text.

    Args:
        frame: with data.
        name: of its event.
        named: give it a name if it has none.
    """
    extra = len(frame.raw) - len(frame.data) - len(b"data: \n\n")
    if (extra == 0 and not named) or (extra == len(name) + len(b"event: \n") and frame.event == name):
        return frame.raw
    return b"event: " + name.encode() + b"\ndata: " + frame.data.replace(b"\n", b" ") + b"\n\n"


def event_frame(name: str, value: object) -> bytes:
    """Return one named event holding JSON."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"


def data_frame(value: object) -> bytes:
    """Return one `data:` frame holding JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"
