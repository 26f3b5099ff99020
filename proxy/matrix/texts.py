"""Rows of places in OpenAI's chat messages: what a message of each role can hold. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Final

from proxy.matrix.cells import PLAIN, TEXT, Body
from supervisors.types import Kind, Role

Row = tuple[Kind, str, Body]
"""Kind, shape, and the members of a message."""

ROLES: Final[Sequence[Role]] = ("system", "developer", "user", "assistant", "tool", "function")
HALVES: Final = (TEXT[:25], TEXT[25:])
ARGUMENTS: Final = json.dumps({"place": TEXT})
ESCAPED: Final = '{"place": "' + "".join([f"\\u{ord(letter):04x}" for letter in TEXT]) + '"}'
ENCODED: Final = base64.b64encode(TEXT.encode()).decode()
CONTENTS: Final[Sequence[tuple[str, object]]] = (
    ("string", TEXT),
    ("parts", [{"type": "text", "text": TEXT}]),
    ("two parts", [{"type": "text", "text": half} for half in HALVES]),
    ("bare strings", [TEXT]),
)
CITATION: Final[Body] = {"type": "url_citation", "url_citation": {"url": "https://x.example", "title": TEXT}}


def part(value: Body) -> Body:
    """Return a message with one more part after a harmless one."""
    return {"content": [{"type": "text", "text": PLAIN}, value]}


def call(holder: str = "function", **called: object) -> Body:
    """Return a message that calls a tool."""
    return {"content": None, "tool_calls": [{"id": "call_1", "type": holder, holder: called}]}


USER_ROWS: Final[Sequence[Row]] = (
    ("url", "link of an image", part({"type": "image_url", "image_url": {"url": f"https://x.example/?q={TEXT}"}})),
    ("text", "data URL", part({"type": "image_url", "image_url": {"url": f"data:text/plain;base64,{ENCODED}"}})),
    ("media", "image", part({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}})),
    ("media", "sound", part({"type": "input_audio", "input_audio": {"data": ENCODED, "format": "wav"}})),
    ("name", "file name", part({"type": "file", "file": {"filename": TEXT}})),
    ("text", "text file", part({"type": "file", "file": {"file_data": f"data:text/csv;base64,{ENCODED}"}})),
    ("other", "unknown part", part({"type": "scent", "note": {"deep": [TEXT]}})),
    ("name", "name", {"content": PLAIN, "name": TEXT}),
    ("other", "unknown member", {"content": PLAIN, "novelty": [TEXT]}),
)
SPOKEN_ROWS: Final[Sequence[Row]] = (
    ("refusal", "refusal", {"content": None, "refusal": TEXT}),
    ("reasoning", "reasoning_content", {"content": PLAIN, "reasoning_content": TEXT}),
    ("reasoning", "reasoning", {"content": PLAIN, "reasoning": TEXT}),
    ("tool_args", "arguments", call(name="look_up", arguments=ARGUMENTS)),
    ("tool_args", "escaped arguments", call(name="look_up", arguments=ESCAPED)),
    ("tool_args", "no JSON", call(name="look_up", arguments=TEXT)),
    ("name", "called name", call(name=TEXT, arguments="{}")),
    ("tool_args", "custom input", call("custom", name="look_up", input=TEXT)),
    ("tool_args", "function_call", {"content": None, "function_call": {"name": "look_up", "arguments": ARGUMENTS}}),
    ("annotation", "citation", {"content": PLAIN, "annotations": [CITATION]}),
    ("transcript", "transcript", {"content": None, "audio": {"id": "audio_1", "transcript": TEXT}}),
    ("other", "unknown member", {"content": PLAIN, "novelty": TEXT}),
)
"""What an assistant says, in a request's history and in a reply."""

HISTORY_ROWS: Final[Sequence[Row]] = (
    *SPOKEN_ROWS,
    ("refusal", "refusal part", {"content": [{"type": "refusal", "refusal": TEXT}]}),
    ("other", "unknown call", {"content": None, "tool_calls": [{"id": "call_1", "type": "new", "new": {"a": TEXT}}]}),
)
_SCHEMA: Final[Body] = {"type": "object", "properties": {"city": {"type": "string", "description": TEXT}}}


def _tool(**members: object) -> Body:
    return {"tools": [{"type": "function", "function": {"name": "look_up", **members}}]}


FIELD_ROWS: Final[Sequence[Row]] = (
    ("tool_def", "tool description", _tool(description=TEXT)),
    ("tool_def", "tool name", _tool(name=TEXT)),
    ("tool_def", "parameter description", _tool(parameters=_SCHEMA)),
    ("tool_def", "parameter enum", _tool(parameters={"type": "object", "properties": {"a": {"enum": [TEXT]}}})),
    ("tool_def", "parameter key", _tool(parameters={"type": "object", "properties": {TEXT: {"type": "string"}}})),
    ("tool_def", "functions", {"functions": [{"name": "look_up", "description": TEXT}]}),
    (
        "tool_def",
        "response_format",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}},
    ),
    ("prediction", "string", {"prediction": {"type": "content", "content": TEXT}}),
    ("prediction", "parts", {"prediction": {"type": "content", "content": [{"type": "text", "text": TEXT}]}}),
    ("name", "tool_choice", {"tool_choice": {"type": "function", "function": {"name": TEXT}}}),
    ("other", "search options", {"web_search_options": {"user_location": {"approximate": {"city": TEXT}}}}),
    ("other", "unknown string", {"novelty": TEXT}),
    ("other", "unknown tree", {"novelty": {"a": [{"b": TEXT}]}}),
    ("other", "word outside its list", {"reasoning_effort": TEXT}),
)
