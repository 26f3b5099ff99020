"""Texts that come in turns are judged one by one and as they come (G-03, S-01)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.cutting import BadStream
from proxy.wire.adapter import Piece
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import SseParser
from proxy.wire.turns import Place, Source, Turns
from tests.proxy.test_readings import MODES, event, messages, relay, responses
from tests.proxy.wire.test_completeness import QUICK

NAMES = {"text": "response.output_text.delta", "reasoning": "response.reasoning_text.delta"}


def deltas(*texts: tuple[int, str], kind: str = "text") -> list[bytes]:
    """Return the deltas of parts by number."""
    at = {"item_id": "i", "output_index": 0, "sequence_number": 1}
    return responses(*[event(NAMES[kind], **at, content_index=number, delta=text) for number, text in texts])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    "texts",
    [
        [(0, "my umb"), (1, "never"), (0, "rella")],
        [(0, "sun"), (1, "so "), (0, "umbrella"), (1, " stand")],
        [(0, "sun"), (1, "my umb"), (0, "rella"), (1, " stand")],
        [(0, "a "), (1, "b "), (0, "my "), (2, "um"), (1, "b"), (2, "rella"), (0, " it is")],
    ],
)
def test_a_word_is_found_by_number_and_as_it_comes(
    texts: list[tuple[int, str]], kind: str, action: str, mode: str
) -> None:
    frames = deltas(*texts, kind=kind)
    assert b"rella" not in relay(RESPONSES, frames, on_unsafe=action, stream={"mode": mode, "window_chars": 1})


def test_texts_in_turns_leave_when_nobody_objects() -> None:
    frames = deltas((0, "all "), (1, "is "), (0, "well "), (1, "now "))
    sent = relay(RESPONSES, frames, on_unsafe="redact", stream={"window_chars": 1})
    assert [text in sent for text in (b"all ", b"is ", b"well ", b"now ")] == [True] * 4
    assert b"response.completed" in sent


@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_blocks_of_a_message_that_come_in_turns_cannot_be_read(kind: str) -> None:
    start = [event("content_block_start", index=i, content_block={"type": kind, kind: ""}) for i in (0, 1)]
    said = [
        event("content_block_delta", index=i, delta={"type": f"{kind}_delta", kind: text})
        for i, text in ((0, "my umb"), (1, "never"), (0, "rella"))
    ]
    with pytest.raises(BadStream):
        relay(MESSAGES, messages(*start, *said))


def say(name: str, *places: tuple[str | None, int | None, Any]) -> list[bytes]:
    """Return events that add texts to places told by the id and the number of an item, where they have them."""
    said: list[bytes] = []
    for item, number, text in places:
        at = {key: value for key, value in (("item_id", item), ("output_index", number)) if value is not None}
        said.append(event(name, sequence_number=1, **at, delta=text))
    return responses(*said)


DELTAS = (
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
)
BY_ID = (
    [("a", None, "my umb"), ("b", None, "never "), ("a", None, "rella")],
    [("a", 0, "my umb"), ("b", 0, "never "), ("a", 0, "rella")],
    [("a", 0, "my umb"), ("b", 1, "never "), ("a", 2, "rella")],
    [("b", 0, "sun"), ("a", 0, "umbrella"), ("b", 0, "stand")],
    [("b", 0, "so "), ("a", 0, "umb"), ("a", 0, "rella"), ("b", 0, "stand")],
    [(None, 0, "umbrella"), (None, None, "stand")],
    [(None, 1, "umb"), (None, 0, "so "), (None, None, "it is "), (None, 1, "rella"), (None, None, "so")],
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("name", [*DELTAS, "response.poem.delta"])
@pytest.mark.parametrize("places", BY_ID)
def test_a_word_is_found_by_the_id_of_an_item_as_well_as_by_its_number(
    places: Sequence[tuple[str | None, int | None, str]], name: str, action: str, mode: str
) -> None:
    sent = relay(RESPONSES, say(name, *places), on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b"rella" not in sent


@pytest.mark.parametrize("mode", MODES)
def test_unknown_events_are_read_as_they_come(mode: str) -> None:
    frames = say("response.poem.delta", ("a", 0, "my umb"), ("b", 1, "rella"))
    assert b"rella" not in relay(RESPONSES, frames, stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize(
    "texts",
    [
        ["my umb", {"text": "rella"}],
        [{"text": "my umb"}, "rella"],
        [[{"text": "my umb"}, {"text": "rella"}]],
        [[{"type": "text", "text": [{"text": "my umb"}]}], {"text": "rella"}],
        [{"text": "umbrella"}, "stand"],
    ],
)
def test_a_delta_in_parts_is_read_as_part_of_its_text_and_alone(texts: Sequence[Any], action: str, mode: str) -> None:
    frames = say(DELTAS[0], *[("a", 0, text) for text in texts])
    assert b"rella" not in relay(RESPONSES, frames, on_unsafe=action, stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("name", DELTAS)
@pytest.mark.parametrize("before", [0, 7, 8, 9, 40])
def test_a_text_with_an_id_of_its_own_is_judged_alone_however_many_there_are(
    before: int, name: str, action: str, mode: str
) -> None:  # S-01, G-06
    places = [(f"id{number}", 0, text) for number, text in enumerate(["all "] * before + ["umbrella", "stand"])]
    sent = relay(RESPONSES, say(name, *places), on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b'"umbrella"' not in sent


@pytest.mark.parametrize(
    "ids", [([1], [2], [3]), ({"a": 1}, {"a": 2}, {}), (1.5, 2.5, 3.5)], ids=["lists", "objects", "numbers"]
)
@pytest.mark.parametrize("action", ["block", "redact"])
def test_an_id_of_any_type_is_an_id(ids: Sequence[Any], action: str) -> None:  # S-01
    places = [(one, 0, text) for one, text in zip(ids, ["all ", "umbrella", "stand"], strict=True)]
    assert b'"umbrella"' not in relay(RESPONSES, say(DELTAS[0], *places), on_unsafe=action)


def test_ids_that_are_another_each_time_hide_no_word_that_is_told_in_parts() -> None:
    texts = ["all "] * 9 + ["um", "brel", "la", " it is"]
    frames = say(DELTAS[0], *[(f"id{number}", 0, text) for number, text in enumerate(texts)])
    assert b'"la"' not in relay(RESPONSES, frames, on_unsafe="redact")
    frames = say(DELTAS[0], *[(f"id{number}", 0, text) for number, text in enumerate(["all ", "is ", "well "] * 9)])
    assert relay(RESPONSES, frames, on_unsafe="redact").count(b'"delta":"well "') == 9


WAYS = ("alone", "item_id", "output_index", "both", "come")
"""What clients tell texts apart by; `alone` is a text that ends where one of its number begins with another id."""


def read_ways(events: Sequence[Any]) -> dict[object, str]:
    """Return every text that a client may read."""
    texts: dict[object, str] = {}
    last: dict[int, tuple[int, str]] = {}
    for told in events:
        if not str(told.get("type")).endswith(".delta"):
            continue
        item, number = told["item_id"], told["output_index"]
        turn, before = last.get(number, (0, item))
        last[number] = (turn + (before != item), item)
        for key in zip(WAYS, ((number, last[number]), item, number, (item, number), None), strict=True):
            texts[key] = texts.get(key, "") + told["delta"]
    return texts


def parsed(raw: bytes) -> list[Any]:
    return [orjson.loads(frame.data) for frame in SseParser().feed(raw) if frame.data]


SAID = st.sampled_from(["umbrella", "um", "brella", "k", "so ", "x", " "])
DELTA = st.tuples(st.integers(0, 15), st.integers(0, 1), SAID)


@settings(max_examples=150, deadline=None, phases=QUICK)
@given(
    deltas=st.lists(DELTA, min_size=9, max_size=30),
    mode=st.sampled_from(MODES),
    action=st.sampled_from(["block", "redact"]),
    name=st.sampled_from(DELTAS[:2]),
)
def test_no_number_of_ids_makes_a_word_unread(
    deltas: Sequence[tuple[int, int, str]], mode: str, action: str, name: str
) -> None:  # S-01, G-06
    frames = say(name, *[(f"i{item}", number, text) for item, number, text in deltas])
    sent = relay(RESPONSES, frames, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    said, left = read_ways(parsed(b"".join(frames))), read_ways(parsed(sent))
    assert [key for key, text in said.items() if is_word(text) and is_word(left.get(key, ""))] == []
    if not any("umbrella" in text.replace(" ", "") for text in said.values()):  # rules read spread letters, too
        assert left == said


def is_word(text: str) -> bool:
    return re.search(r"\bumbrella\b", text) is not None


def test_a_number_that_is_a_truth_value_cannot_be_read() -> None:
    with pytest.raises(BadStream):
        relay(RESPONSES, say(DELTAS[0], ("a", False, "so it is")))


def follow(*places: tuple[Place, str, str]) -> list[list[Piece]]:
    turns = Turns()
    return [turns.follow(Source("text", "text", field), place, text) for place, field, text in places]


def test_texts_that_follow_one_another_add_nothing() -> None:
    parts = [(Place(f"i{item}", item, part), f"/output/{item}/{part}") for item in range(3) for part in range(3)]
    assert follow(*[(place, field, text) for place, field in parts for text in ("a", "b")]) == [[]] * 18


def test_readings_that_say_the_same_are_one() -> None:
    a, b = (Place("a", 0, 0), "/a"), (Place("b", 1, 0), "/b")
    found = follow((*a, "1"), (*b, "2"), (*a, "3"), (*b, "4"))
    assert found[:2] == [[], []]
    assert [piece.field for piece in found[3]] == ["/text/0#joined"] * 2
    assert "".join([piece.text for pieces in found for piece in pieces]) == "1234"


def test_a_reading_that_two_shared_goes_on_twice() -> None:
    a0, a1, b0 = (Place("a", 0, 0), "/0"), (Place("a", 1, 0), "/1"), (Place("b", 0, 0), "/0")
    found = [piece for pieces in follow((*a0, "1"), (*b0, "2"), (*a0, "3"), (*a1, "4"), (*b0, "5")) for piece in pieces]
    told: dict[str, str] = {}
    for piece in found:
        told[piece.field] = told.get(piece.field, "") + piece.text
    assert {"134", "12345", "25"} <= {*told.values()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize(
    "inner",
    [
        [{"type": "text_delta", "text": "my umb"}, {"type": "foo_delta", "text": "rella"}],
        [{"type": "foo_delta", "text": "my umb"}, {"text": "rella"}],
        [{"type": "text_delta", "text": ["my umb", "rella"]}],
        [{"type": "text_delta", "text": "my umb"}, {"type": "text_delta", "text": [{"text": "rella"}]}],
        [{"type": "text_delta", "text": "my umb", "more": "rella"}],
        [{"type": "foo_delta", "thinking": "my umb"}, {"type": "thinking_delta", "thinking": ["rella"]}],
        [{"type": "foo_delta", "text": "umbrella"}, {"type": "text_delta", "text": "stand"}],
    ],
)
def test_a_text_of_a_block_is_read_whatever_its_deltas_are_called(inner: Any, action: str, mode: str) -> None:
    frames = messages(
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *[event("content_block_delta", index=0, delta=delta) for delta in inner],
        event("content_block_stop", index=0),
    )
    assert b"rella" not in relay(MESSAGES, frames, on_unsafe=action, stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_a_block_may_begin_with_its_text_in_parts(kind: str, mode: str) -> None:
    frames = messages(
        event("content_block_start", index=0, content_block={"type": kind, kind: [{"type": "text", "text": "my umb"}]}),
        event("content_block_delta", index=0, delta={"type": f"{kind}_delta", kind: "rella"}),
        event("content_block_stop", index=0),
    )
    assert b"rella" not in relay(MESSAGES, frames, stream={"mode": mode, "window_chars": 1})


def test_a_block_that_began_with_a_text_does_not_go_on_after_another() -> None:
    start = [event("content_block_start", index=i, content_block={"type": "text", "text": "so "}) for i in (0, 1)]
    more = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "it is"})
    with pytest.raises(BadStream):
        relay(MESSAGES, messages(*start, more))
