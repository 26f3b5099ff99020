"""Where the bytes of a stream go in tests, in place of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from proxy.wire.sse import SseParser


@dataclass(slots=True)
class Sink:
    """Keep what was written, piece by piece."""

    parts: list[bytes] = field(default_factory=list[bytes])

    @property
    def started(self) -> bool:
        """Say whether anything has left."""
        return bool(self.parts)

    async def write(self, data: bytes) -> None:
        """Take a piece."""
        self.parts.append(data)

    @property
    def sent(self) -> bytes:
        """Return everything that has left."""
        return b"".join(self.parts)

    @property
    def frames(self) -> list[Any]:
        """Return the data of its events, parsed; the end mark of OpenAI's streams is a string."""
        found = [frame.data for frame in SseParser().feed(self.sent) if frame.data]
        return [data.decode() if data == b"[DONE]" else orjson.loads(data) for data in found]
