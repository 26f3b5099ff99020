"""Messages for models behind chat completions: what is asked, what comes back (wire §9, guarding S-11c)."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import RequestError
from proxy.wire.messages_translate import to_chat, to_message
from proxy.wire.messages_translate_stream import ChatToMessages
from proxy.wire.sse import SseParser

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def body(*content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": role, "content": list(content)}], **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("request_body", "messages"),
    [
        (
            {"model": "m", "system": "be kind", "messages": [{"role": "user", "content": "hi"}]},
            [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
        ),
        (
            body(text("hi"), system=[text("a"), text("b")]),
            [{"role": "system", "content": [text("a"), text("b")]}, {"role": "user", "content": "hi"}],
        ),
        (
            body(
                text("look"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
            ),
            [
                {
                    "role": "user",
                    "content": [
                        text("look"),
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    ],
                }
            ],
        ),
        (
            body({"type": "document", "title": "t", "source": {"type": "text", "data": "words"}}),
            [{"role": "user", "content": [text("t"), text("words")]}],
        ),
        (
            body({"type": "tool_result", "tool_use_id": "c1", "content": [text("found")]}, text("and now?")),
            [{"role": "tool", "tool_call_id": "c1", "content": "found"}, {"role": "user", "content": "and now?"}],
        ),
        (
            body({"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}, role="assistant"),
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"a":1}'}}],
                }
            ],
        ),
        (
            body({"type": "thinking", "thinking": "hm", "signature": "s"}, text("so"), role="assistant"),
            [{"role": "assistant", "content": "so"}],
        ),
        (
            body({"type": "search_result", "title": "t", "source": "http://x", "content": [text("words")]}),
            [{"role": "user", "content": [text("t"), text("http://x"), text("words")]}],
        ),
    ],
)
def test_messages_keep_their_texts_and_their_order(request_body: dict[str, Any], messages: list[Any]) -> None:
    assert to_chat(request_body)["messages"] == messages


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ({"temperature": 0.5, "top_p": 1, "seed": 7}, {"temperature": 0.5, "top_p": 1, "seed": 7}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        (
            {"tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]},
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
                    }
                ]
            },
        ),
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        (
            {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False},
        ),
        (
            {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"a": 1}}}},
            {
                "reasoning_effort": "low",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": {"a": 1}, "strict": True},
                },
            },
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}, "service_tier": "auto"}, {}),
    ],
)
def test_fields_have_their_counterpart(fields: dict[str, Any], expected: dict[str, Any]) -> None:  # W-07
    plain = to_chat(body(text("hi")))
    assert to_chat(body(text("hi"), **fields)) == {**plain, **expected}


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        (body({"type": "container_upload", "file_id": "f"}), "messages[0].content[0]"),
        (body({"type": "server_tool_use", "id": "s", "name": "n"}, role="assistant"), "messages[0].content[0]"),
        (body({"type": "image", "source": {"type": "file", "file_id": "f"}}), "messages[0].content[0]"),
        (body(text("x"), tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools[0]"),
        (body(text("x"), tool_choice={"type": "odd"}), "tool_choice.type"),
    ],
)
def test_what_chat_completions_cannot_say_is_refused(request_body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        to_chat(request_body)
    assert (caught.value.status, caught.value.param) == (400, param)


def reply(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": usage}


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
        (None, None),
    ],
)
def test_a_reply_becomes_a_message(finish: str | None, stop: str | None) -> None:
    message = to_message(reply(finish, reasoning_content="hm", content="hi", tool_calls=[CALL]))
    assert message == {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            text("hi"),
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2},
    }


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"choices": []},
        {"choices": [{"message": "x"}]},
        reply(tool_calls=[{"function": {"name": "f", "arguments": "{"}}]),
        reply(tool_calls=[{"function": {"name": "f", "arguments": "[1]"}}]),
        reply(tool_calls=[{"function": {"name": "f", "arguments": [1]}}]),
        reply(content=[{"type": "image_url", "image_url": {"url": "http://a/b.png"}}]),
        reply(content=[text("hi"), 7]),
        reply(content=True),
        reply(function_call={"name": "f", "arguments": "{"}),
        reply(function_call={"arguments": "{}"}),
        reply(tool_calls=[{"function": {"arguments": "{}"}}]),
        reply(tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}}]),
        reply(content="hi", audio={"id": "a", "data": "AAAA", "transcript": "hi"}),
    ],
)
def test_a_reply_that_cannot_be_translated_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - orjson's own message or ours
        to_message(broken)


def test_arguments_may_be_an_object() -> None:
    made = to_message(reply(tool_calls=[{"id": "A", "function": {"name": "f", "arguments": {"a": 1}}}]))
    assert made["content"][-1] == {"type": "tool_use", "id": "A", "name": "f", "input": {"a": 1}}


def test_calls_without_ids_get_an_id_each_whole_and_streamed() -> None:
    calls = [{"index": index, "function": {"name": name, "arguments": "{}"}} for index, name in enumerate("fg")]
    ids = [block["id"] for block in to_message(reply("tool_calls", content=None, tool_calls=calls))["content"]]
    translator = ChatToMessages()
    raw = translator.feed(chunk(tool_calls=calls) + chunk("tool_calls")) + translator.close()
    events = [orjson.loads(one.data) for one in SseParser().feed(raw)]
    streamed = [event["content_block"]["id"] for event in events if event["type"] == "content_block_start"]
    assert ids == streamed == ["toolu_0", "toolu_1"]


def call(name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    return {**members, "function": {"name": name, "arguments": arguments}}


CALLS: Any = [
    ([[call("f", {"a": 1}, index=0)]], [("f", {"a": 1})]),
    ([[call("f", '{"a": 1}', index=0, id="A")], [call("g", "{}", index=0, id="B")]], [("f", {"a": 1}), ("g", {})]),
    ([[call("f", "", id="A"), call("g", '{"b": 2}', id="B")]], [("f", {}), ("g", {"b": 2})]),
    ([[call("f", "{}")], [call("g", "{}")]], [("f", {}), ("g", {})]),
    ([[call("f", '{"a"', id="A", index=0)], [call("", ": 1}", id="A", index=0)]], [("f", {"a": 1})]),
    (
        [
            [call("f", '{"a"', id="A", index=0), call("g", '{"b"', id="B", index=0)],
            [call("", ": 1}", id="A", index=0), call("", ": 2}", id="B", index=0)],
        ],
        [("f", {"a": 1}), ("g", {"b": 2})],
    ),
    ([[call("f", "", index="0"), call("g", "{}", index="1")]], [("f", {}), ("g", {})]),
    ([[call("g", "{}", index=1.0)], [call("f", "{}", index=0.0)]], [("f", {}), ("g", {})]),
]


@pytest.mark.parametrize(("frames", "blocks"), CALLS)
def test_calls_are_told_apart_by_number_or_else_by_id(frames: Any, blocks: Any) -> None:  # S-11c
    translator = ChatToMessages()
    raw = b"".join([chunk(tool_calls=calls) for calls in frames]) + chunk("tool_calls")
    events = [orjson.loads(one.data) for one in SseParser().feed(translator.feed(raw) + translator.close())]
    names = [event["content_block"]["name"] for event in events if event["type"] == "content_block_start"]
    inputs = [
        orjson.loads(event["delta"]["partial_json"]) for event in events if event["type"] == "content_block_delta"
    ]
    assert list(zip(names, inputs, strict=True)) == blocks


@pytest.mark.parametrize("broken", [call("f", [1], index=0), call("f", 7, index=0), {"function": {"name": ["f"]}}])
def test_a_fragment_that_is_no_text_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no text"):
        ChatToMessages().feed(chunk(tool_calls=[broken]))


def test_the_call_of_an_old_model_server_becomes_a_block_whole_and_streamed() -> None:
    called = {"name": "f", "arguments": '{"a": 1}'}
    message = to_message(reply("function_call", content=None, function_call=called))
    block = {"type": "tool_use", "id": "toolu_0", "name": "f", "input": {"a": 1}}
    assert (message["content"], message["stop_reason"]) == ([block], "tool_use")
    translator = ChatToMessages()
    parts = [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ": 1}"}]
    raw = b"".join([chunk(function_call=part) for part in parts]) + chunk("function_call")
    events = [orjson.loads(one.data) for one in SseParser().feed(translator.feed(raw) + translator.close())]
    assert events[1]["content_block"] == {**block, "input": {}}
    assert (events[2]["delta"]["partial_json"], events[-2]["delta"]["stop_reason"]) == ('{"a":1}', "tool_use")


def test_an_empty_function_call_beside_a_text_is_none() -> None:
    assert to_message(reply(content="hi", function_call={"name": "", "arguments": ""}))["content"] == [text("hi")]


PARTS: Any = [
    {"type": "thinking", "thinking": [text("hm"), text("so")]},
    text("hello "),
    "there",
    {"type": "refusal", "refusal": ", no"},
    {"type": "text", "text": "", "index": 3},
]
"""Content as Mistral's models give it, and as others might."""


def test_content_in_parts_becomes_blocks_whole_and_streamed() -> None:
    said = to_message(reply(content=PARTS))["content"]
    assert [block.get("thinking") or block.get("text") for block in said] == ["hm", "so", "hello ", "there", ", no"]
    translator = ChatToMessages()
    out = translator.feed(chunk(content=PARTS[:1]) + chunk(content=PARTS[1:]) + chunk("stop")) + translator.close()
    events = [orjson.loads(frame.data) for frame in SseParser().feed(out)]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta.get("thinking") or delta.get("text") for delta in deltas] == ["hm", "so", "hello ", "there", ", no"]
    assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 1]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking", "reasoning_details"])
def test_a_thought_is_told_once_under_whatever_name(name: str) -> None:
    thought: Any = [{"type": "reasoning.text", "text": "hm"}] if name == "reasoning_details" else "hm"
    for more in ({}, {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}):
        told: dict[str, Any] = {**more, name: thought}
        said = to_message(reply("stop", content="hi", **told))["content"]
        assert [block.get("thinking") or block.get("text") for block in said] == ["hm", "hi"]


@pytest.mark.parametrize("content", [[{"type": "image_url", "image_url": {"url": "http://a/b.png"}}], 7])
def test_a_part_of_a_stream_that_is_no_text_is_an_error(content: Any) -> None:
    with pytest.raises(ValueError, match="no text"):
        ChatToMessages().feed(chunk(content=content))


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"id": "c", "model": "m", "choices": [choice]}) + b"\n\n"


def fragment(index: int, arguments: str, **members: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **members}}


USAGE = b"data: " + orjson.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}) + b"\n\n"
STREAM = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="hm"),
    chunk(content="he"),
    chunk(content="llo"),
    chunk(tool_calls=[{**fragment(0, "", name="f"), "id": "c1"}, {**fragment(1, "", name="g"), "id": "c2"}]),
    chunk(tool_calls=[fragment(1, '{"b"'), fragment(0, '{"a": ')]),
    chunk(tool_calls=[fragment(0, "1}"), fragment(1, ": 2}")]),
    chunk("tool_calls"),
    USAGE,
    b"data: [DONE]\n\n",
]


@pytest.mark.parametrize("size", [7, 100_000])
def test_a_stream_becomes_the_events_of_a_message(size: int) -> None:  # S-13, W-11
    translator = ChatToMessages()
    raw = b"".join(STREAM)
    out = (
        b"".join([translator.feed(raw[start : start + size]) for start in range(0, len(raw), size)])
        + translator.close()
    )
    frames = SseParser().feed(out)
    assert all(orjson.loads(frame.data)["type"] == frame.event for frame in frames)
    events = [orjson.loads(frame.data) for frame in frames]
    assert [event["type"] for event in events] == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"] * 2,
        "message_delta",
        "message_stop",
    ]
    assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 1, 2, 3]
    parts = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [part.get("thinking") or part.get("text") or part.get("partial_json") for part in parts] == [
        "hm",
        "he",
        "llo",
        '{"a":1}',
        '{"b":2}',
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"] == {"input_tokens": 7, "output_tokens": 3}


@pytest.mark.parametrize(
    "more",
    [
        {"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "f"}}]},
        {"audio": {"data": "AAAA"}},
    ],
)
def test_a_delta_that_a_message_cannot_say_is_an_error(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the reply has"):
        ChatToMessages().feed(chunk(**more))


def test_a_stream_that_ends_half_way_gets_no_end_invented() -> None:
    translator = ChatToMessages()
    events = SseParser().feed(translator.feed(chunk(content="he")) + translator.close())
    assert [event.event for event in events] == ["message_start", "content_block_start", "content_block_delta"]


def test_an_end_without_a_reason_is_an_end() -> None:
    translator = ChatToMessages()
    events = SseParser().feed(translator.feed(chunk(content="he") + b"data: [DONE]\n\n") + translator.close())
    assert orjson.loads(events[-2].data)["delta"]["stop_reason"] is None
    assert events[-1].event == "message_stop"


def test_an_error_in_a_stream_ends_it() -> None:  # W-06, S-14
    translator = ChatToMessages()
    out = translator.feed(
        chunk(content="he") + b'data: {"error": {"message": "at http://10.0.0.1"}}\n\n' + chunk(content="x")
    )
    events = SseParser().feed(out + translator.close())
    assert events[-1].event == "error"
    assert b"10.0.0.1" not in out


@pytest.mark.parametrize("raw", [b"data: {\n\n", b"data: [1]\n\n"])
def test_a_stream_of_another_kind_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - orjson's own message or ours
        ChatToMessages().feed(raw)


NUMBERS = (
    '{"n":123456789012345678901234567890,"m":-98765432109876543210,"f":1.10,"e":1E5,"d":0.12345678901234567,"i":7}'
)


@pytest.mark.parametrize("written", [NUMBERS, NUMBERS.replace(",", " , ")])
def test_numbers_in_arguments_are_written_as_the_model_wrote_them(written: str) -> None:  # S-11c, G-37
    call = {**CALL, "function": {"name": "f", "arguments": written}}
    reply = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    assert f'"input":{NUMBERS}}}' in orjson.dumps(to_message(reply)).decode()
    translator = ChatToMessages()
    halves = [{"index": 0, **call, "function": {"name": "f", "arguments": written[:20]}}]
    rest = [{"index": 0, "function": {"arguments": written[20:]}}]
    frames = [{"choices": [{"index": 0, "delta": {"tool_calls": calls}}]} for calls in (halves, rest)]
    sent = b"".join([translator.feed(b"data: " + orjson.dumps(frame) + b"\n\n") for frame in frames])
    sent += translator.feed(b"data: [DONE]\n\n")
    events = [orjson.loads(frame.data) for frame in SseParser().feed(sent)]
    said = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert said == [NUMBERS]


@given(
    st.dictionaries(
        st.text("abc", max_size=3),
        st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    ),
    st.integers(10**17, 10**40),
)
def test_no_value_of_an_input_changes(values: dict[str, Any], large: int) -> None:
    values = {**values, "large": large, "list": [-large, {"deep": large}]}
    call = {**CALL, "function": {"name": "f", "arguments": json.dumps(values)}}
    message = orjson.dumps(to_message({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "stop"}]}))
    assert json.loads(message)["content"][0]["input"] == values
