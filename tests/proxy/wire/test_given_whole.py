"""A text that an event gives as a whole is judged as it stands there, and as the beginning of what follows (G-06)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from proxy.cutting import BadStream
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from supervisors.rules import Rules
from tests.proxy.test_readings import MODES, event, messages, relay, responses

Json = dict[str, Any]
NAMED = {"item_id": "i", "output_index": 0, "sequence_number": 1}
PART = {**NAMED, "content_index": 0}
WORD = "umbrella"


def item(content: list[Json]) -> Json:
    return {"type": "message", "id": "i", "role": "assistant", "status": "in_progress", "content": content}


def snapshot(name: str, text: str) -> bytes:
    """Return an event of this name that gives the text of the first part as it is so far."""
    part: Json = {"type": "output_text", "text": text, "annotations": []}
    members: Json = PART
    match name:
        case "response.created" | "response.in_progress":
            members = {"response": {"id": "r", "status": "in_progress", "output": [item([part])]}}
        case "response.output_item.added":
            members = {"output_index": 0, "item": item([part])}
        case _:
            members = {**PART, "part": part}
    return event(name, **{"sequence_number": 1, **members})


def delta(text: str, **more: Any) -> bytes:
    return event("response.output_text.delta", **{**PART, **more}, delta=text)


SNAPSHOTS = ("response.created", "response.in_progress", "response.output_item.added", "response.content_part.added")
FIELDS: Mapping[str, tuple[Json, str]] = {
    "refusal": ({"type": "refusal", "refusal": WORD}, "response.refusal.delta"),
    "thought": ({"type": "reasoning_text", "text": WORD}, "response.reasoning_text.delta"),
}
CALLS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "code_interpreter_call": "code",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_text_so_far_is_judged_although_it_goes_on(name: str, action: str, mode: str) -> None:
    for said in ([snapshot(name, WORD), delta("stand")], [delta(WORD), snapshot(name, WORD), delta("stand")]):
        sent = relay(RESPONSES, responses(*said), on_unsafe=action, stream={"mode": mode, "window_chars": 1})
        assert f'"{WORD}"'.encode() not in sent


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", FIELDS)
def test_so_is_a_part_of_any_kind(shape: str, mode: str) -> None:
    part, name = FIELDS[shape]
    said = [event("response.content_part.added", **PART, part=part), event(name, **PART, delta="stand")]
    assert WORD.encode() not in relay(RESPONSES, responses(*said), stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", CALLS)
def test_so_are_the_arguments_of_a_call(kind: str, mode: str) -> None:
    call = {"type": kind, "id": "i", "name": "f", "status": "in_progress", CALLS[kind]: WORD}
    more = event(f"response.{kind}_{CALLS[kind]}.delta", **NAMED, delta="stand")
    said = [event("response.output_item.added", sequence_number=1, output_index=0, item=call), more]
    assert WORD.encode() not in relay(RESPONSES, responses(*said), stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_follows_goes_on_behind_the_text_that_was_given_last(name: str, mode: str) -> None:
    said = [delta("my "), snapshot(name, "so my umb"), delta("rella")]
    sent = relay(RESPONSES, responses(*said), stream={"mode": mode, "window_chars": 1})
    assert b"rella" not in sent


def test_a_text_given_in_many_other_ways_before_its_end_cannot_be_read() -> None:
    said = [delta("so"), *[snapshot("response.in_progress", f"no {number}") for number in range(5)]]
    with pytest.raises(BadStream):
        relay(RESPONSES, responses(*said))


def test_a_text_so_far_that_repeats_what_came_changes_nothing() -> None:
    said = [delta("all is "), snapshot("response.in_progress", "all is "), delta("well")]
    frames = responses(
        *[one.replace(b'"sequence_number":1', b'"sequence_number":%d' % i) for i, one in enumerate(said, 1)]
    )
    assert relay(RESPONSES, frames).startswith(b"".join(frames[:-1]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_a_block_that_begins_with_a_text_is_judged_as_it_begins(kind: str, action: str, mode: str) -> None:
    said = [
        event("content_block_start", index=0, content_block={"type": kind, kind: WORD}),
        event("content_block_delta", index=0, delta={"type": f"{kind}_delta", kind: "stand"}),
        event("content_block_stop", index=0),
    ]
    sent = relay(MESSAGES, messages(*said), on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert WORD.encode() not in sent


def cite(number: int, title: str, **more: Any) -> bytes:
    citation = {"type": "url_citation", "title": title, "url": f"https://example.org/{number}"}
    members = {**PART, "annotation_index": number, **more, "annotation": citation}
    return event("response.output_text.annotation.added", **members)


@pytest.mark.parametrize("mode", MODES)
def test_no_half_of_what_two_citations_say_leaves(mode: str) -> None:  # S-01
    said = [delta("so it is. " * 9), cite(0, "my violet "), delta("and so on. " * 9), cite(1, "umbrella")]
    rule = Rules(keywords=("violet umbrella",))
    sent = relay(RESPONSES, responses(*said), rule, stream={"mode": mode, "window_chars": 1})
    assert b"violet" not in sent


@pytest.mark.parametrize("mode", ["window", "sentence"])
def test_citations_end_with_their_part(mode: str) -> None:
    done = event("response.output_text.done", **PART, text="so it is. ")
    later = delta("So it goes on. " * 20, output_index=1)
    kept = delta("Nobody reads this umbrella.", output_index=2)
    frames = responses(delta("so it is. "), cite(0, "my violet "), done, later, kept)
    sent = relay(RESPONSES, frames, stream={"mode": mode, "window_chars": 1})
    assert b"my violet" in sent
    assert b"umbrella" not in sent
