"""In whatever order a client puts the events of a response together, it reads nothing unjudged (G-03, G-06)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.responses import RESPONSES
from proxy.wire.sse import SseParser
from tests.e2e.fake_responses import frames as response_frames
from tests.e2e.fake_responses import stream
from tests.proxy.wire.test_completeness import CANARY, QUICK
from tests.proxy.wire.test_whole_and_streamed import AFTER, BEFORE, PLACES, cut, is_said, judge_stream, told

Json = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
NAMES = ("output_text", "reasoning_text", "function_call_arguments", "custom_tool_call_input")
FORMS: Sequence[Callable[[str], Any]] = (str, str, lambda text: {"text": text}, lambda text: [{"text": text}])
WAYS: Sequence[Callable[[Json], object]] = (
    lambda event: None,
    lambda event: event.get("item_id"),
    lambda event: event.get("output_index"),
    lambda event: (event.get("item_id"), event.get("output_index")),
)
"""What clients tell texts apart by."""
OTHERS = st.lists(st.sampled_from(["so ", "it is", "x"]), max_size=2)


def events_of(raw: bytes) -> list[Json]:
    return [orjson.loads(frame.data) for frame in SseParser().feed(raw) if frame.data and frame.data != b"[DONE]"]


def texts_of(events: Sequence[Json]) -> set[str]:
    """Return what clients read that join deltas."""
    texts: dict[object, str] = {}
    for event in events:
        for way, key in enumerate(WAYS if str(event.get("type")).endswith(".delta") else ()):
            texts[way, key(event)] = texts.get((way, key(event)), "") + told(event)
    return {*texts.values()}


def states_of(events: Sequence[Json]) -> set[str]:
    """Return what a client reads that takes a text so far for all there is, at each such text and at the end."""
    states: set[str] = set()
    text = ""
    for event in events:
        name = str(event.get("type"))
        if name.endswith(".delta"):
            text += told(event)
        elif name in ("response.in_progress", "response.content_part.added"):
            text = told(event)
            states.add(text)
    return states | {text}


def turns(draw: Draw) -> list[Json]:
    """Return deltas of a few items that take turns, told apart by id, number, both or neither."""
    name = draw(st.sampled_from(NAMES))
    others: list[str] = draw(OTHERS)
    texts = [str(draw(BEFORE)) + CANARY + str(draw(AFTER)), *others]
    waiting: list[tuple[int, list[str]]] = [(number, cut(text, draw(PLACES))) for number, text in enumerate(texts)]
    numbered, named = draw(st.sampled_from([(True, True), (True, False), (False, True), (False, False)]))
    first = draw(st.booleans())
    events: list[Json] = []
    while waiting:
        place: int = draw(st.integers(0, len(waiting) - 1))
        number, pieces = waiting[place]
        at: Json = {"item_id": f"i{number}"} if named else {}
        at |= {"output_index": 0 if named and first else number} if numbered else {}
        events.append({"type": f"response.{name}.delta", **at, "delta": draw(st.sampled_from(FORMS))(pieces.pop(0))})
        if not pieces:
            waiting.remove((number, pieces))
    return events


def snapshots(draw: Draw) -> list[Json]:
    """Return deltas of one part, and between them what its text is said to be so far."""
    pieces = cut(draw(BEFORE) + CANARY + draw(AFTER), draw(PLACES))
    at: Json = {"item_id": "i", "output_index": 0, "content_index": 0}
    events: list[Json] = []
    said = ""
    for text in pieces:
        said += text
        if draw(st.booleans()):
            events.append({"type": "response.output_text.delta", **at, "delta": text})
            continue
        part: Json = {"type": "output_text", "text": said if draw(st.booleans()) else text, "annotations": []}
        item: Json = {"id": "i", "type": "message", "role": "assistant", "status": "in_progress", "content": [part]}
        added: Json = {"type": "response.content_part.added", **at, "part": part}
        whole: Json = {
            "type": "response.in_progress",
            "response": {"id": "r", "status": "in_progress", "output": [item]},
        }
        events.append(draw(st.sampled_from([added, whole])))
    return events


@pytest.mark.parametrize("shape", [turns, snapshots], ids=lambda shape: shape.__name__)
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_no_client_reads_what_was_not_judged(shape: Callable[[Draw], list[Json]], data: st.DataObject) -> None:
    events = shape(data.draw)
    raw = b"".join(response_frames(stream(*events)))
    found, sent = judge_stream(
        RESPONSES,
        raw,
        data.draw(PLACES),
        on_unsafe=data.draw(st.sampled_from(["block", "redact"])),
        stream={
            "mode": data.draw(st.sampled_from(["hold", "window", "sentence"])),
            "window_chars": data.draw(st.sampled_from([1, 12, 1000])),
        },
    )
    assert found or not any(map(is_said, texts_of(events) | states_of(events)))
    left = events_of(sent)
    assert not any(map(is_said, texts_of(left) | states_of(left)))
