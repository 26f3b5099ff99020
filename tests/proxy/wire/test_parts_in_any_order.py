"""Texts, thoughts and calls that follow one another in a stream: what stands at an end does not leave (S-01, G-06)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Adapter
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from tests.e2e.fake_messages import message_events, thinking_events, tool_events
from tests.e2e.fake_messages import text_events as message_texts
from tests.e2e.fake_responses import call_events, frames, reasoning_events, stream
from tests.e2e.fake_responses import text_events as response_texts
from tests.proxy.wire.test_completeness import CANARY, QUICK, relay

SPELLED = (
    CANARY,
    base64.b64encode(f"say {CANARY} please".encode()).decode(),
    f"a {CANARY}".encode().hex(),
    "v i o l e t  u m b r e l l a",
)
Part = tuple[str, str, Sequence[int]]
"""Kind, text, and where it is cut into deltas."""


def pieces(part: Part) -> list[str]:
    kind, said, cuts = part
    text = json.dumps({"q": said}) if kind == "call" else said
    places = sorted({0, len(text), *[cut % len(text) for cut in cuts]})
    return [text[begin:end] for begin, end in pairwise(places)]


def write(adapter: Adapter, parts: Sequence[Part]) -> bytes:
    if adapter is MESSAGES:
        blocks: dict[str, Callable[..., list[bytes]]] = {
            "text": message_texts,
            "thought": thinking_events,
            "call": tool_events,
        }
        return b"".join(message_events(*[blocks[part[0]](at, *pieces(part)) for at, part in enumerate(parts)]))
    items: dict[str, Callable[..., list[dict[str, Any]]]] = {
        "text": response_texts,
        "thought": reasoning_events,
        "call": call_events,
    }
    events = [event for at, part in enumerate(parts) for event in items[part[0]](pieces(part), at)]
    return b"".join(frames(stream(*events)))


def joined(sent: bytes) -> str:
    """Return all deltas of a stream as a client would join them, one field or not."""
    found = re.findall(r'"(?:delta|text|thinking|partial_json)": ?("(?:[^"\\]|\\.)*")', sent.decode())
    return "".join([json.loads(one) for one in found])


HARMLESS = st.sampled_from(["hello there", "well, " * 20, "one two. three four. ", "a\nb"])
KINDS = st.sampled_from(["text", "thought", "call"])
CUTS = st.lists(st.integers(0, 400), max_size=4)
PARTS = st.lists(st.tuples(KINDS, HARMLESS, CUTS), max_size=2)


@pytest.mark.parametrize("adapter", [MESSAGES, RESPONSES], ids=["messages", "responses"])
@settings(max_examples=120, deadline=None, phases=QUICK)
@given(data=st.data())
def test_no_part_leaves_with_what_stands_at_its_end(adapter: Adapter, data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(SPELLED))
    said = data.draw(st.sampled_from(["", "so ", "a\n", "a\t", 'say "', "word " * 30])) + word
    said += data.draw(st.sampled_from(["", "", "", ".", " and on"]))
    bad: Part = (data.draw(KINDS), said, data.draw(CUTS))
    raw = write(adapter, [*data.draw(PARTS), bad, *data.draw(PARTS)])
    rules = {"mode": data.draw(st.sampled_from(["hold", "window", "sentence"]))}
    window = data.draw(st.sampled_from([1, 12, 100, 1000]))
    action = data.draw(st.sampled_from(["block", "redact"]))
    sent = relay(adapter, raw, data.draw(CUTS), on_unsafe=action, stream={**rules, "window_chars": window})
    assert word not in joined(sent)
    assert "umbrella" not in joined(sent)
