"""Bodies and events of the Responses API, for scripts of tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.e2e.fake_upstream import Answer

ID = "resp_fake"
USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}


def output_text(text: str, **changes: Any) -> dict[str, Any]:
    """Return a text part."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **changes}


def message(text: str | None, item_id: str = "msg_1", status: str = "completed") -> dict[str, Any]:
    """Return a message item; None is a message that has only begun."""
    content = [] if text is None else [output_text(text)]
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": content}


def response(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a whole response object."""
    return {
        "id": ID,
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "fake-model",
        "output": list(items),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": USAGE,
        **changes,
    }


def begun(**changes: Any) -> dict[str, Any]:
    """Return a response object that has only begun."""
    return response(status="in_progress", usage=None, **changes)


def text_events(texts: Sequence[str], index: int = 0, item_id: str = "msg_1") -> list[dict[str, Any]]:
    """Return the events of one message item."""
    at = {"item_id": item_id, "output_index": index, "content_index": 0}
    whole = "".join(texts)
    return [
        {"type": "response.output_item.added", "output_index": index, "item": message(None, item_id, "in_progress")},
        {"type": "response.content_part.added", **at, "part": output_text("")},
        *[{"type": "response.output_text.delta", **at, "delta": text, "logprobs": []} for text in texts],
        {"type": "response.output_text.done", **at, "text": whole, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": output_text(whole)},
        {"type": "response.output_item.done", "output_index": index, "item": message(whole, item_id)},
    ]


def reasoning_events(texts: Sequence[str], index: int = 0) -> list[dict[str, Any]]:
    """Return the events of one reasoning item with a summary."""
    at = {"item_id": "rs_1", "output_index": index, "summary_index": 0}
    whole = {"type": "summary_text", "text": "".join(texts)}
    item: dict[str, Any] = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAAAABvcGFxdWU" * 8,
    }
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}},
        *[{"type": "response.reasoning_summary_text.delta", **at, "delta": text} for text in texts],
        {"type": "response.reasoning_summary_text.done", **at, "text": whole["text"]},
        {"type": "response.reasoning_summary_part.done", **at, "part": whole},
        {"type": "response.output_item.done", "output_index": index, "item": {**item, "summary": [whole]}},
    ]


def call_events(arguments: Sequence[str], index: int = 0, name: str = "look_up") -> list[dict[str, Any]]:
    """Return the events of one function call."""
    at = {"item_id": "fc_1", "output_index": index}
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": ""}
    done = {**item, "arguments": "".join(arguments), "status": "completed"}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}},
        *[{"type": "response.function_call_arguments.delta", **at, "delta": part} for part in arguments],
        {"type": "response.function_call_arguments.done", **at, "name": name, "arguments": done["arguments"]},
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def stream(*events: dict[str, Any], ending: str = "completed", **changes: Any) -> list[dict[str, Any]]:
    """Return a whole stream: the events between the beginning and the end of a response, numbered."""
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    all_events = [
        {"type": "response.created", "response": begun(**changes)},
        {"type": "response.in_progress", "response": begun(**changes)},
        *events,
        {"type": f"response.{ending}", "response": response(*items, status=ending, **changes)},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(all_events)]


def frames(events: Sequence[dict[str, Any]]) -> list[bytes]:
    """Frame events as the API does."""
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def streamed(*texts: str, **answer: Any) -> Answer:
    """Return the answer that streams one message."""
    return Answer(frames=frames(stream(*text_events(texts))), headers=SSE, **answer)


SSE = {"content-type": "text/event-stream; charset=utf-8"}
