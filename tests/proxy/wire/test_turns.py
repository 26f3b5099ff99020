"""Texts that come in turns are judged one by one and as they come (G-03, S-01)."""

from __future__ import annotations

import pytest

from proxy.relay import BadStream
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from tests.proxy.test_readings import MODES, event, messages, relay, responses

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
