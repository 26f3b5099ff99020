"""Whole replies as the streams a model server would send: chat, completions, Responses, Anthropic Messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import orjson

from proxy.matrix.cells import Body
from proxy.wire.sse import DONE, data_frame

PIECE_CHARS: Final = 4
_HEAD: Final = ("id", "created", "model")
_CHAT_STRUCTURE: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
_CALLED: Final[Mapping[str, str]] = {"function": "arguments", "custom": "input"}


def cut(text: str, size: int | None) -> list[str]:
    """Return a text in pieces of at most `size` characters; in one piece when there is no size."""
    if size is None or not text:
        return [text]
    return [text[start : start + size] for start in range(0, len(text), size)]


def chat_frames(reply: Body, size: int | None) -> list[bytes]:
    """Return the chunks of a chat completion, its choices taking turns."""
    head = {key: reply[key] for key in _HEAD} | {"object": "chat.completion.chunk"}
    stray = {key: value for key, value in reply.items() if key not in _CHAT_STRUCTURE}
    turns = [list(_chat_choice(choice, size)) for choice in reply["choices"]]
    chunks = [choice for turn in zip_longest(*turns) for choice in turn if choice is not None]
    frames = [data_frame({**head, **(stray if not number else {}), "choices": [c]}) for number, c in enumerate(chunks)]
    return [*frames, DONE]


def _chat_choice(choice: Body, size: int | None) -> Iterator[Body]:
    def chunk(delta: Body, finish: str | None = None) -> Body:
        return {"index": choice["index"], "delta": delta, "finish_reason": finish}

    yield chunk({"role": "assistant", "content": ""})
    for key, value in choice["message"].items():
        if key != "role" and value is not None:
            yield from map(chunk, _chat_deltas(key, value, size))
    yield chunk({}, choice["finish_reason"])


def _chat_deltas(key: str, value: Any, size: int | None) -> Iterator[Body]:
    if isinstance(value, str):
        yield from ({key: piece} for piece in cut(value, size))
    elif key == "tool_calls":
        for index, call in enumerate(value):
            yield from ({key: [part]} for part in _call_deltas(index, call, size))
    elif key == "audio":
        yield {key: {"id": value["id"]}}
        for name in ("transcript", "data"):
            yield from ({key: {name: piece}} for piece in cut(value.get(name, ""), size) if piece)
    else:
        yield {key: value}


def _call_deltas(index: int, call: Body, size: int | None) -> Iterator[Body]:
    holder = next((name for name in _CALLED if name in call), None)
    if holder is None:
        yield {"index": index, **call}
        return
    text = _CALLED[holder]
    yield {"index": index, **call, holder: {**call[holder], text: ""}}
    yield from ({"index": index, holder: {text: piece}} for piece in cut(call[holder].get(text, ""), size))


def completion_frames(reply: Body, size: int | None) -> list[bytes]:
    """Return the chunks of a legacy completion."""
    head = {key: reply[key] for key in _HEAD} | {"object": "text_completion"}
    frames: list[bytes] = []
    for choice in reply["choices"]:
        for key, value in choice.items():
            if key not in ("index", "logprobs", "finish_reason"):
                pieces = cut(value, size)
                made = [{"text": "", key: piece} | {"index": choice["index"]} for piece in pieces]
                frames += [data_frame({**head, "choices": [{**one, "finish_reason": None}]}) for one in made]
        last = {"index": choice["index"], "text": "", "finish_reason": choice["finish_reason"]}
        frames.append(data_frame({**head, "choices": [last]}))
    return [*frames, DONE]


_GROWING: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
    "code_interpreter_call": ("code", "code_interpreter_call_code"),
}
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "output_text": ("text", "output_text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("text", "reasoning_text"),
    "summary_text": ("text", "reasoning_summary_text"),
}
"""By the type of a part: the member with its text, and the name of its events."""


def response_frames(reply: Body, size: int | None) -> list[bytes]:
    """Return the events of a response."""
    begun: Body = {**reply, "status": "in_progress", "output": [], "usage": None}
    events: list[Body] = [{"type": f"response.{word}", "response": begun} for word in ("created", "in_progress")]
    for index, item in enumerate(reply["output"]):
        events += [{**event, "output_index": index} for event in _item_events(item, size)]
    events.append({"type": "response.completed", "response": reply})
    return [_event({**event, "sequence_number": number}) for number, event in enumerate(events)]


def _item_events(item: Body, size: int | None) -> Iterator[Body]:
    growing = _GROWING.get(item["type"])
    begun = {key: value for key, value in item.items() if key in ("id", "type", "role", "call_id", "name")}
    lists = [name for name in ("content", "summary") if isinstance(item.get(name), list)]
    begun |= {name: [] for name in lists} | ({growing[0]: ""} if growing else {})
    yield {"type": "response.output_item.added", "item": begun}
    if growing:
        at = {"item_id": item["id"]}
        for piece in cut(item[growing[0]], size):
            yield {"type": f"response.{growing[1]}.delta", **at, "delta": piece}
        yield {"type": f"response.{growing[1]}.done", **at, growing[0]: item[growing[0]]}
    for name in lists:
        for index, part in enumerate(item[name]):
            yield from _part_events(item["id"], name, index, part, size)
    yield {"type": "response.output_item.done", "item": item}


def _part_events(item_id: str, holder: str, index: int, part: Body, size: int | None) -> Iterator[Body]:
    key, name = _PARTS[part["type"]]
    at: Body = {"item_id": item_id, f"{holder}_index": index}
    family = "reasoning_summary_part" if holder == "summary" else "content_part"
    yield {"type": f"response.{family}.added", **at, "part": {"type": part["type"], key: ""}}
    for piece in cut(part[key], size):
        yield {"type": f"response.{name}.delta", **at, "delta": piece}
    for number, annotation in enumerate(part.get("annotations", ())):
        numbered = {**at, "annotation_index": number, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **numbered}
    yield {"type": f"response.{name}.done", **at, key: part[key]}
    yield {"type": f"response.{family}.done", **at, "part": part}


def message_frames(reply: Body, size: int | None) -> list[bytes]:
    """Return the events of an Anthropic message."""
    start: Body = {**reply, "content": [], "stop_reason": None}
    frames = [_event({"type": "message_start", "message": start})]
    for index, block in enumerate(reply["content"]):
        frames += [_event({**event, "index": index}) for event in _block_events(block, size)]
    ending = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    frames.append(_event({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 3}}))
    return [*frames, _event({"type": "message_stop"})]


def _block_events(block: Body, size: int | None) -> Iterator[Body]:
    begun, deltas = _block_deltas(block, size)
    yield {"type": "content_block_start", "content_block": begun}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop"}


def _block_deltas(block: Body, size: int | None) -> tuple[Body, Sequence[Body]]:
    match block["type"]:
        case "text":
            texts = [{"type": "text_delta", "text": piece} for piece in cut(block["text"], size)]
            quoted = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            return {"type": "text", "text": ""}, [*texts, *quoted]
        case "thinking":
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"], size)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
        case "tool_use" | "server_tool_use":
            pieces = cut(orjson.dumps(block["input"]).decode(), size)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        case _:
            return block, []


def _event(event: Body) -> bytes:
    return f"event: {event['type']}\ndata: ".encode() + orjson.dumps(event) + b"\n\n"
