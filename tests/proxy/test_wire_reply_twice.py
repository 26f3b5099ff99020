"""What another parser could read differently, or what only the log-probabilities spell, does not leave unjudged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from proxy.wire.adapter import Chunk
from proxy.wire.body import parse_reply
from proxy.wire.chat import choice_segments
from proxy.wire.chat_stream import read_frame
from proxy.wire.errors import RequestError
from proxy.wire.sse import Frame

TWICE = b'{"choices":[{"index":0,"delta":{"content":"violet umbrella","content":"ok"}}]}'


def test_a_reply_with_a_key_given_twice_is_a_failed_reply() -> None:  # W-02
    with pytest.raises(RequestError):
        parse_reply(TWICE)
    assert parse_reply(b'{"choices":[{"a\\u003a":":"}]}') == {"choices": [{"a:": ":"}]}


def refuse(raw: bytes, body: dict[str, Any], value: object, usage: Mapping[str, Any] | None) -> Chunk:
    pytest.fail("the frame was read")


def test_a_frame_with_a_key_given_twice_is_no_frame() -> None:  # W-02
    with pytest.raises(ValueError, match="given twice"):
        read_frame(Frame(b"data: " + TWICE + b"\n\n", TWICE), refuse)


@pytest.mark.parametrize(
    ("logprobs", "judged"),
    [
        ({"content": [{"token": "o"}, {"token": "k"}]}, ["ok"]),
        ({"content": [{"token": "violet "}, {"token": "umbrella"}]}, ["ok", "violet umbrella\nviolet \numbrella"]),
        ({"refusal": [{"token": "violet umbrella"}]}, ["ok", "violet umbrella"]),
        ({"zz": "violet umbrella"}, ["ok", "zz", "violet umbrella"]),
        ("violet umbrella", ["ok", "violet umbrella"]),
        (None, ["ok"]),
    ],
)
def test_tokens_that_spell_anything_else_are_judged(logprobs: Any, judged: list[str]) -> None:  # G-06
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "logprobs": logprobs}
    assert [segment.text for segment in choice_segments(choice, "/choices/0", 0, 1)] == judged


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("member", ["usage", "logprobs", "x_vendor", "choices"])
def test_a_reply_nested_deeper_than_anybody_goes_is_a_failed_reply(member: str) -> None:
    with pytest.raises(RequestError):
        parse_reply(f'{{"{member}":{nested(300)}}}'.encode())
    with pytest.raises(RequestError):
        parse_reply(f'{{"{member}":{"[" * 70 + "]" * 70}}}'.encode())
    assert member in parse_reply(f'{{"{member}":{nested(60)}}}'.encode())
    braces = {member: ["{" * 500, "[" * 500]}
    assert parse_reply(orjson.dumps(braces)) == braces  # in a text they nest nothing


def test_a_frame_nested_that_deeply_is_no_frame() -> None:
    data = f'{{"choices":[{{"index":0,"delta":{nested(300)}}}]}}'.encode()
    with pytest.raises(ValueError, match="nested"):
        read_frame(Frame(b"data: " + data + b"\n\n", data), refuse)
