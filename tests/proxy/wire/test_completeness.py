"""A text or a name planted anywhere in a body or frame of any family is judged, or its field is listed (G-01, G-06)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.call import Call, Progress
from proxy.cutting import BadStream
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.relay import Judging, Relay
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.errors import RequestError
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import DONE, data_frame, event_frame
from supervisors.rules import Rules
from supervisors.testing import context
from supervisors.types import Segment
from tests.e2e.fake_messages import message_events, tool_events
from tests.e2e.fake_messages import text_events as message_texts
from tests.e2e.fake_responses import call_events, stream
from tests.e2e.fake_responses import frames as response_frames
from tests.e2e.fake_responses import text_events as response_texts
from tests.proxy.sink import Sink
from tests.proxy.wire.bodies import REPLIES, REQUESTS, STREAMS, Json

CANARY = "violet umbrella"
PLANTED = f" {CANARY} "
"""A word of its own also where deltas are joined."""
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
WORDS = Rules(keywords=(CANARY,))
PROVIDER_ONLY = {
    "model",
    "stop",
    "stop_sequences",
    "stream_options",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "metadata",
}
"""Members of a request that reach the provider, not the model: their texts and names are judged by nobody."""
Path = tuple[str | int, ...]


def places(value: object, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every string, object and list, where a text can stand, and of a new member in each object."""
    if at and isinstance(value, str | dict | list):
        yield at
    if isinstance(value, dict):
        yield (*at, PLANTED)
        for key, child in cast("Json", value).items():
            yield from places(child, (*at, key))
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[object]", value)):
            yield from places(child, (*at, index))


def planted(value: Any, at: Path, filling: Any) -> Any:
    """Return a copy with the canary at one place: as a text, or as a name with this filling."""
    copy: Any = orjson.loads(orjson.dumps(value))
    holder = copy
    for part in at[:-1]:
        holder = holder[part]
    holder[at[-1]] = filling if at[-1] == PLANTED else PLANTED
    return copy


_FILLED: list[Any] = [1, None, True, "x", [], {}, [{"x": "y"}]]
FILLINGS: st.SearchStrategy[Any] = st.sampled_from(_FILLED)


def found(segments: Sequence[Segment]) -> bool:
    return any(CANARY in segment.text for segment in segments)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_a_request_is_judged_whole(number: int, data: st.DataObject) -> None:
    adapter, body = REQUESTS[number]
    at = data.draw(st.sampled_from(list(places(body))))
    try:
        segments = adapter.request_segments(planted(body, at, data.draw(FILLINGS)))
    except RequestError:
        return
    media = [segment for segment in segments if segment.media is not None]
    assert found(segments) or at[0] in PROVIDER_ONLY or (media and at[-1] in ("data", "url")), at


@pytest.mark.parametrize("number", range(len(REPLIES)))
@settings(max_examples=200, deadline=None, phases=QUICK)
@given(data=st.data())
def test_a_reply_is_judged_whole(number: int, data: st.DataObject) -> None:
    adapter, body = REPLIES[number]
    at = data.draw(st.sampled_from(list(places(body))))
    reply = planted(body, at, data.draw(FILLINGS))
    try:
        choices = adapter.reply_segments(reply, 1, {})
    except ValueError:
        return  # no reply of this family: refused
    assert any(found(segments) for segments in choices.values()), at
    blocked = [choice for choice, segments in choices.items() if found(segments)]
    adapter.block_choices(reply, blocked, adapter.notice({}, "No."))
    assert CANARY not in orjson.dumps(reply).decode(), at


def write(adapter: Adapter, frames: Sequence[Json]) -> bytes:
    if adapter in (CHAT, COMPLETIONS):
        return b"".join([data_frame(frame) for frame in frames]) + DONE
    return b"".join([event_frame(str(frame["type"]), frame) for frame in frames])


async def flow(raw: bytes, cuts: Sequence[int]) -> AsyncIterator[bytes]:
    begin = 0
    for cut in [*sorted(cuts), len(raw)]:
        yield raw[begin:cut]
        begin = cut


def relay(adapter: Adapter, raw: bytes, cuts: Sequence[int], **output: Any) -> bytes:
    policy = Policy.model_validate({"output": {"forced": ["words"], **output}})
    plan = Planner({"default": policy}, {"words": WORDS}).plan(Request("gpt", None, adapter.route))
    call = Call("id", "id", adapter, {}, True, "gpt", "main", plan, "0" * 64, None, None, 0.0, 0.0)
    sink = Sink()
    judging = Judging(call.output, lambda _: context("unused"), "full")
    frames = adapter.open_frames(adapter.new_head("id", 0, "gpt"), {})
    with contextlib.suppress(BadStream, RequestError):
        asyncio.run(Relay(call, Progress(), judging, frames, sink).run(flow(raw, cuts)))
    return sink.sent


@pytest.mark.parametrize("number", range(len(STREAMS)))
@settings(max_examples=150, deadline=None, phases=QUICK)
@given(data=st.data())
def test_nothing_unjudged_leaves_in_a_stream(number: int, data: st.DataObject) -> None:
    adapter, frames = STREAMS[number]
    at = data.draw(st.sampled_from([at for at in places(frames) if len(at) > 1]))
    raw = write(adapter, planted(frames, at, data.draw(FILLINGS)))
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=6))
    mode = data.draw(st.sampled_from(["hold", "window", "sentence"]))
    action = data.draw(st.sampled_from(["block", "redact"]))
    sent = relay(adapter, raw, cuts, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent, at


@pytest.mark.parametrize("number", range(len(STREAMS)))
def test_what_nobody_objects_to_leaves_byte_for_byte(number: int) -> None:  # S-11
    adapter, frames = STREAMS[number]
    numbered = [
        {**frame, "sequence_number": place} if "sequence_number" in frame else frame
        for place, frame in enumerate(frames)
    ]
    raw = write(adapter, numbered if adapter is not RESPONSES else frames)
    if adapter is not RESPONSES:
        assert relay(adapter, raw, [7, 300]) == raw
    assert b"content_filter" not in relay(adapter, raw, [7, 300]).replace(b"content_filter_results", b"")


@pytest.mark.parametrize("number", range(len(REPLIES)))
def test_a_documented_reply_has_no_names_to_judge(number: int) -> None:
    adapter, body = REPLIES[number]
    names = [one.text for found in adapter.reply_segments(body, 1, {}).values() for one in found if "#" in one.path]
    assert {name for text in names for name in text.split("\n")} <= {
        "note",
        "a",
        "b",
        "null",
        "deep",
        "er",
        "future",
        "n",
        "c",
        "q",
        "r",
    }


@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
@pytest.mark.parametrize("said", [f"\n{CANARY}", f"so\t{CANARY}", f"{CANARY}\u00e9 {CANARY}"])
def test_a_string_at_the_end_of_arguments_has_ended_with_them(action: str, mode: str, said: str) -> None:  # S-16, M-07
    arguments = json.dumps({"q": said})
    calls: dict[Adapter, bytes] = {
        MESSAGES: b"".join(message_events(tool_events(0, arguments), message_texts(1, "and so on"))),
        RESPONSES: b"".join(response_frames(stream(*call_events([arguments]), *response_texts(["and so on"], 1)))),
    }
    for adapter, raw in calls.items():
        sent = relay(adapter, raw, [7, 300], on_unsafe=action, stream={"mode": mode, "window_chars": 1})
        assert b"umbrella" not in sent
