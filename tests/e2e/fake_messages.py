"""Bodies of a server that speaks Anthropic Messages, for scripts of tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import Serving, guarded

ROUTE = "/v1/messages"
Block = dict[str, Any]


def message_body(text: str | Sequence[Block] = "hello", **fields: Any) -> dict[str, Any]:
    """Return a request with one user message."""
    content = text if isinstance(text, str) else list(text)
    return {"model": "gpt", "max_tokens": 64, "messages": [{"role": "user", "content": content}], **fields}


async def ask(proxy: Serving, text: str | Sequence[Block] = "hello", **fields: Any) -> httpx.Response:
    """Send one user message."""
    headers = {"anthropic-version": "2023-06-01"}
    return await proxy.client.post(ROUTE, json=message_body(text, **fields), headers=headers)


def anthropic_tree(up: FakeUpstream, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a guarded config whose upstream speaks Anthropic Messages."""
    upstreams = {"main": {"base_url": up.url, "vendor": "anthropic"}}
    return guarded(up, folder, **{"upstreams": upstreams, **parts})


def text_block(text: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text}


def thinking_block(text: str) -> Block:
    """Return a signed thinking block."""
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}


def tool_block(arguments: Mapping[str, Any], name: str = "look_up") -> Block:
    """Return a tool call."""
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": dict(arguments)}


def message_reply(*blocks: Block | str, **changes: Any) -> dict[str, Any]:
    """Return a whole message; a string is a text block."""
    content = [text_block(block) if isinstance(block, str) else block for block in blocks]
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": "fake-model",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
        **changes,
    }


def event(name: str, **members: Any) -> bytes:
    """Return one event, spaced as the vendor's server spaces it."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode()


def block_events(index: int, block: Block, deltas: Sequence[Block]) -> list[bytes]:
    """Return the events of one block."""
    return [
        event("content_block_start", index=index, content_block=block),
        *[event("content_block_delta", index=index, delta=delta) for delta in deltas],
        event("content_block_stop", index=index),
    ]


def text_events(index: int, *texts: str) -> list[bytes]:
    """Return the events of a text block, one delta a text."""
    return block_events(index, text_block(""), [{"type": "text_delta", "text": text} for text in texts])


def thinking_events(index: int, *texts: str) -> list[bytes]:
    """Return the events of a signed thinking block."""
    deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
    signature = {"type": "signature_delta", "signature": "c2lnbmVk"}
    return block_events(index, {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature])


def tool_events(index: int, *parts: str, name: str = "look_up") -> list[bytes]:
    """Return the events of a tool call whose input comes in these parts of JSON text."""
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block_events(index, {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}, deltas)


def message_events(*blocks: Sequence[bytes], stop_reason: str = "end_turn") -> list[bytes]:
    """Return the events of a whole stream around those of its blocks."""
    start = message_reply(stop_reason=None, usage={"input_tokens": 7, "output_tokens": 1})
    end = event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage={"output_tokens": 5})
    stop = b'event: message_stop\ndata: {"type":"message_stop"        }\n\n'
    begin = [event("message_start", message=start), event("ping")]
    return [*begin, *[frame for block in blocks for frame in block], end, stop]


def events_of(reply: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    """Return name and data of every event, comments left out."""
    found: list[tuple[str, dict[str, Any]]] = []
    for frame in reply.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line and not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def accumulate(reply: httpx.Response) -> dict[str, Any]:
    """Build the message from its events as the vendor's SDK does: strictly by index, in order."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for name, data in events_of(reply):
        match name:
            case "message_start":
                assert not message
                message = data["message"]
            case "content_block_start":
                assert data["index"] == len(message["content"])
                message["content"].append(data["content_block"])
            case "content_block_delta":
                _add_delta(message["content"][data["index"]], data["delta"], inputs, data["index"])
            case "content_block_stop":
                if data["index"] in inputs:
                    message["content"][data["index"]]["input"] = json.loads(inputs[data["index"]])
            case "message_delta":
                message |= data["delta"]
                message["usage"] |= data["usage"]
            case _:
                assert name in ("message_stop", "ping")
    return message


def _add_delta(block: Block, delta: Block, inputs: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case _:
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
