"""What a guard is shown: turns, context, chunks, tool calls (GU-15 to GU-17, G-12, G-13)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.material import Call, Selection, Turn, cut_text, has_media, plan_calls, to_turns, write
from supervisors.narrowing import Narrowing
from supervisors.testing import exchange
from supervisors.types import Exchange, Kind, Media, Role, Segment

LAST = Selection("prompt", whole=False, max_chars=2_000, overlap=100)
WHOLE = replace(LAST, whole=True)


def plan(found: Exchange, selection: Selection) -> list[Call]:
    return list(plan_calls(found, selection))


def seen(call: Call) -> list[str]:
    return [*[turn.text for turn in call.context], call.text]


def test_each_user_turn_is_judged_after_the_turns_before_it() -> None:
    # GU-16: a harmful earlier turn is found although the last one is harmless.
    calls = plan(exchange("one", "two", "three", system="rules of the house"), LAST)
    assert [seen(call) for call in calls] == [["one"], ["one", "two", "three"]]


def test_a_text_guard_gets_all_turns_as_one_text() -> None:
    calls = plan(exchange("one", "two", "three"), WHOLE)
    assert [call.text for call in calls] == ["User: one\n\nAssistant: two\n\nUser: three"]
    assert [call.text for call in plan(exchange("one"), WHOLE)] == ["one"]


def test_a_last_assistant_turn_of_the_request_is_not_left_out() -> None:
    assert [seen(call) for call in plan(exchange("one", "prefill"), LAST)] == [["one"], ["one", "prefill"]]


def test_an_assistant_turn_that_fits_no_context_gets_its_own_call() -> None:
    # GU-17: "two" alone does not fit in front of the long third turn.
    selection = replace(LAST, max_chars=300, overlap=10)
    calls = plan(exchange("one", "t" * 200, "x" * 250), selection)
    assert [call.text for call in calls] == ["one", "x" * 250, "t" * 200]


def test_a_reply_is_judged_after_the_request() -> None:
    found = exchange("one", "two", "three", stage="output", reply="answer")
    for selection in (replace(LAST, side="response"), replace(WHOLE, side="response")):
        assert [seen(call) for call in plan(found, selection)] == [["one", "two", "three", "answer"]]
    assert [seen(call) for call in plan(found, LAST)] == [["answer"]]


def test_what_a_turn_of_the_other_role_encodes_is_shown_too() -> None:  # G-09
    said = base64.b64encode(b"say violet umbrella please").decode()
    (_, call) = plan(exchange("one", said, "three"), LAST)
    assert 'decoded from base64 in the text above]\n"say violet umbrella please"' in call.context[1].text


def test_the_newest_turns_are_kept_when_context_is_too_long() -> None:
    found = exchange("a" * 250, "b" * 100, "c" * 100, stage="output", reply="answer")
    calls = plan(found, replace(LAST, side="response", max_chars=300, overlap=10))
    assert [seen(call) for call in calls] == [["b" * 100, "c" * 100, "answer"]]


def test_narrowing_by_role_kind_and_turn() -> None:
    found = exchange("one", "two", "three")
    assert [call.text for call in plan(found, replace(LAST, narrowing=Narrowing(turns="last_user")))] == ["three"]
    assert [call.text for call in plan(found, replace(LAST, narrowing=Narrowing(turns="new")))] == ["three"]
    assert [
        call.text for call in plan(found, replace(LAST, narrowing=Narrowing(roles=frozenset[Role]({"assistant"}))))
    ] == ["two"]
    assert plan(found, replace(LAST, narrowing=Narrowing(kinds=frozenset[Kind]({"tool_args"})))) == []


def test_scopes_are_judged_apart_and_only_if_named() -> None:
    # G-04
    found = exchange("one", system="rules")
    calls = plan(found, replace(LAST, scopes=("system", "conversation")))
    assert [(call.scope, call.text) for call in calls] == [("system", "rules"), ("conversation", "one")]


def test_a_tool_call_is_an_assistant_turn_with_name_and_arguments_as_json() -> None:
    # GU-15
    at = "/messages/1/tool_calls/0/function"
    segments = (
        Segment("/messages/0/content", "user", "text", "weather?", 0),
        Segment(f"{at}/name", "assistant", "name", "look_up", 1),
        Segment(f"{at}/arguments#/city", "assistant", "tool_args", 'Genève "centre"', 1),
        Segment(f"{at}/arguments#/unit", "assistant", "tool_args", "C", 1),
        Segment("/messages/2/content", "tool", "tool_result", "rain", 2),
    )
    turns = to_turns(segments)
    assert [turn.speaker for turn in turns] == ["user", "assistant", "user"]
    call = {"name": "look_up", "arguments": {"/city": 'Genève "centre"', "/unit": "C"}}
    assert json.loads(turns[1].text) == call
    assert turns[2] == Turn("user", "rain")
    plain = Segment("/input/3/arguments", "assistant", "tool_args", "{not json", 3)
    assert json.loads(write([plain])) == {"arguments": {"arguments": "{not json"}}


def test_media_is_noticed_and_opaque_parts_are_not_judged() -> None:
    image = Segment("/messages/0/content/0", "user", "media", "", media=Media("image/png", 1, "0" * 64))
    opaque = Segment("/messages/0/content/1", "assistant", "opaque", "bytes")
    assert has_media(Exchange("i", "m", "input", (image,)), LAST)
    assert plan(Exchange("i", "m", "input", (image, opaque)), LAST) == []
    assert not has_media(Exchange("i", "m", "input", (opaque,)), LAST)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=400), st.integers(20, 80), st.integers(0, 10))
def test_chunks_hold_every_character_in_order(text: str, size: int, overlap: int) -> None:
    chunks = list(cut_text(text, size, overlap))
    assert chunks[0] + "".join(chunk[overlap:] for chunk in chunks[1:]) == text
    assert all(len(chunk) <= size for chunk in chunks)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(1, 900)), min_size=1, max_size=6),
    st.sampled_from([LAST, WHOLE, replace(LAST, side="response"), replace(LAST, max_chars=300)]),
)
def test_every_selected_turn_is_whole_in_some_call(turns: list[tuple[Role, int]], selection: Selection) -> None:
    # G-13: canaries at the beginning, in the middle and at the end of every turn.
    texts = [f"<{i}a>" + "x" * size + f"<{i}b>" + "y" * size + f"<{i}c>" for i, (_, size) in enumerate(turns)]
    segments = tuple([Segment(f"/m/{i}", role, "text", texts[i], i) for i, (role, _) in enumerate(turns)])
    calls = plan(Exchange("i", "m", "input", segments), selection)
    shown = [text for call in calls for text in seen(call)]
    for i in range(len(turns)):
        for mark in "abc":
            assert any(f"<{i}{mark}>" in text for text in shown)
    assert all(sum(len(text) for text in seen(call)) <= selection.max_chars for call in calls)


def test_decoded_material_is_appended_once_as_quoted_labelled_text() -> None:
    # G-09
    pytest.importorskip("supervisors.variants")
    calls = plan(exchange("read dmlvbGV0IHVtYnJlbGxh please"), LAST)
    assert calls[0].text.count("violet umbrella") == 1
    assert '[decoded from base64 in the text above]\n"violet umbrella"' in calls[0].text
    assert plan(exchange("hello"), LAST)[0].text == "hello"
