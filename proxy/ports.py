"""What the line of a request is given: the model, the way back, the sinks. It knows nothing else of the world."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from proxy.call import Call, Progress
from proxy.headers import Expose, Header
from proxy.plan import StagePlan
from supervisors.light import light_dataclass
from supervisors.types import Context

CallerHeaders = tuple[tuple[str, str], ...]


class Reply(Protocol):
    """A whole reply of a model server."""

    @property
    def status(self) -> int:
        """HTTP status, 2xx."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Headers that may be passed on."""
        ...

    @property
    def body(self) -> bytes:
        """The body, decoded."""
        ...

    @property
    def attempts(self) -> int:
        """How often the server was asked."""
        ...


class ReplyStream(Protocol):
    """A streamed reply of a model server."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Headers that may be passed on."""
        ...

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they come."""
        ...

    @property
    def attempts(self) -> int:
        """How often the server was asked until the stream began."""
        ...


class Model(Protocol):
    """A model server as the pipeline sees it."""

    async def complete(self, path: str, body: bytes, headers: CallerHeaders) -> Reply:
        """Send a request and return the whole reply; raise `UpstreamError`."""
        ...

    def stream(self, path: str, body: bytes, headers: CallerHeaders) -> AbstractAsyncContextManager[ReplyStream]:
        """Send a request and stream the reply; raise `UpstreamError`."""
        ...


class ClientGone(Exception):
    """The caller closed the connection."""


class Responder(Protocol):
    """The way back to the caller."""

    @property
    def prompt(self) -> bool:
        """Say whether a whole answer would leave without waiting for anything."""
        ...

    @property
    def gone(self) -> bool:
        """Say whether the caller is known to have left."""
        ...

    async def reply(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer."""
        ...

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        """Send status and headers of a stream."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes of a stream; raise `ClientGone` when the caller is known to have left."""
        ...

    async def end(self) -> None:
        """End a stream cleanly."""
        ...

    async def watch(self) -> None:
        """Wait until the caller leaves, then raise `ClientGone`."""
        ...


class Sinks(Protocol):
    """Where the facts of an exchange go."""

    def ready(self) -> bool:
        """Say whether a record would be accepted now."""
        ...

    def reserve(self) -> bool:
        """Take the place of a record that is still to come, which `finish` fills; false where it may be lost.

        Raises `RequestError` when there is none: what cannot be recorded must not take place.
        """
        ...

    def begin(self, call: Call, progress: Progress) -> Awaitable[None] | None:
        """Note that text of a stream is about to leave; raise `RequestError` where its record has no place.

        Where the note must be on disk first, return what to await.
        """
        ...

    def finish(self, call: Call, progress: Progress) -> None:
        """Record, count, and hand over to shadow supervisors; raise `StoreError` when the record is refused."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What the line needs to know of the config.

    Args:
        expose: how much of a verdict a caller may see.
        request_timeout_s: deadline of the whole exchange.
        open_contexts: makes, for one exchange, the function that opens the context of a stage.
    """

    expose: Expose
    request_timeout_s: float
    open_contexts: Callable[[], Callable[[StagePlan], Context]]


@light_dataclass(frozen=True, slots=True)
class Answer:
    """A finished whole answer, to be sent once its record is accepted."""

    status: int
    headers: list[Header]
    body: bytes
