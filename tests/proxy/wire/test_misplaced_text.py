"""Text where no document has it goes on with the text before it: some client reads it so (G-06, S-01)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from proxy.wire.chat import CHAT
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from supervisors.rules import Rules
from tests.proxy.test_readings import MODES, event, messages, relay, responses

Json = dict[str, Any]
FIRST, SECOND = "my violet ", "umbrella now"
WORDS = Rules(keywords=("violet umbrella",))

MEMBERS: Mapping[str, tuple[Json, str]] = {
    "text": ({"type": "text", "text": ""}, "text_delta"),
    "thinking": ({"type": "thinking", "thinking": ""}, "thinking_delta"),
}
BEHIND: Mapping[str, Callable[[Json], bytes]] = {
    "message_delta": lambda said: event("message_delta", delta={"stop_reason": "end_turn", **said}, usage={}),
    "ping": lambda said: event("ping", delta=said),
    "content_block_stop": lambda said: event("content_block_stop", index=0, delta=said),
    "an unknown event": lambda said: event("message_note", delta=said),
    "an unknown block": lambda said: event("message_note", content_block=said),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("place", BEHIND)
@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_of_any_event_goes_on_with_the_block_before_it(
    member: str, place: str, action: str, mode: str
) -> None:
    block, kind = MEMBERS[member]
    said = [
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta={"type": kind, member: FIRST}),
        BEHIND[place]({member: SECOND}),
        event("content_block_stop", index=0),
    ]
    sent = relay(MESSAGES, messages(*said), WORDS, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent or (member == "thinking" and b"violet" not in sent)  # signed blocks go as a whole


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", BEHIND)
def test_so_do_arguments(place: str, mode: str) -> None:
    block: Json = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    said = [
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"a": "my violet '}),
        BEHIND[place]({"partial_json": 'umbrella"}'}),
        event("content_block_stop", index=0),
    ]
    assert b"umbrella" not in relay(MESSAGES, messages(*said), WORDS, stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("member", MEMBERS)
def test_a_message_that_begins_with_blocks_goes_on(member: str, action: str, mode: str) -> None:
    block, kind = MEMBERS[member]
    begun = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{**block, member: FIRST}]}
    said = [
        event("message_start", message={**begun, "usage": {"input_tokens": 1, "output_tokens": 1}}),
        event("content_block_delta", index=0, delta={"type": kind, member: SECOND}),
        event("content_block_stop", index=0),
        event("message_stop"),
    ]
    sent = relay(MESSAGES, said, WORDS, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent


FORMS: Mapping[str, Callable[[str], Json]] = {
    "content": lambda text: {"delta": {"content": text}},
    "content of parts": lambda text: {"delta": {"content": [{"type": "text", "text": text}]}},
    "a delta that is a text": lambda text: {"delta": text},
    "a delta of parts": lambda text: {"delta": [{"content": text}]},
    "a message of parts": lambda text: {"delta": {}, "message": [{"type": "text", "text": text}]},
    "a message": lambda text: {"delta": {}, "message": {"content": text}},
    "a message that is a text": lambda text: {"delta": {}, "message": text},
    "a text of the choice": lambda text: {"delta": {}, "text": text},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_one_form_of_a_chat_text_goes_on_with_another(first: str, second: str, action: str, mode: str) -> None:
    bodies: list[Json] = [FORMS[first](FIRST), FORMS[second](SECOND), {"delta": {}, "finish_reason": "stop"}]
    frames = [
        b"data: " + orjson.dumps({"id": "c", "model": "m", "choices": [{"index": 0, **said}]}) + b"\n\n"
        for said in bodies
    ]
    sent = relay(
        CHAT, [*frames, b"data: [DONE]\n\n"], WORDS, on_unsafe=action, stream={"mode": mode, "window_chars": 1}
    )
    assert b"umbrella" not in sent


PARTS: Mapping[str, tuple[Json, Callable[[str], Json]]] = {
    "a summary": ({"type": "compaction", "content": FIRST}, lambda text: {"type": "compaction_delta", "content": text}),
    "a citation": (
        {"type": "text", "text": "so", "citations": [{"type": "char_location", "cited_text": FIRST}]},
        lambda text: {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": text}},
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("part", PARTS)
def test_a_block_goes_on_in_its_deltas(part: str, mode: str) -> None:  # S-01
    block, delta = PARTS[part]
    said = [
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta=delta(SECOND)),
        event("content_block_stop", index=0),
    ]
    assert b"umbrella" not in relay(MESSAGES, messages(*said), WORDS, stream={"mode": mode, "window_chars": 1})


IDS: Mapping[str, tuple[Any, Any]] = {
    "1, true": (1, True),
    "0, false": (0, False),
    "1, 1.0": (1, 1.0),
    "[1], a text": ([1], "[1]"),
    "1.5, a text": (1.5, "1.5"),
    "objects": ({"a": 1}, {"a": 1.0}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ids", IDS)
def test_ids_that_only_python_takes_for_equal_tell_texts_apart(ids: str, mode: str) -> None:  # G-06
    first, second = IDS[ids]
    said = [
        event("response.output_text.delta", item_id=one, output_index=0, content_index=0, delta=text)
        for one, text in ((first, "see"), (second, "violet umbrella"), (first, "stands"))
    ]
    sent = relay(RESPONSES, responses(*said), WORDS, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent
