"""Names that documents define say nothing; any other name is text of whoever wrote it (G-01)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.chat import CHAT
from proxy.wire.names import is_named
from proxy.wire.responses import RESPONSES
from supervisors.types import Segment

CANARY = "violet umbrella"
USER: dict[str, Any] = {"role": "user", "content": "x"}


def names(segments: tuple[Segment, ...]) -> list[str]:
    return [segment.text for segment in segments if "#" in segment.path]


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"logit_bias": {"50256": -100, "7": 1}},
        {"guided_json": {"type": "object", "properties": {}, "required": []}},
        {"web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "x"}}}},
        {"metadata": {"anything": "x"}},
        {"temperature": 1, "max_completion_tokens": 5, "seed": 1, "store": False},
    ],
)
def test_documented_requests_have_no_names_to_judge(fields: dict[str, Any]) -> None:
    assert names(CHAT.request_segments({"model": "m", "messages": [USER], **fields})) == []


@pytest.mark.parametrize(
    "fields",
    [
        {CANARY: 1},
        {"chat_template_kwargs": {CANARY: None}},
        {"documents": [{"a": {CANARY: [1]}}]},
        {"guided_json": {"properties": {CANARY: {"type": "string"}}}},
        {"logit_bias": {CANARY: 1}},
        {"messages": [{**USER, CANARY: 1}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", CANARY: 1}]}]},
    ],
)
def test_a_name_of_somebody_elses_is_judged(fields: dict[str, Any]) -> None:
    assert CANARY in "\n".join(names(CHAT.request_segments({"model": "m", "messages": [USER], **fields})))


def test_names_that_a_response_repeats_from_its_request_are_not_judged_again() -> None:
    schema = {"type": "object", "properties": {CANARY: {"type": "string"}}}
    tools = [{"type": "function", "name": "f", "parameters": schema}]
    response: dict[str, Any] = {"id": "r", "output": [], "tools": tools}
    assert names(RESPONSES.reply_segments(response, 1, {"tools": tools})[0]) == []
    assert CANARY in "\n".join(names(RESPONSES.reply_segments(response, 1, {})[0]))


def test_categories_of_content_filters_are_names_in_replies_only() -> None:
    assert is_named("violence", in_reply=True)
    assert not is_named("violence", in_reply=False)
    assert is_named("50256", in_reply=False)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"violet\\u0020umbrella": 1}',
        '{"a": {"b": "violet\\u0020umbrella"}}',
        '{"a": "violet\\u0020umbrella", "a": "x"}',
        '{"a": "violet\\u0020umbrella"',
        '["violet\\u0020umbrella", "violet umbrella"]',
    ],
)
def test_what_arguments_write_with_an_escape_is_judged_as_it_reads(arguments: str) -> None:  # M-06
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    segments = CHAT.request_segments({"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert any(CANARY in segment.text for segment in segments if "#" in segment.path)
