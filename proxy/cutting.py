"""Cut the bytes of a stream into what its frames say, up to its end: for the caller nothing comes behind that.

SDKs read on behind the last event of a response or message, until the connection closes, and show what comes. It would
be judged without what has left before it; so nothing of it goes on, whatever it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from proxy.beside import BEHIND_S, MOST_BEHIND
from proxy.wire.adapter import Chunk, Frames
from proxy.wire.sse import Frame, SseParser
from supervisors.errors import UpstreamError


class BadStream(ValueError):
    """The upstream's stream is not made of events of this family."""

    kind: Final = "protocol"
    """As the record says it."""


class Cutter:
    """Cut the bytes of one stream.

    Args:
        frames: of this reply.
        stops: at its end; else whatever comes is read, because it leaves as it comes.
    """

    __slots__ = ("_frames", "_parser", "_stops", "behind", "over")

    def __init__(self, frames: Frames, *, stops: bool) -> None:
        self._frames = frames
        self._stops = stops
        self._parser = SseParser()
        self.over = False
        """The stream has ended."""
        self.behind = False
        """Something came behind its end."""

    def cut(self, data: bytes | None) -> list[Chunk]:
        """Return the chunks that these bytes complete, or those that are left when there are no more bytes.

        Raises:
            BadStream: they are no event of this family; behind the end nobody asks.
        """
        chunks: list[Chunk] = []
        try:
            for frame in self._parser.close() if data is None else self._parser.feed(data):
                if self.over:
                    self.behind = self.behind or _says(frame)
                    continue
                read = self._frames.read(frame)
                chunks += read
                self.over = self._stops and read[-1].last
        except ValueError as error:
            if self.over:
                self.behind = True
                return chunks
            msg = "the model server sent something that is no event of this route"
            raise BadStream(msg) from error
        return chunks


async def drain(cutter: Cutter, chunks: AsyncIterator[bytes]) -> str | None:
    """Read for a moment what is behind the end, so that the connection can serve again; nobody is sent it.

    Returns:
        What was wrong behind the end, as the record says it; None when nothing was.
    """
    left = MOST_BEHIND
    try:
        async with asyncio.timeout(BEHIND_S):
            async for data in chunks:
                cutter.cut(data)
                left -= len(data)
                if left < 0:
                    break
        cutter.cut(None)
    except TimeoutError:
        pass  # the connection is closed with the call
    except UpstreamError as error:
        return error.kind
    return "protocol" if cutter.behind else None


def _says(frame: Frame) -> bool:
    """Say whether a frame is more than a comment or one more end."""
    return frame.data not in (b"", b"[DONE]")
