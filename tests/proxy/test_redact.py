"""Redaction: spans merged, nothing of a secret left, what it stands in still valid (guarding §8, G-34 to G-38)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.redact import RedactionImpossible, mask, mask_arguments, merge_spans, redact_body
from proxy.wire.chat import CHAT
from supervisors.testing import Finds, context
from supervisors.types import Exchange, Span

CANARY = "violet umbrella"


def span(start: int, end: int, category: str = "x", path: str = "/a") -> Span:
    return Span(path, start, end, category)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([span(0, 3)], "[REDACTED:x]defgh"),
        ([span(0, 3), span(3, 5)], "[REDACTED:x]fgh"),  # touching
        ([span(0, 3), span(2, 5)], "[REDACTED:x]fgh"),  # overlapping
        ([span(1, 2), span(0, 8)], "[REDACTED:x]"),  # the longest wins, no tail is left
        ([span(0, 2), span(4, 6)], "[REDACTED:x]cd[REDACTED:x]gh"),  # k matches, k masks
        ([span(2, 4, "late"), span(0, 3, "first")], "[REDACTED:late]efgh"),  # the first in config order names it
        ([span(0, 3), span(0, 3)], "[REDACTED:x]defgh"),
    ],
)
def test_spans_of_a_text_are_merged(spans: list[Span], expected: str) -> None:  # G-35
    body: dict[str, Any] = {"a": "abcdefgh"}
    redact_body(body, spans)
    assert body["a"] == expected


@settings(max_examples=200, deadline=None)
@given(ranges=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 8)), min_size=1, max_size=6), data=st.data())
def test_no_marked_character_is_left_and_no_other_is_lost(
    ranges: list[tuple[int, int]], data: st.DataObject
) -> None:  # G-35
    text = "abcdefghijklmnopqrst"
    spans = [span(start, min(start + length, 20)) for start, length in ranges]
    covered = {i for one in spans for i in range(one.start, one.end)}
    shuffled = data.draw(st.permutations(spans))
    marks = merge_spans(shuffled)["/a"]
    left = mask(text, marks).replace("[REDACTED:x]", "")
    assert left == "".join([char for i, char in enumerate(text) if i not in covered])
    assert all(one.end < other.start for one, other in itertools.pairwise(marks))


def test_pointers_with_escapes_lead_to_their_own_text() -> None:  # G-07
    body: dict[str, Any] = {"a/b": "violet", "a": {"b": "other"}, "m~n": ["x", "violet"], "~1": "violet"}
    redact_body(body, [span(0, 6, path=path) for path in ("/a~1b", "/m~0n/1", "/~01")])
    masked = "[REDACTED:x]"
    assert body == {"a/b": masked, "a": {"b": "other"}, "m~n": ["x", masked], "~1": masked}


@pytest.mark.parametrize("path", ["", "/nope", "/a/0", "/list/7", "/list/-1", "/list/x", "/list", "/obj", "/number"])
def test_a_path_that_leads_to_no_string_makes_redaction_impossible(path: str) -> None:  # G-37
    body: dict[str, Any] = {"a": "text", "list": ["x"], "obj": {"a": "x"}, "number": 3}
    with pytest.raises(RedactionImpossible):
        redact_body(body, [span(0, 1, path=path)])


def call_body(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"model": "gpt", "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}


async def redacted_arguments(arguments: str) -> Any:
    """Find the canary as the input stage does, redact it, and return the arguments as the model reads them."""
    body = call_body(arguments)
    exchange = Exchange("id", "gpt", "input", CHAT.request_segments(body))
    verdict = await Finds(CANARY).assess(exchange, context("unused"))
    assert verdict.spans
    redact_body(body, verdict.spans)
    text = body["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert CANARY not in text
    return json.loads(text)


MASK = "[REDACTED:canary]"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": "a violet umbrella"}', {"a": f"a {MASK}"}),
        ('{"a": "a violet\\u0020umbrella"}', {"a": f"a {MASK}"}),
        ('{"a": "line\\nviolet umbrella"}', {"a": f"line\n{MASK}"}),
        ('{"a": "violet umbrella \\n violet\\u0020umbrella"}', {"a": f"{MASK} \n {MASK}"}),
        ('{"a": "violet\\u0020umbrella \\n violet umbrella!"}', {"a": f"{MASK} \n {MASK}!"}),
        ('{"a": "violet umbrella", "b": ["x\\ty violet umbrella"]}', {"a": MASK, "b": [f"x\ty {MASK}"]}),
        ('{"a/b": {"~": "\\u0076iolet umbrella"}}', {"a/b": {"~": MASK}}),
        ('["violet umbrella", 1.5, null, true]', [MASK, 1.5, None, True]),
        ('["violet\\u0020umbrella", 123456789012345678901234567890, 1e5]', [MASK, 123456789012345678901234567890, 1e5]),
        ('["violet umbrella", -123456789012345678901234567890]', [MASK, -123456789012345678901234567890]),
    ],
)
async def test_arguments_stay_json_and_keep_nothing(arguments: str, expected: object) -> None:  # G-37, M-07
    assert await redacted_arguments(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        '{"violet umbrella": 1}',  # a key
        "{violet umbrella",  # no JSON
        '{"a": "violet umbrella"',  # cut off
        '{"a": "violet\\u0020umbrella", "n": 1e999}',  # a number that nothing here can hold
    ],
)
async def test_a_hit_that_cannot_be_masked_in_arguments_is_impossible(arguments: str) -> None:  # G-37
    with pytest.raises(RedactionImpossible):
        await redacted_arguments(arguments)


def test_a_number_is_not_masked() -> None:  # G-37
    with pytest.raises(RedactionImpossible):
        mask_arguments('{"card": 4111111111111111}', merge_spans([span(9, 25)])["/a"])


async def test_text_of_a_data_url_cannot_be_redacted_by_its_offsets() -> None:  # G-37: media
    url = f"data:text/plain,{CANARY}"
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": url}}]}]}
    exchange = Exchange("id", "m", "input", CHAT.request_segments(body))
    verdict = await Finds(CANARY).assess(exchange, context("unused"))
    assert verdict.spans
    with pytest.raises(RedactionImpossible):
        redact_body(body, verdict.spans)


def test_free_text_input_of_a_custom_tool_is_masked_as_text() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "run violet umbrella"}}
    body: dict[str, Any] = {"messages": [{"tool_calls": [call]}]}
    redact_body(body, [span(4, 19, "canary", "/messages/0/tool_calls/0/custom/input")])
    assert body["messages"][0]["tool_calls"][0]["custom"]["input"] == f"run {MASK}"


@pytest.mark.parametrize(
    ("content", "spans", "expected"),
    [
        ('{"a": "violet umbrella"}', [(7, 22)], f'{{"a": "{MASK}"}}'),
        ('{"a": 12345678}', [(6, 14)], None),
        ("prose violet umbrella", [(6, 21)], f"prose {MASK}"),
    ],
)
def test_content_that_the_caller_parses_stays_json(
    content: str, spans: list[tuple[int, int]], expected: str | None
) -> None:  # G-37: structured output
    body: dict[str, Any] = {"choices": [{"message": {"content": content}}]}
    found = [span(start, end, "canary", "/choices/0/message/content") for start, end in spans]
    if expected is None:
        with pytest.raises(RedactionImpossible):
            redact_body(body, found, json_content=True)
        return
    redact_body(body, found, json_content=True)
    assert body["choices"][0]["message"]["content"] == expected


TOKENS = ["a ", "violet", " umbrella", "!"]


def logprobs(tokens: list[str], name: str = "content") -> dict[str, Any]:
    entries = [{"token": token, "bytes": list(token.encode()), "logprob": -1.0} for token in tokens]
    text = "".join(tokens)
    return {"choices": [{"index": 0, "message": {name: text}, "logprobs": {name: entries}}]}


@pytest.mark.parametrize("name", ["content", "refusal"])
def test_tokens_of_a_redacted_span_go(name: str) -> None:  # W-09
    reply = logprobs(TOKENS, name)
    CHAT.mask_logprobs(reply, 0, [span(2, 17, path=f"/choices/0/message/{name}")])
    assert [entry["token"] for entry in reply["choices"][0]["logprobs"][name]] == ["a ", "!"]


def test_where_tokens_do_not_fit_the_text_all_of_them_go() -> None:  # W-09
    cut = logprobs(TOKENS)
    cut["choices"][0]["logprobs"]["content"][0] |= {"token": "\\xe2\\x80", "bytes": [226, 128]}
    CHAT.mask_logprobs(cut, 0, [span(2, 17, path="/choices/0/message/content")])
    assert cut["choices"][0]["logprobs"]["content"] is None
    short = logprobs(TOKENS[:2])
    CHAT.mask_logprobs(short, 0, [span(2, 17, path="/choices/0/message/content")])
    assert short["choices"][0]["logprobs"]["content"] is None


def test_arguments_that_are_too_deep_to_be_written_again_are_not_redacted() -> None:  # G-37
    deep = f'{{"a": "{CANARY}", "b": {"[" * 260}{"]" * 260}}}'
    body: dict[str, Any] = {"arguments": deep}
    with pytest.raises(RedactionImpossible, match="too deeply"):
        redact_body(body, [span(7, 22, path="/arguments"), span(0, 15, path="/arguments#a")])
