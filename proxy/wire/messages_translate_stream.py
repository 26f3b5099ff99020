"""Streamed chat completions as the events of Anthropic Messages. Pure."""

from __future__ import annotations

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
from proxy.wire.segments import as_list, as_object
from proxy.wire.sse import Frame, SseParser, event_frame

_DELTAS: Final[Mapping[str, str]] = {"text": "text_delta", "thinking": "thinking_delta"}


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
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._doubted = False
        self._usage: Mapping[str, Any] = {}
        self._ended = False

    @property
    def finished(self) -> bool:
        """Say whether the model has given its reason to stop, and nothing of what follows has come yet."""
        return self._finish is not None and not self._doubted and not self._parser.partial

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

    def close(self) -> bytes:
        """Return what is still to come when the model server has ended its stream; no end where it gave none."""
        rest = b"".join([self._read(frame) for frame in self._parser.close()])
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
        self._usage = as_object(body.get("usage")) or self._usage
        for value in as_list(body.get("choices")) or []:
            choice = as_object(value) or {}
            if choice.get("index", 0) != 0:
                continue
            delta = as_object(choice.get("delta")) or {}
            said, called = list(texts_of(delta)), list(calls_of(delta))
            self._doubted |= self._finish is not None and bool(said or called)  # that was no finish
            for kind, text in said:
                yield from self._say(kind, text)
            for call in called:
                self._join(call)
            self._finish = finish_of(choice) or self._finish

    def _say(self, kind: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._stop()
            yield self._block("content_block_start", content_block=new_block(kind))
            self._open = kind
        yield self._block("content_block_delta", delta={"type": _DELTAS[kind], kind: text})

    def _join(self, fragment: Mapping[str, Any]) -> None:
        index = fragment.get("index")
        number = index if isinstance(index, int) else 0
        call = self._calls.setdefault(number, {"function": {"name": "", "arguments": ""}})
        call["id"] = call.get("id") or fragment.get("id")
        called = as_object(fragment.get("function")) or {}
        for key in ("name", "arguments"):
            part = called.get(key)
            call["function"][key] += part if isinstance(part, str) else ""

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
        for number, (_, call) in enumerate(sorted(self._calls.items())):
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
