"""Embeddings: every text of the input is in one segment, and a route without replies says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Head, Notice
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.errors import RequestError
from proxy.wire.inputs import TOKENS

_texts = st.text(max_size=8)
_tokens = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.lists(_texts | _tokens, min_size=1, max_size=4), _texts)
def test_every_input_is_one_segment_of_its_own_turn(inputs: list[Any], extra: str) -> None:  # G-01, M-11
    found = EMBEDDINGS.request_segments({"model": "m", "input": inputs, "task": {"prefix": extra}})
    if all(isinstance(one, int) for one in inputs):
        return
    expected = [
        (f"/input/{turn}", turn, "text" if isinstance(one, str) else TOKENS)
        for turn, one in enumerate(inputs)
        if one != ""
    ]
    kinds = [(one.path, one.turn, one.media.mime if one.media else one.kind) for one in found if "#" not in one.path]
    assert kinds == [*expected, *([("/task/prefix", 0, "other")] if extra else [])]


@pytest.mark.parametrize("word", ["float", "base64"])
def test_documented_words_and_ids_are_not_judged(word: str) -> None:  # G-01
    body = {"model": "m", "input": "x", "encoding_format": word, "user": "u", "dimensions": 3}
    assert [one.path for one in EMBEDDINGS.request_segments(body)] == ["/input"]
    assert len(EMBEDDINGS.request_segments(body | {"encoding_format": "violet umbrella"})) == 2


@pytest.mark.parametrize("value", [7, {"text": "x"}, [{"text": "x"}], [None], [1.5], list[object]()])
def test_an_input_of_another_shape_is_refused(value: object) -> None:  # W-21
    with pytest.raises(RequestError):
        EMBEDDINGS.request_segments({"model": "m", "input": value})


def test_there_is_nothing_to_judge_block_or_stream_in_a_reply() -> None:
    reply: dict[str, Any] = {"object": "list", "data": [{"embedding": [0.5]}]}
    EMBEDDINGS.block_choices(reply, [0], Notice("No."))
    EMBEDDINGS.mask_logprobs(reply, 0, [])
    assert reply == {"object": "list", "data": [{"embedding": [0.5]}]}
    assert EMBEDDINGS.reply_segments(reply, 1, {}) == {}
    assert EMBEDDINGS.finish_reasons(reply) == {}
    with pytest.raises(ValueError, match="cannot hold a notice"):
        EMBEDDINGS.refusal_reply(EMBEDDINGS.new_head("r", 1, "m"), 1, EMBEDDINGS.notice({}, "No."))
    with pytest.raises(ValueError, match="never streams"):
        EMBEDDINGS.open_frames(Head(), {})
