"""A model server that speaks chat completions, as one that speaks Anthropic Messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from proxy.beside import BEHIND_S, MOST_BEHIND
from proxy.ports import CallerHeaders, Model, Reply, ReplyStream
from proxy.upstream_errors import protocol_error
from proxy.wire.body import load_exactly
from proxy.wire.messages_translate import to_chat, to_message
from proxy.wire.messages_translate_stream import ChatToMessages
from proxy.wire.segments import as_object
from supervisors.errors import UpstreamError

_CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Translated:
    """A reply in the words of Anthropic Messages; the line judges it in this form (S-11c)."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class TranslatedStream:
    """A streamed reply in the words of Anthropic Messages."""

    headers: Sequence[tuple[str, str]]
    chunks: AsyncIterator[bytes]
    attempts: int = 1


class ChatBacked:
    """Serve Messages with a model behind chat completions.

    Args:
        model: the model server.
        patience_s: how long a message whose model has finished waits for the token counts, which its end carries, while
            its server sends nothing but comments or empty deltas; twice as long where half a frame has come, six times
            where text has come behind its reason to stop. One that is silent has its `idle_timeout_s`.
    """

    def __init__(self, model: Model, patience_s: float = 5.0) -> None:
        self._model = model
        self._patience_s = patience_s

    async def complete(self, path: str, body: bytes, headers: CallerHeaders) -> Reply:
        """Ask for a whole reply and translate it.

        Raises:
            RequestError: 400 for what chat completions cannot express.
            UpstreamError: as the model server's own, and for a reply that cannot be translated.
        """
        reply = await self._model.complete(_CHAT, _to_chat(body), headers)
        try:
            message = to_message(as_object(orjson.loads(reply.body)) or {})
        except ValueError as error:
            raise _unreadable() from error
        return Translated(reply.status, reply.headers, orjson.dumps(message), reply.attempts)

    @asynccontextmanager
    async def stream(self, path: str, body: bytes, headers: CallerHeaders) -> AsyncGenerator[ReplyStream]:
        """Ask for a streamed reply and translate it as it comes; errors as `complete`."""
        async with self._model.stream(_CHAT, _to_chat(body), headers) as reply:
            yield TranslatedStream(reply.headers, _translate(reply.chunks, self._patience_s), reply.attempts)


async def _translate(chunks: AsyncIterator[bytes], patience_s: float) -> AsyncGenerator[bytes]:
    translator = ChatToMessages()
    now = asyncio.get_running_loop().time
    since: float | None = None
    data: bytes | None = b""
    try:
        while not translator.ended and (data := await anext(chunks, None)) is not None:
            said = translator.said
            events = translator.feed(data)
            if events:
                yield events
            if translator.said != said or not translator.finished:
                since = None
            elif since is None:
                since = now()
            elif now() - since > patience_s * (6 if translator.doubted else 2 if translator.partial else 1):
                break  # it sends, and says nothing
        yield translator.close(ended=data is None)
        until, left = now() + BEHIND_S, MOST_BEHIND  # read what is left: the connection can serve again
        while left >= 0 and (data := await _next(chunks, until)) is not None:
            left -= len(data)
    except ValueError as error:
        raise _unreadable() from error


async def _next(chunks: AsyncIterator[bytes], until: float) -> bytes | None:
    """Return what comes next; None at the end, and when the time is over."""
    try:
        async with asyncio.timeout_at(until):
            return await anext(chunks, None)
    except TimeoutError:
        return None


def _to_chat(body: bytes) -> bytes:
    return orjson.dumps(to_chat(cast("dict[str, Any]", load_exactly(body))))


def _unreadable() -> UpstreamError:
    return protocol_error("the model server's reply cannot be put into the form of this route")
