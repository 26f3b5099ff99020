"""Places of `/v1/responses`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from proxy.matrix.cells import ALL, PLAIN, TEXT, TURNS, Body, Place
from proxy.matrix.texts import ARGUMENTS, ENCODED, HALVES
from proxy.wire.responses import RESPONSES
from supervisors.types import Kind, Role

Row = tuple[Role, Kind, str, Body]
"""Role, kind, shape, and the item."""

_FILLER: Final[Sequence[Body]] = (
    {"role": "user", "content": PLAIN},
    {"role": "assistant", "content": [{"type": "output_text", "text": PLAIN, "annotations": []}]},
    {"role": "user", "content": PLAIN},
)


def item(kind: str, **members: object) -> Body:
    """Return an item of a type."""
    return {"type": kind, "id": "item_1", **members}


def _said(*parts: Body, role: str = "user") -> Body:
    return {"type": "message", "role": role, "content": list(parts)}


_ROLES: Final[Sequence[Role]] = ("system", "developer", "user", "assistant")
_USER: Final[Sequence[Row]] = (
    ("user", "url", "link of an image", _said({"type": "input_image", "image_url": f"https://x.example/?q={TEXT}"})),
    ("user", "text", "data URL", _said({"type": "input_image", "image_url": f"data:text/plain;base64,{ENCODED}"})),
    ("user", "media", "image", _said({"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}"})),
    ("user", "url", "link of a file", _said({"type": "input_file", "file_url": f"https://x.example/{TEXT}"})),
    ("user", "name", "file name", _said({"type": "input_file", "filename": TEXT, "file_id": "file_1"})),
    ("user", "text", "text file", _said({"type": "input_file", "file_data": f"data:text/csv;base64,{ENCODED}"})),
    ("user", "media", "sound", _said({"type": "input_audio", "input_audio": {"data": ENCODED, "format": "wav"}})),
    ("user", "text", "approval", item("mcp_approval_response", approve=True, reason=TEXT)),
    ("user", "other", "unknown item", item("novelty", deep=[{"a": TEXT}])),
    ("tool", "tool_result", "function result", item("function_call_output", call_id="c", output=TEXT)),
    (
        "tool",
        "tool_result",
        "function result parts",
        item("function_call_output", call_id="c", output=[{"type": "input_text", "text": TEXT}]),
    ),
    ("tool", "tool_result", "custom result", item("custom_tool_call_output", call_id="c", output=TEXT)),
    ("tool", "tool_result", "shell result", item("shell_call_output", call_id="c", output=[{"stdout": TEXT}])),
    ("tool", "tool_result", "local shell result", item("local_shell_call_output", call_id="c", output=TEXT)),
    ("tool", "tool_result", "patch result", item("apply_patch_call_output", call_id="c", output=TEXT)),
    ("tool", "url", "screenshot", item("computer_call_output", output={"image_url": f"https://x.example/{TEXT}"})),
    ("user", "tool_def", "tools found", item("tool_search_output", tools=[{"type": "function", "name": TEXT}])),
    ("user", "tool_def", "more tools", item("additional_tools", tools=[{"type": "function", "description": TEXT}])),
)
_SPOKEN: Final[Sequence[Row]] = (
    ("assistant", "refusal", "refusal", _said({"type": "refusal", "refusal": TEXT}, role="assistant")),
    (
        "assistant",
        "annotation",
        "citation",
        _said(
            {
                "type": "output_text",
                "text": PLAIN,
                "annotations": [{"type": "url_citation", "title": TEXT, "url": "https://x.example"}],
            },
            role="assistant",
        ),
    ),
    ("assistant", "reasoning", "summary", item("reasoning", summary=[{"type": "summary_text", "text": TEXT}])),
    (
        "assistant",
        "reasoning",
        "content",
        item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": TEXT}]),
    ),
    ("assistant", "opaque", "encrypted", item("reasoning", summary=[], encrypted_content=ENCODED)),
    ("assistant", "tool_args", "arguments", item("function_call", call_id="c", name="x", arguments=ARGUMENTS)),
    ("assistant", "name", "called name", item("function_call", call_id="c", name=TEXT, arguments="{}")),
    ("assistant", "tool_args", "custom input", item("custom_tool_call", call_id="c", name="x", input=TEXT)),
    ("assistant", "tool_args", "web search", item("web_search_call", action={"type": "search", "query": TEXT})),
    ("assistant", "tool_args", "file search", item("file_search_call", queries=[TEXT], results=None)),
    ("assistant", "tool_result", "files found", item("file_search_call", queries=[], results=[{"text": TEXT}])),
    ("assistant", "tool_args", "code", item("code_interpreter_call", code=TEXT, container_id="c", outputs=None)),
    (
        "assistant",
        "tool_result",
        "code logs",
        item("code_interpreter_call", code="", container_id="c", outputs=[{"type": "logs", "logs": TEXT}]),
    ),
    ("assistant", "tool_args", "computer", item("computer_call", call_id="c", action={"type": "type", "text": TEXT})),
    (
        "assistant",
        "tool_args",
        "local shell",
        item("local_shell_call", call_id="c", action={"type": "exec", "command": [TEXT]}),
    ),
    ("assistant", "tool_args", "shell", item("shell_call", call_id="c", action={"commands": [TEXT]})),
    ("assistant", "tool_args", "patch", item("apply_patch_call", call_id="c", operation={"diff": TEXT})),
    ("assistant", "tool_args", "MCP arguments", item("mcp_call", name="x", server_label="s", arguments=ARGUMENTS)),
    (
        "assistant",
        "tool_result",
        "MCP output",
        item("mcp_call", name="x", server_label="s", arguments="{}", output=TEXT),
    ),
    (
        "assistant",
        "tool_result",
        "MCP error",
        item("mcp_call", name="x", server_label="s", arguments="{}", error=TEXT),
    ),
    ("assistant", "tool_def", "MCP tools", item("mcp_list_tools", server_label="s", tools=[{"description": TEXT}])),
    (
        "assistant",
        "tool_args",
        "MCP approval",
        item("mcp_approval_request", name="x", server_label="s", arguments=ARGUMENTS),
    ),
    ("assistant", "tool_args", "program", item("program", code=TEXT)),
    ("assistant", "media", "image made", item("image_generation_call", result=ENCODED)),
    ("assistant", "other", "unknown item", item("novelty", deep=[{"a": TEXT}])),
)
_FIELDS: Final[Sequence[tuple[Role, Kind, str, Body]]] = (
    ("system", "text", "instructions", {"input": PLAIN, "instructions": TEXT}),
    ("user", "text", "string", {"input": TEXT}),
    ("user", "text", "prompt variable", {"prompt": {"id": "p", "variables": {"a": TEXT}}}),
    ("user", "tool_def", "tools", {"input": PLAIN, "tools": [{"type": "function", "name": "x", "description": TEXT}]}),
    (
        "user",
        "tool_def",
        "text.format",
        {"input": PLAIN, "text": {"format": {"type": "json_schema", "name": "x", "schema": {"description": TEXT}}}},
    ),
    ("user", "name", "tool_choice", {"input": PLAIN, "tool_choice": {"type": "function", "name": TEXT}}),
    ("user", "other", "unknown string", {"input": PLAIN, "novelty": TEXT}),
    ("user", "other", "word outside its list", {"input": PLAIN, "reasoning": {"effort": TEXT}}),
)


def asked(*items: Body) -> Body:
    """Return the body of a request; a harmless one when no item is given."""
    return {"input": list(items or _FILLER)}


def place_turn(turn: str, one: Body) -> list[Body]:
    """Return input items with one at the beginning, in the middle or at the end."""
    at = {"first": 0, "middle": 2, "last": len(_FILLER)}[turn]
    return [*_FILLER[:at], one, *_FILLER[at:]]


def _message_rows() -> Iterator[Row]:
    for role in _ROLES:
        word = "output_text" if role == "assistant" else "input_text"
        yield role, "text", "string", {"role": role, "content": TEXT}
        yield role, "text", "parts", _said({"type": word, "text": TEXT}, role=role)
        yield role, "text", "two parts", _said(*[{"type": word, "text": half} for half in HALVES], role=role)


def response_inputs() -> Iterator[Place]:
    """Yield every place of a request."""
    for role, kind, shape, one in (*_message_rows(), *_USER, *_SPOKEN):
        for turn in TURNS:
            yield Place(RESPONSES.route, "input", role, turn, kind, shape, asked(*place_turn(turn, one)))
    halves = [{"role": "user", "content": half} for half in HALVES]
    yield Place(RESPONSES.route, "input", "user", "last", "text", "two items", asked(*halves))
    for role, kind, shape, body in _FIELDS:
        yield Place(RESPONSES.route, "input", role, "-", kind, shape, body)


def response_reply(*items: Body) -> Body:
    """Return a whole response; a harmless one when no item is given."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "scripted",
        "output": list(items) or [message_item({"type": "output_text", "text": PLAIN, "annotations": []})],
        "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
    }


def message_item(*parts: Body) -> Body:
    """Return a message of a reply."""
    return {**_said(*parts, role="assistant"), "id": "msg_1", "status": "completed"}


def _spoken_items() -> Iterator[tuple[Kind, str, Body]]:
    yield "text", "string", message_item({"type": "output_text", "text": TEXT, "annotations": []})
    for _, kind, shape, one in _SPOKEN:
        yield kind, shape, message_item(*one["content"]) if one["type"] == "message" else one


def response_outputs() -> Iterator[Place]:
    """Yield every place of a reply: each kind of item, alone and after a message."""
    for kind, shape, one in _spoken_items():
        before = message_item({"type": "output_text", "text": PLAIN, "annotations": []})
        second = {**json.loads(json.dumps(one)), "id": "item_2"}
        for order, reply in (("first item", response_reply(one)), ("second item", response_reply(before, second))):
            name = f"{shape}, {order}"
            yield Place(RESPONSES.route, "output", "assistant", "last", kind, name, asked(), reply, 0, ALL)
