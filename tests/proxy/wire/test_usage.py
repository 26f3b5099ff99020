"""Usage that only the proxy asked for (wire W-04)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from proxy.wire.adapter import Head
from proxy.wire.chat_stream import ChatFrames
from proxy.wire.sse import Frame, data_frame
from proxy.wire.usage import HiddenUsage, ask_usage


@pytest.mark.parametrize(
    ("sent", "hidden", "asked"),
    [
        ({}, True, {"include_usage": True}),
        ({"stream_options": None}, True, {"include_usage": True}),
        ({"stream_options": {"include_usage": False, "x": 1}}, True, {"include_usage": True, "x": 1}),
        ({"stream_options": {"include_usage": True}}, False, {"include_usage": True}),
        ({"stream_options": "odd"}, False, "odd"),
    ],
)
def test_usage_is_asked_for_where_the_caller_did_not(sent: dict[str, Any], hidden: bool, asked: object) -> None:
    body = dict(sent)
    assert ask_usage(body) is hidden
    assert body["stream_options"] == asked


def read(body: object) -> list[tuple[bytes, object]]:
    raw = data_frame(body)
    frame = Frame(raw, raw[6:-2])
    return [(chunk.raw, chunk.usage) for chunk in HiddenUsage(ChatFrames(Head())).read(frame)]


def choice(text: str, **more: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


def test_the_usage_chunk_leaves_nothing_but_its_numbers() -> None:
    assert read({"choices": [], "usage": {"total_tokens": 3}}) == [(b"", {"total_tokens": 3})]


@pytest.mark.parametrize("text", ["Hello", 'says "usage":null', ',"usage":null'])
def test_the_empty_member_is_cut_out_and_no_text_with_it(text: str) -> None:
    ((raw, _),) = read(choice(text, usage=None))
    assert raw == data_frame(choice(text))


def test_usage_beside_text_is_hidden_and_kept() -> None:
    ((raw, usage),) = read(choice("Hello", usage={"total_tokens": 3}))
    assert (orjson.loads(raw[6:]), usage) == (choice("Hello"), {"total_tokens": 3})


def test_an_error_beside_usage_is_still_an_error() -> None:
    raw = data_frame({"error": {"message": "x"}, "usage": None})
    (chunk,) = HiddenUsage(ChatFrames(Head())).read(Frame(raw, raw[6:-2]))
    assert chunk.error
