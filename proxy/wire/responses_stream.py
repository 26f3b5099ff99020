"""Streamed responses: events as they leave, numbered without gaps, and the events the proxy writes itself. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from proxy.wire.adapter import Chunk, Head, Notice
from proxy.wire.errors import RequestError
from proxy.wire.responses_events import TERMINAL, EventReader
from proxy.wire.responses_open import Event, OpenItem, Sent
from proxy.wire.responses_reply import incomplete, notice_message, notice_parts, repeat_request, without_texts
from proxy.wire.segments import as_object
from proxy.wire.sse import Frame, event_frame


class ResponsesFrames:
    """The frames of one streamed response.

    Args:
        head: for a response that the upstream did not begin.
        body: the request, as the upstream got it.
    """

    def __init__(self, head: Head, body: Mapping[str, Any]) -> None:
        self._head = head
        self._repeated = repeat_request(body)
        self._reader = EventReader(body)
        self._sent = Sent()
        self._next = 0
        self._begun = False
        self._closing: Callable[[], Mapping[str, Any]] | None = None

    @property
    def model(self) -> str | None:
        """Return the model as the upstream names it."""
        model = (self._reader.response or {}).get("model")
        return model if isinstance(model, str) else None

    def close_with(self, members: Callable[[], Mapping[str, Any]]) -> None:
        """Put these members into the response object of the last event."""
        self._closing = members

    def read(self, frame: Frame) -> tuple[Chunk, ...]:
        """Return the chunk of one event."""
        return self._reader.read(frame)

    def path(self, choice: int, field: str) -> str:
        """Return the JSON Pointer of a field in the whole reply: that is how fields are named here."""
        return field

    def forward(self, chunk: Chunk, texts: Sequence[str] | None = None) -> bytes:
        """Return an event as it leaves now; one that comes with its right number and texts leaves as it came."""
        if chunk.body is None:
            return chunk.raw
        event: Mapping[str, Any] = chunk.body
        if event.get("type") == "response.created":
            if self._begun:  # a heartbeat had to begin the response, and it begins once
                return b""
            self._begun = True
        raw = chunk.raw
        number = event.get("sequence_number")
        closes = self._closing is not None and event.get("type") in TERMINAL
        if closes or texts is not None or (isinstance(number, int) and number != self._next):
            event = event if texts is None else _rewrite(chunk, texts)
            event = {**event, "response": self._close(event.get("response"))} if closes else event
            if isinstance(number, int):
                event = {**event, "sequence_number": self._next}
            raw = event_frame(str(event.get("type")), event)
        if isinstance(number, int):
            self._next += 1
        self._sent.note(event)
        return raw

    def is_bare(self, chunk: Chunk) -> bool:
        """Say whether the event is a delta, which is nothing but its text and where that belongs."""
        return str((chunk.body or {}).get("type")).endswith(".delta")

    def notice(self, choice: int, notice: Notice, *, released: bool) -> bytes:
        """Return the events that close what is open, say the notice, and end the response (wire §5.2)."""
        out = (
            []
            if self._begun
            else [self._begin(), self._write("response.in_progress", {"response": self._unfinished()})]
        )
        open_items = self._sent.open_items()
        message = open_items.pop() if open_items and open_items[-1].is_message else None
        for item in open_items:
            out += [self._number(event) for event in item.close()]
        out += [self._number(event) for event in self._say(message, notice)]
        final = self._close(incomplete({**self._blank(), "usage": None}, self._sent.output()))
        return b"".join([*out, self._write("response.incomplete", {"response": final})])

    def _say(self, message: OpenItem | None, notice: Notice) -> list[Event]:
        """Return the events of the notice, in the message that is open or in one of its own."""
        events: list[Event] = []
        if message is None:
            item = notice_message(self._blank().get("id"), [])
            message, begun = self._sent.begin({**item, "status": "in_progress"})
            events.append(begun)
        parts = notice_parts(notice)
        if message.spoke:
            parts = parts[-1:]
        found = message.open_part()
        if found is not None:
            (_, index), part = found
            if not message.spoke and parts[0]["type"] == part.part.get("type") == "output_text":
                events.append(message.say(part, index, parts.pop(0)["text"]))
            events += message.close_part(found[0], as_json=notice.only_refusal)
        for own in parts:
            events += message.add_part(own)
        return [*events, *message.close()]

    def empty(self) -> bytes:
        """Return an event that adds nothing; before any other, the one that begins the response."""
        if not self._begun:
            return self._begin()
        return self._write("response.in_progress", {"response": self._unfinished()})

    def error(self, error: RequestError) -> bytes:
        """Return the event of an error after the first byte (W-06)."""
        members: dict[str, Any] = {"code": error.code, "message": error.message, "param": error.param}
        if error.guardrail is not None:
            members["guardrail"] = dict(error.guardrail)
        return self._write("error", members)

    def _begin(self) -> bytes:
        self._begun = True
        return self._write("response.created", {"response": self._unfinished()})

    def _close(self, response: object) -> dict[str, Any]:
        """Return the response object of the last event with the members it is closed with."""
        return {**(as_object(response) or {}), **(self._closing() if self._closing is not None else {})}

    def _unfinished(self) -> dict[str, Any]:
        state = {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
        return {**self._blank(), **state, "output": []}

    def _blank(self) -> dict[str, Any]:
        """Return the response object without anything that was not judged."""
        return without_texts(self._reader.response or self._head.members, self._repeated)

    def _number(self, event: Event) -> bytes:
        return self._write(event[0], event[1])

    def _write(self, name: str, members: Mapping[str, Any]) -> bytes:
        number = self._next
        self._next += 1
        return event_frame(name, {"type": name, **members, "sequence_number": number})


def _rewrite(chunk: Chunk, texts: Sequence[str]) -> dict[str, Any]:
    """Return the event with the texts of its pieces replaced; what spells them goes with the rewrite (W-09).

    Raises:
        ValueError: a piece cannot be addressed (text deep inside an unknown shape).
    """
    event: dict[str, Any] = orjson.loads(orjson.dumps(chunk.body))
    event.pop("obfuscation", None)
    for piece, text in zip(chunk.pieces, texts, strict=True):
        if text == piece.text:
            continue
        if not piece.at:
            msg = f"the text at {piece.field} cannot be rewritten"
            raise ValueError(msg)
        holder: Any = event
        for key in piece.at[:-1]:
            holder = holder[key]
        holder[piece.at[-1]] = text
        beside = as_object(holder)
        if beside is not None and beside.get("logprobs"):
            beside["logprobs"] = []
    return event
