"""What the pipeline needs to know of a route family, as values and one protocol.

The pipeline and the stream gate speak only this; each family has one implementation beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from proxy.wire.errors import ErrorReply, RequestError
from proxy.wire.segments import as_list, as_object
from proxy.wire.sse import Frame
from supervisors.light import light_dataclass
from supervisors.types import Kind, Segment, Span

EMBEDDINGS_ROUTE: Final = "/v1/embeddings"
MODERATIONS_ROUTE: Final = "/v1/moderations"
INPUT_ONLY: Final = frozenset({EMBEDDINGS_ROUTE, MODERATIONS_ROUTE})
"""Routes without an output stage: never streamed, and a blocked input is always an error."""


@light_dataclass(frozen=True, slots=True)
class Piece:
    """Text that one frame adds to one field of one choice.

    Args:
        field: JSON Pointer of the field in the whole reply's choice, e.g. ``/message/content``.
        kind: what the field is.
        text: exact text, appended to what came before.
        at: keys from the frame's choice object to the string, for a rewrite.
        signed: a signature covers the text, so that it can be left out but not changed (W-32).
        alone: no delta by any document: a reader may join it to what came before, or take it for a text of its own.
        repeats: the whole text of the field once more: nothing new to judge, but a redaction must reach it.
        places: fields of the part that it stands in, where `field` is all of them as they come: by number, by id.
        copies: the field whose text so far this piece is, as the beginning of another reading of it.
    """

    field: str
    kind: Kind
    text: str
    at: tuple[str | int, ...]
    repeats: bool = False
    signed: bool = False
    alone: bool = False
    places: tuple[str, ...] = ()
    copies: str = ""


@light_dataclass(frozen=True, slots=True)
class Chunk:
    """One frame's share of one choice.

    Args:
        raw: bytes to forward when nothing is rewritten.
        choice: choice index; None for frames that belong to no choice.
        pieces: text added.
        finish: finish reason, None while the choice is open.
        body: parsed frame, for rewrites and for the head; None for comments and terminators.
        last: the stream's own terminator.
        usage: usage as reported in this frame.
        error: the upstream reported an error in the stream.
        ends: fields that are complete with this chunk, so that what follows them need not wait for the final verdict.
        part: names the part of the reply that this chunk belongs to, where replies have parts that may be left out.
    """

    raw: bytes
    choice: int | None = None
    pieces: tuple[Piece, ...] = ()
    finish: str | None = None
    body: Mapping[str, Any] | None = None
    last: bool = False
    usage: Mapping[str, Any] | None = None
    error: bool = False
    ends: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """Members that all frames of a reply share: copied from the first frame, invented when we speak first."""

    members: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Notice:
    """The refusal sentence and where it may stand.

    Args:
        text: the sentence.
        only_refusal: the caller will parse the content as JSON, so the sentence stands in `refusal` only (W-22).
        members: of the request, that a reply of this family repeats.
    """

    text: str
    only_refusal: bool = False
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Frames(Protocol):
    """The frames of one streamed reply: it reads the upstream's and writes every one that reaches the caller.

    What a family must remember between frames (shared members, numbers, open items) is kept here, one object a reply.
    """

    @property
    def model(self) -> str | None:
        """Model as the upstream names it, None until it has."""
        ...

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunks of one frame, split by choice; raise `ValueError` when it is no frame of this family."""
        ...

    def path(self, choice: int, field: str) -> str:
        """Return the JSON Pointer of a field in the whole reply."""
        ...

    def forward(self, chunk: Chunk, texts: Sequence[str] | None = None) -> bytes:
        """Return a chunk as it leaves now: as it came, or with the texts of its pieces replaced, in order."""
        ...

    def is_bare(self, chunk: Chunk) -> bool:
        """Say whether a chunk of a choice that has begun would say nothing if its pieces were empty."""
        ...

    def notice(self, choice: int, notice: Notice, *, released: bool) -> bytes:
        """Return what closes a blocked choice: the notice and the finish.

        Args:
            choice: the blocked one.
            notice: the refusal sentence.
            released: frames of this choice have left.
        """
        ...

    def empty(self) -> bytes:
        """Return a valid frame without content, for heartbeats (W-28)."""
        ...

    def error(self, error: RequestError) -> bytes:
        """Return the frame that reports an error after the first byte (W-06)."""
        ...


def is_bare(value: object, kept: Collection[tuple[str | int, ...]], at: tuple[str | int, ...] = ()) -> bool:
    """Say whether a tree holds nothing but texts at the places of pieces, positions, nulls, and repeated words.

    Args:
        value: part of a frame.
        kept: places of the pieces.
        at: place of the value.
    """
    if at in kept or value is None or value == "" or (at and at[-1] in _STRUCTURE):
        return True
    mapping, items = as_object(value), as_list(value)
    if mapping is not None:
        return all(is_bare(child, kept, (*at, key)) for key, child in mapping.items())
    return items is not None and all(is_bare(child, kept, (*at, place)) for place, child in enumerate(items))


_STRUCTURE: Final = frozenset({"index", "role", "logprobs", "type"})
"""Members of a delta that say where it belongs, or what a choice that has begun has said before."""


@runtime_checkable
class Moderated(Protocol):
    """Frames that can carry the answer to the `moderation` field."""

    def moderation(self, member: Mapping[str, Any]) -> bytes:
        """Return the frame that stands after all finish frames and before the usage (wire §10)."""
        ...


@runtime_checkable
class Closing(Protocol):
    """Frames whose last event holds the whole reply, with room for members of ours."""

    def close_with(self, members: Callable[[], Mapping[str, Any]]) -> None:
        """Put these members into the reply object of the last event; they are asked for when it leaves."""
        ...


class Adapter(Protocol):
    """One route family."""

    @property
    def route(self) -> str:
        """Route template, e.g. ``/v1/chat/completions``."""
        ...

    @property
    def upstream_path(self) -> str:
        """Route below an upstream's base URL, e.g. ``/chat/completions``."""
        ...

    @property
    def param(self) -> str:
        """Field named in the error of a blocked input."""
        ...

    @property
    def terminator(self) -> bytes:
        """Bytes that end a stream which did not end in an error; none where the last event of the upstream does."""
        ...

    @property
    def judges_numbers(self) -> bool:
        """Say whether replies hold values, not texts, that are judged as they are written: the inputs of tools."""
        ...

    def request_segments(self, body: Mapping[str, Any]) -> tuple[Segment, ...]:
        """Return the canonical view of a request; raise `RequestError` on wrong types."""
        ...

    def unseen_history(self, body: Mapping[str, Any]) -> bool:
        """Say whether the model will see older content that lives at the provider only (W-20)."""
        ...

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return how many choices the caller asked for; raise `RequestError` on a wrong value."""
        ...

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice in the form this request can take."""
        ...

    def reply_segments(
        self, reply: Mapping[str, Any], turn: int, body: Mapping[str, Any]
    ) -> dict[int, tuple[Segment, ...]]:
        """Return the canonical view of each choice; raise `ValueError` on a reply of another shape.

        Args:
            reply: the upstream's reply.
            turn: turn number of the reply.
            body: the request, as the upstream got it: what a reply repeats from it is no text of the model.
        """
        ...

    def finish_reasons(self, reply: Mapping[str, Any]) -> dict[int, str | None]:
        """Return the finish reason of each choice, by its index."""
        ...

    def block_choices(self, reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
        """Replace the content of the blocked choices by the notice, in place."""
        ...

    def mask_logprobs(self, reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
        """Drop the log-probabilities of the choice's tokens that overlap a redacted span (W-09), in place."""
        ...

    def refusal_reply(self, head: Head, count: int, notice: Notice) -> dict[str, Any]:
        """Return a whole reply that holds only the notice."""
        ...

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return a head for a reply that the upstream did not begin."""
        ...

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> Frames:
        """Return the frames of one streamed reply.

        Args:
            head: for a reply that the upstream did not begin.
            body: the request, as the upstream got it.
        """
        ...

    def error_reply(self, error: RequestError, request_id: str) -> ErrorReply:
        """Return the whole error answer in this family's form (wire §4)."""
        ...
