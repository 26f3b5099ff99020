"""Reading replies of model servers: both shapes, and everything that may be missing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.chat import error_word, parse_chat_reply
from supervisors.errors import ReplyError
from supervisors.types import ChatReply, TokenAlternatives, Tokens
from tests.e2e.fake_upstream import chat_reply

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "text", "logprobs", "top_logprobs", "usage", "token"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def with_logprobs(logprobs: object) -> ChatReply:
    return parse_chat_reply(chat_reply("yes", logprobs=logprobs))


def test_a_usual_reply_is_read_whole() -> None:
    reply = parse_chat_reply(chat_reply("hi") | {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.25}})
    assert reply == ChatReply("hi", "stop", None, "fake-model", Tokens(7, 3), 0.25)


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, None), ("", ""), ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab")],
)
def test_content_may_be_null_empty_or_parts(content: object, text: str | None) -> None:
    assert parse_chat_reply(chat_reply(message={"role": "assistant", "content": content})).text == text


def test_absent_content_with_a_refusal_is_a_refusal() -> None:
    reply = parse_chat_reply(chat_reply(message={"refusal": "I can't."}))
    assert (reply.text, reply.refusal) == (None, "I can't.")


def test_a_legacy_completion_has_its_text_in_the_choice() -> None:
    reply = parse_chat_reply({"choices": [{"text": " violet", "finish_reason": "length"}]})
    assert (reply.text, reply.finish_reason, reply.tokens, reply.model) == (" violet", "length", None, None)


def test_log_probabilities_in_the_chat_shape() -> None:
    top = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]
    reply = with_logprobs({"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": top}]})
    assert reply.logprobs == (TokenAlternatives("yes", (("yes", -0.1), ("no", -2.5))),)


def test_log_probabilities_in_the_legacy_shape() -> None:
    reply = with_logprobs({"tokens": ["yes"], "token_logprobs": [-0.1], "top_logprobs": [{"no": -2, "yes": -0.1}]})
    assert reply.logprobs == (TokenAlternatives("yes", (("no", -2.0), ("yes", -0.1))),)


def test_the_chosen_token_is_among_its_alternatives_even_if_the_server_left_it_out() -> None:
    none: list[object] = []
    reply = with_logprobs({"content": [{"token": "maybe", "logprob": -3, "top_logprobs": none}]})
    assert reply.logprobs == (TokenAlternatives("maybe", (("maybe", -3.0),)),)


UNREADABLE: list[Any] = [
    None,
    {},
    {"content": None},
    {"content": []},
    {"content": [None]},
    {"content": [{"token": 5, "logprob": -1}]},
    {"content": [{"token": "a", "logprob": None}]},
    {"content": [{"token": "a", "logprob": -1.0}, {}]},
    {"content": [{"token": "a", "logprob": math.nan}]},
    {"content": [{"token": "a", "logprob": -1, "top_logprobs": ["b"]}]},
    {"tokens": ["a"], "token_logprobs": []},
    {"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": []},
]


@pytest.mark.parametrize("logprobs", UNREADABLE)
def test_log_probabilities_that_are_missing_or_unreadable_are_absent(logprobs: object) -> None:
    reply = with_logprobs(logprobs)
    assert reply.logprobs is None or reply.logprobs[0].alternatives == (("a", -1.0),)
    assert reply.text == "yes"


def test_a_choice_without_the_key_logprobs_is_read() -> None:  # LU-20
    choice = {"index": 0, "message": {"content": ""}, "finish_reason": "length"}
    assert parse_chat_reply({"choices": [choice]}).logprobs is None


OTHER_SHAPES: list[Any] = [
    None,
    [],
    "text",
    {},
    {"choices": []},
    {"choices": {}},
    {"choices": [5]},
    {"choices": [{}]},
    {"choices": [{"message": "hi"}]},
    {"choices": [{"message": {"content": 5}}]},
    {"error": {"message": "no"}},
]


@pytest.mark.parametrize("body", OTHER_SHAPES)
def test_other_shapes_are_reply_errors(body: object) -> None:
    with pytest.raises(ReplyError) as caught:
        parse_chat_reply(body)
    assert caught.value.detail in ("no_choices", "bad_shape")


@pytest.mark.parametrize("usage", [None, 5, {}, {"prompt_tokens": "7"}, {"prompt_tokens": True}, {"prompt_tokens": -1}])
def test_usage_that_cannot_be_read_is_absent(usage: object) -> None:
    reply = parse_chat_reply(chat_reply() | {"usage": usage})
    assert (reply.tokens, reply.cost) == (None, None)


@settings(max_examples=60)
@given(body=JSON)
def test_any_json_is_read_or_refused(body: Any) -> None:
    try:
        reply = parse_chat_reply(body)
    except ReplyError:
        return
    assert reply.text is None or isinstance(reply.text, str)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ({"code": "context_length_exceeded", "type": "x"}, "context_length_exceeded"),
        ({"code": 400, "type": "exceed_context_size_error"}, "exceed_context_size_error"),  # LU-24
        ({"code": None, "type": "not_found_error"}, "not_found_error"),
        ({"code": "400"}, None),
        ({"code": "two words"}, None),
        ({"code": "org-a1b2c3"}, None),
        ({"code": "https://host/x"}, None),
        ("a sentence", None),
        (None, None),
    ],
)
def test_the_word_of_an_error_body_is_a_word_or_nothing(error: object, word: str | None) -> None:
    assert error_word({"error": error}) == word


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"5"])
def test_a_body_that_is_no_error_object_has_no_word(body: bytes) -> None:
    assert error_word(body) is None
