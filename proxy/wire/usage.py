"""Usage of streams whose callers did not ask for it: asked of the upstream, kept for the record, hidden again (W-04).

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from proxy.wire.adapter import Chunk, Frames
from proxy.wire.segments import as_object
from proxy.wire.sse import Frame, data_frame

USAGE_ROUTES: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Routes whose streams tell their usage when `stream_options.include_usage` says so."""
_NULL: Final = b',"usage":null'


def ask_usage(body: dict[str, Any]) -> bool:
    """Ask for usage in the body of a stream, and say whether the caller must not see it."""
    options = body.get("stream_options")
    if options is None:
        body["stream_options"] = {"include_usage": True}
        return True
    known = as_object(options)
    if known is None or known.get("include_usage") not in (None, False):
        return False  # the caller asked itself, or sent something that the upstream has to judge
    body["stream_options"] = {**known, "include_usage": True}
    return True


class HiddenUsage:
    """Frames without the usage that only we asked for.

    Args:
        frames: of the reply.
    """

    __slots__ = ("_frames", "empty", "error", "forward", "is_bare", "notice", "path")

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.path = frames.path
        self.forward = frames.forward
        self.notice = frames.notice
        self.empty = frames.empty
        self.is_bare = frames.is_bare
        self.error = frames.error

    @property
    def model(self) -> str | None:
        """Model as the upstream names it."""
        return self._frames.model

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunks of one frame, their usage beside them and no longer in them."""
        return tuple([_hide(chunk) for chunk in self._frames.read(frame)])

    def moderation(self, member: Mapping[str, Any]) -> bytes:
        """Return the frame that answers the `moderation` field."""
        made: bytes = getattr(self._frames, "moderation")(member)  # noqa: B009 - a family with the field has it
        return made


def _hide(chunk: Chunk) -> Chunk:
    body = chunk.body
    if body is None or "usage" not in body:
        return chunk
    if not body.get("choices") and not chunk.pieces and not chunk.error:
        return replace(chunk, raw=b"", choice=None, body=None)
    shown = {key: value for key, value in body.items() if key != "usage"}
    plain = body["usage"] is None and chunk.raw.count(b'"usage"') == 1 and _NULL in chunk.raw
    raw = chunk.raw.replace(_NULL, b"") if plain else data_frame(shown)
    return replace(chunk, raw=raw, body=shown)
