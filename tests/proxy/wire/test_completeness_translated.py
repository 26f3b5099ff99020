"""Planted texts and names where one family speaks another's words, or has none of a model's (G-01, G-06, S-11c)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from proxy.wire.messages import MESSAGES
from proxy.wire.messages_translate import to_chat, to_message
from proxy.wire.messages_translate_stream import ChatToMessages
from proxy.wire.moderations import read_inputs
from tests.proxy.wire.bodies import REPLIES, REQUESTS, STREAMS, Json
from tests.proxy.wire.test_completeness import CANARY, FILLINGS, QUICK, found, places, planted, relay, write

ASKED = [body for adapter, body in REQUESTS if adapter is MESSAGES]
ANSWERED = [body for adapter, body in REPLIES if adapter is CHAT]
STREAMED = [frames for adapter, frames in STREAMS if adapter is CHAT]
MODERATED: list[Json] = [
    {"model": "omni-moderation-latest", "input": "a"},
    {"model": "omni-moderation-latest", "input": ["a", "b"]},
    {"input": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "http://a/b.png"}}]},
]
TO_THE_PROVIDER = {"user", "stop", "metadata", "model"}


@pytest.mark.parametrize("body", ASKED)
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_what_a_translated_request_says_was_judged(body: Json, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(list(places(body))))
    asked = planted(body, at, data.draw(FILLINGS))
    try:
        segments = MESSAGES.request_segments(asked)
        sent = to_chat(asked)
    except RequestError:
        return
    media = any(segment.media is not None for segment in segments) and at[-1] in ("data", "url")
    said = {key: value for key, value in sent.items() if key not in TO_THE_PROVIDER}
    assert CANARY not in orjson.dumps(said).decode() or found(segments) or media, at


@pytest.mark.parametrize("body", ANSWERED)
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_what_a_translated_reply_says_is_judged(body: Json, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(list(places(body))))
    try:
        message: Any = to_message(planted(body, at, data.draw(FILLINGS)))
        choices = MESSAGES.reply_segments(message, 1, {})
    except ValueError:
        return  # no reply that can be translated: refused
    judged = any(found(segments) for segments in choices.values())
    assert judged or CANARY not in orjson.dumps(message).decode(), at


@pytest.mark.parametrize("frames", STREAMED)
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_nothing_unjudged_leaves_in_a_translated_stream(frames: list[Json], data: st.DataObject) -> None:
    at = data.draw(st.sampled_from([at for at in places(frames) if len(at) > 1]))
    translator = ChatToMessages()
    try:
        raw = translator.feed(write(CHAT, planted(frames, at, data.draw(FILLINGS)))) + translator.close()
    except ValueError:
        return  # no stream that can be translated: refused
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=6))
    mode = data.draw(st.sampled_from(["hold", "window", "sentence"]))
    action = data.draw(st.sampled_from(["block", "redact"]))
    sent = relay(MESSAGES, raw, cuts, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent, at


@pytest.mark.parametrize("body", MODERATED)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(data=st.data())
def test_whatever_is_moderated_is_judged_or_refused(body: Json, data: st.DataObject) -> None:  # M-11, wire §11
    at = data.draw(st.sampled_from(list(places(body))))
    try:
        inputs = read_inputs(planted(body, at, data.draw(FILLINGS)))
    except RequestError:
        return
    assert at[0] == "model" or any(found(segments) for segments in inputs), at
