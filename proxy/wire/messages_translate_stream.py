"""Streamed chat completions as the events of Anthropic Messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import orjson

from proxy.wire.chat_pieces import finish_of
from proxy.wire.messages_translate import (
    calls_of,
    message_start,
    new_block,
    stop_reason,
    texts_of,
    to_usage,
    tool_block,
)
from proxy.wire.nested import write_number
from proxy.wire.segments import as_list, as_object
from proxy.wire.sse import Frame, SseParser, event_frame

_DELTAS: Final[Mapping[str, str]] = {"text": "text_delta", "thinking": "thinking_delta"}


class _Calls:
    """The tool calls of one stream, joined from their fragments.

    Fragments of one call have one number. Some servers give none, or one number to all, and tell calls apart by id: a
    fragment that names a function under another id, or without one where the call has its arguments, begins a call.
    """

    __slots__ = ("_by_name", "_calls")

    def __init__(self) -> None:
        self._calls: list[tuple[int, dict[str, Any]]] = []
        self._by_name: dict[
            tuple[int, str], dict[str, Any]
        ] = {}  # by number and id; without an id the last of a number

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield them by number, those of one number as they came."""
        return iter([call for _, call in sorted(self._calls, key=lambda numbered: numbered[0])])

    def join(self, fragment: Mapping[str, Any]) -> None:
        """Add a fragment.

        Raises:
            ValueError: its name is no text, or its arguments are neither JSON text nor an object.
        """
        written = write_number(fragment.get("index"))
        number = int(written) if written is not None and _NUMBER.fullmatch(written) else 0
        called = as_object(fragment.get("function")) or {}
        own, last = fragment.get("id"), (number, "")
        named = (number, str(own or ""))
        call = self._by_name.get(named) or self._by_name.get(last)
        if call is None or _begins(call, own, called, numbered=written is not None):
            call = dict[str, Any](function={"name": "", "arguments": ""})
            self._calls.append((number, call))
        self._by_name.setdefault(named, call)
        self._by_name[last] = call
        call["id"] = call.get("id") or own
        call["function"]["name"] += _read_text(called.get("name"))
        arguments = called.get("arguments")
        said = orjson.dumps(arguments).decode() if isinstance(arguments, dict) else _read_text(arguments)
        call["function"]["arguments"] += said


_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def _begins(call: Mapping[str, Any], own: object, called: Mapping[str, Any], *, numbered: bool) -> bool:
    """Say whether a fragment begins another call than the one that its number has."""
    if not called.get("name"):
        return False
    if own and call.get("id"):
        return bool(own != call["id"])
    return not numbered and bool(call["function"]["arguments"])


def _read_text(value: object) -> str:
    if value is not None and not isinstance(value, str):
        msg = "a tool call has a name or arguments that are no text"
        raise ValueError(msg)
    return value or ""


class ChatToMessages:
    """Turn the bytes of one chat stream into the bytes of a Messages stream.

    Text and thinking go on as they come. The fragments of tool calls, which may interleave, are joined and follow as
    blocks of their own when the model has finished.
    """

    def __init__(self) -> None:
        self._parser = SseParser()
        self._begun = False
        self._open: str | None = None
        self._index = 0
        self._calls = _Calls()
        self._finish: str | None = None
        self._doubted = False
        self._usage: Mapping[str, Any] = {}
        self._ended = False
        self.said = 0
        """How often something has come: text, part of a call, or usage."""

    @property
    def finished(self) -> bool:
        """Say whether the model has given its reason to stop."""
        return self._finish is not None

    @property
    def doubted(self) -> bool:
        """Say whether something has followed its reason: that was none."""
        return self._doubted

    @property
    def partial(self) -> bool:
        """Say whether a part of a frame has come."""
        return self._parser.partial

    @property
    def ended(self) -> bool:
        """Say whether the message has ended; nothing follows."""
        return self._ended

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete.

        Raises:
            ValueError: not a chat stream, or something that a message cannot say.
        """
        return b"".join([self._read(frame) for frame in self._parser.feed(data)])

    def close(self, *, ended: bool = True) -> bytes:
        """Return what is still to come when the model server has ended its stream; no end where it gave none.

        Args:
            ended: it has; else it goes on, and nobody waits for the rest of a frame.

        Raises:
            ValueError: its last frame is none.
        """
        rest = b"".join([self._read(frame) for frame in self._parser.close()]) if ended else b""
        return rest + self._end() if self._finish is not None else rest

    def _read(self, frame: Frame) -> bytes:
        if not frame.data or self._ended:
            return b""
        if frame.data == b"[DONE]":
            return self._end()
        parsed: object = orjson.loads(frame.data)
        if not isinstance(parsed, dict):
            msg = "a frame holds no object"
            raise ValueError(msg)  # noqa: TRY004 - one error for a stream that cannot be translated
        body = cast("dict[str, Any]", parsed)
        if body.get("error") is not None:
            self._ended = True
            error = {"type": "api_error", "message": "The model server reported an error in its stream."}
            return event_frame("error", {"type": "error", "error": error})
        return b"".join(self._events(body))

    def _events(self, body: Mapping[str, Any]) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield event_frame("message_start", {"type": "message_start", "message": message_start(body)})
        usage = as_object(body.get("usage"))
        self._usage = usage or self._usage
        self.said += bool(usage)
        for value in as_list(body.get("choices")) or []:
            choice = as_object(value) or {}
            if choice.get("index", 0) != 0:
                continue
            delta = as_object(choice.get("delta")) or {}
            said, called = list(texts_of(delta)), list(calls_of(delta))
            self._doubted |= self._finish is not None and bool(said or called)  # that was no finish
            self.said += len(said) + len(called)
            for kind, text in said:
                yield from self._say(kind, text)
            for call in called:
                self._calls.join(call)
            self._finish = finish_of(choice) or self._finish

    def _say(self, kind: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._stop()
            yield self._block("content_block_start", content_block=new_block(kind))
            self._open = kind
        yield self._block("content_block_delta", delta={"type": _DELTAS[kind], kind: text})

    def _stop(self) -> Iterator[bytes]:
        if self._open is not None:
            yield self._block("content_block_stop")
            self._open = None
            self._index += 1

    def _end(self) -> bytes:
        if self._ended or not self._begun:
            return b""
        self._ended = True
        events = [*self._stop()]
        for number, call in enumerate(self._calls):
            block = tool_block(call, number)
            arguments = orjson.dumps(block["input"]).decode()
            events.append(self._block("content_block_start", content_block={**block, "input": {}}))
            delta = {"type": "input_json_delta", "partial_json": arguments}
            events.append(self._block("content_block_delta", delta=delta))
            events.append(self._block("content_block_stop"))
            self._index += 1
        stopped = {"stop_reason": stop_reason(self._finish), "stop_sequence": None}
        end = {"type": "message_delta", "delta": stopped, "usage": to_usage(self._usage)}
        return b"".join(
            [*events, event_frame("message_delta", end), event_frame("message_stop", {"type": "message_stop"})]
        )

    def _block(self, event: str, **members: Mapping[str, Any]) -> bytes:
        return event_frame(event, {"type": event, "index": self._index, **members})
