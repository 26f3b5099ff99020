"""Legacy completions: every text of request and reply is in one segment, and what the proxy writes itself."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Frames, Head, Notice
from proxy.wire.completions import COMPLETIONS, TENSORS
from proxy.wire.errors import RequestError
from proxy.wire.inputs import TOKENS
from proxy.wire.segments import escape
from proxy.wire.sse import Frame, data_frame
from supervisors.types import Span

CANARY = "violet umbrella"
STRUCTURAL = {"model", "stop", "user", "metadata", "stream_options", "service_tier"}
FREE = ("suffix", "response_format", "guided_json", "future_field", "template")

_leaves = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=6))
_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
_texts = st.text(max_size=8)


@st.composite
def _bodies(draw: st.DrawFn) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "max_tokens": 3, "stop": draw(_values)}
    body["prompt"] = draw(st.one_of(st.none(), _texts, st.lists(_texts | st.lists(st.integers(0, 9), min_size=1))))
    for name in draw(st.sets(st.sampled_from(FREE))):
        body[name] = draw(_values)
    return body


def _texts_below(value: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(path, value)] if value else []
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = [(escape(key), child) for key, child in cast("Any", value).items()]
    elif isinstance(value, list):
        children = [*enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # JSON
    return [leaf for key, child in children for leaf in _texts_below(child, f"{path}/{key}")]


@settings(max_examples=150, deadline=None)
@given(_bodies())
def test_every_text_of_a_request_is_in_exactly_one_segment(body: dict[str, Any]) -> None:  # G-01
    if body["prompt"] == []:
        with pytest.raises(RequestError):
            COMPLETIONS.request_segments(body)
        return
    expected = [leaf for key, value in body.items() if key not in STRUCTURAL for leaf in _texts_below(value, f"/{key}")]
    found = [
        (one.path, one.text)
        for one in COMPLETIONS.request_segments(body)
        if one.kind != "media" and "#" not in one.path  # names have a test of their own
    ]
    assert sorted(found) == sorted(expected)


@settings(max_examples=100, deadline=None)
@given(_values, _texts)
def test_every_text_of_a_reply_is_in_exactly_one_segment(value: Any, text: str) -> None:  # G-01, G-06
    choice = {"index": 0, "text": text, "logprobs": {"tokens": ["x"]}, "finish_reason": "stop", "extra": value}
    reply = {"id": "i", "object": "text_completion", "model": "m", "choices": [choice], "beside": value}
    found = [(one.path, one.text) for one in COMPLETIONS.reply_segments(reply, 1, {})[0] if "#" not in one.path]
    spelled = ("/choices/0/logprobs/tokens", "x")
    expected = [*_texts_below(text, "/choices/0/text"), *_texts_below(value, "/choices/0/extra")]
    assert sorted(found) == sorted([*expected, *_texts_below(value, "/beside"), *([spelled] if text != "x" else [])])


@settings(max_examples=100, deadline=None)
@given(_values, st.text(min_size=1, max_size=6))
def test_a_frame_gives_the_texts_of_its_reply(value: Any, text: str) -> None:  # G-06
    body = {"id": "i", "choices": [{"index": 0, "text": text, "finish_reason": None, "extra": value}], "beside": value}
    (chunk,) = _frames().read(_frame(body))
    expected = [text for _, text in [*_texts_below(text, ""), *_texts_below(value, ""), *_texts_below(value, "")]]
    found = [piece.text for piece in chunk.pieces if piece.text and not piece.field.endswith(("#key", "#keys"))]
    assert sorted(found) == sorted(expected)


def test_prompts_are_turns_and_token_arrays_are_media() -> None:  # G-05, M-11
    segments = COMPLETIONS.request_segments({"prompt": ["one", [1, 2], "three"], "suffix": "end"})
    assert [(one.path, one.kind, one.text, one.turn) for one in segments] == [
        ("/prompt/0", "text", "one", 0),
        ("/prompt/1", "media", "", 1),
        ("/prompt/2", "text", "three", 2),
        ("/suffix", "suffix", "end", 2),
    ]
    (tokens,) = COMPLETIONS.request_segments({"prompt": [5, 6]})
    assert (tokens.path, tokens.media.mime if tokens.media else "") == ("/prompt", TOKENS)


@pytest.mark.parametrize("embeds", ["AAAA", ["AAAA", "BBBB"]])
def test_prompts_given_as_embeddings_are_media_too(embeds: object) -> None:  # G-05
    segments = COMPLETIONS.request_segments({"prompt_embeds": embeds})
    assert {one.media.mime if one.media else "" for one in segments} == {TENSORS}


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (7, "prompt"),
        ({"a": CANARY}, "prompt"),
        (list[object](), "prompt"),
        (["x", None], "prompt[1]"),
        ([True], "prompt[0]"),
        (list[object]([list[object]()]), "prompt[0]"),
        ([1, "x"], "prompt[0]"),
        ([[1, "x"]], "prompt[0]"),
        ([{"text": CANARY}], "prompt[0]"),
    ],
)
def test_a_prompt_of_another_shape_is_refused(prompt: object, param: str) -> None:  # W-21
    with pytest.raises(RequestError) as refused:
        COMPLETIONS.request_segments({"prompt": prompt})
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("prompt", "n", "count"), [("a", None, 1), (None, 2, 2), (["a", "b"], 3, 6), ([1, 2, 3], 2, 2), ([[1], [2]], 1, 2)]
)
def test_choices_are_prompts_times_n(prompt: object, n: int | None, count: int) -> None:  # wire §7
    assert COMPLETIONS.choice_count({"prompt": prompt, "n": n}) == count


def test_a_redaction_takes_the_tokens_of_its_span_along() -> None:  # W-09
    logprobs = {
        "tokens": ["a ", "vio", "let", " end"],
        "token_logprobs": [-1, -2, -3, -4],
        "top_logprobs": [{"a ": -1}, {"vio": -2}, {"let": -3}, {" end": -4}],
        "text_offset": [0, 2, 5, 8],
    }
    reply = {"choices": [{"index": 0, "text": "a [REDACTED:x] end", "logprobs": logprobs}]}
    COMPLETIONS.mask_logprobs(reply, 0, [Span("/choices/0/text", 2, 8, "x")])
    assert reply["choices"][0]["logprobs"] == {
        "tokens": ["a ", " end"],
        "token_logprobs": [-1, -4],
        "top_logprobs": [{"a ": -1}, {" end": -4}],
        "text_offset": [0, 8],
    }


@pytest.mark.parametrize(
    "logprobs",
    [
        {"tokens": ["bytes:\\xc3", "bytes:\\xa9", " violet", "!"], "token_logprobs": [-1, -1, -1, -1]},
        {"tokens": ["é violet!"], "token_logprobs": [-1, -2]},
    ],
)
def test_log_probabilities_that_do_not_spell_the_text_go_altogether(logprobs: dict[str, Any]) -> None:  # W-09
    reply = {"choices": [{"index": 0, "text": "é [REDACTED:x]!", "logprobs": logprobs}]}
    COMPLETIONS.mask_logprobs(reply, 0, [Span("/choices/0/text", 2, 8, "x")])
    assert reply["choices"][0]["logprobs"] is None


def test_our_own_frames_are_valid_frames_of_this_route() -> None:  # wire §5.2, W-28
    frames = _frames()
    raw = frames.notice(1, Notice("No."), released=True) + frames.empty()
    bodies = [orjson.loads(line[6:]) for line in raw.split(b"\n\n") if line]
    choices = [body["choices"][0] for body in bodies]
    assert [(one["index"], one["text"], one["finish_reason"]) for one in choices] == [
        (1, "\n\nNo.", None),
        (1, "", "content_filter"),
        (0, "", None),
    ]
    assert all(body["object"] == "text_completion" and body["id"] == "cmpl-1" for body in bodies)


def test_tokens_that_spell_another_text_are_judged() -> None:  # W-09, G-06
    logprobs = {"tokens": ["vio", "let"], "token_logprobs": [-1, -1]}
    for text, fields in (("violet", ["/text"]), ("fine", ["/text", "/logprobs/tokens"])):
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": None}
        (chunk,) = _frames().read(_frame({"id": "i", "choices": [choice]}))
        assert [piece.field for piece in chunk.pieces] == fields


@pytest.mark.parametrize("choices", [["text"], [{"index": "0", "text": CANARY}]])
def test_a_frame_without_a_proper_choice_is_no_frame_of_this_route(choices: object) -> None:
    with pytest.raises(ValueError, match="integer index"):
        _frames().read(_frame({"choices": choices}))


def _frames() -> Frames:
    return COMPLETIONS.open_frames(Head({"id": "cmpl-1", "created": 1, "model": "m"}), {})


def _frame(body: object) -> Frame:
    raw = data_frame(body)
    return Frame(raw, raw[6:-2])
