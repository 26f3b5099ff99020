"""Behind the last event of a stream nothing goes on, and nothing of it is anybody's reply (S-01, wire W-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.call import Call, Progress
from proxy.cutting import BadStream, Cutter
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.relay import Judging, Relay
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import DONE, data_frame
from supervisors.errors import UpstreamError
from supervisors.rules import Rules
from supervisors.testing import context
from tests.proxy.sink import Sink
from tests.proxy.test_readings import MODES, block, chat, event, messages, responses, text_delta
from tests.proxy.wire.test_completeness import QUICK

FIRST, SECOND = "see violet ", "umbrella now"


def say(adapter: Adapter, text: str) -> bytes:
    """Return one event that adds a text."""
    if adapter is RESPONSES:
        at = {"item_id": "i", "output_index": 0, "content_index": 0}
        return event("response.output_text.delta", sequence_number=1, **at, delta=text)
    if adapter is MESSAGES:
        return b"".join(block(0, text_delta(text)))
    choice = {"text": text} if adapter is COMPLETIONS else {"delta": {"content": text}}
    return data_frame({"id": "x", "choices": [{"index": 0, **choice}]})


def whole(adapter: Adapter, text: str) -> list[bytes]:
    """Return a stream from its first event to its last."""
    if adapter is RESPONSES:
        return responses(say(adapter, text))
    if adapter is MESSAGES:
        return messages(say(adapter, text))
    return [say(adapter, text), *chat()]


def run(
    adapter: Adapter, parts: Sequence[bytes], mode: str = "window", fault: Exception | None = None
) -> tuple[bytes, Progress]:
    """Return what reaches the caller of a stream, and what is known of it then."""
    policy = Policy.model_validate({"output": {"forced": ["words"], "stream": {"mode": mode, "window_chars": 1}}})
    rules = {"words": Rules(keywords=("violet umbrella",))}
    plan = Planner({"default": policy}, rules).plan(Request("gpt", None, adapter.route))
    call = Call("id", "id", adapter, {}, True, "gpt", "main", plan, "0" * 64, None, None, 0.0, 0.0)
    sink, progress = Sink(), Progress()

    async def flow() -> AsyncIterator[bytes]:
        for part in parts:
            yield part
        if fault is not None:
            raise fault

    judging = Judging(call.output, lambda _: context("unused"), "full")
    opened = adapter.open_frames(adapter.new_head("id", 0, "gpt"), call.body)
    asyncio.run(Relay(call, progress, judging, opened, sink).run(flow()))
    return sink.sent, progress


FAMILIES = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)
ROUTES = [adapter.route for adapter in FAMILIES]
ERRORS = {
    CHAT.route: data_frame({"error": {"message": "boo"}}),
    COMPLETIONS.route: data_frame({"error": {"message": "boo"}}),
    RESPONSES.route: event("response.failed", response={"status": "failed"}),
    MESSAGES.route: event("error", error={"type": "api_error", "message": "boo"}),
}


@pytest.mark.parametrize("mode", [*MODES, "observe"])
@pytest.mark.parametrize("adapter", FAMILIES, ids=ROUTES)
@pytest.mark.parametrize("together", [False, True])
def test_a_text_behind_the_end_reaches_nobody(adapter: Adapter, mode: str, together: bool) -> None:  # S-01
    frames = whole(adapter, FIRST)
    late = [say(adapter, SECOND), *whole(adapter, SECOND), ERRORS[adapter.route], b"data: {no json\n\n"]
    alone, clean = run(adapter, frames, mode)
    sent, progress = run(adapter, [b"".join([*frames, *late])] if together else [*frames, *late], mode)
    assert sent == alone
    assert b"umbrella" not in sent
    assert (progress.outcome, progress.terminator) == (clean.outcome, clean.terminator) == ("answered", "done")
    assert progress.finish_reasons == clean.finish_reasons
    assert (clean.upstream_error, progress.upstream_error) == (None, "protocol")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("adapter", FAMILIES, ids=ROUTES)
def test_a_text_behind_an_error_reaches_nobody(adapter: Adapter, mode: str) -> None:  # S-01, S-23
    frames = [*whole(adapter, FIRST)[: 2 if adapter in (RESPONSES, MESSAGES) else 1], ERRORS[adapter.route]]
    alone, _ = run(adapter, frames, mode)
    sent, progress = run(adapter, [*frames, say(adapter, SECOND), *whole(adapter, SECOND)], mode)
    assert sent == alone
    assert b"umbrella" not in sent
    assert (progress.outcome, progress.terminator) == ("upstream_error", "error")


@pytest.mark.parametrize("word", ["completed", "incomplete"])
def test_every_last_event_of_a_response_is_its_end(word: str) -> None:  # S-01
    frames = [*responses(say(RESPONSES, FIRST))[:-1]]
    frames.append(event(f"response.{word}", sequence_number=9, response={"id": "r", "status": word, "output": []}))
    sent, progress = run(RESPONSES, [*frames, say(RESPONSES, SECOND), frames[-1]])
    assert sent == run(RESPONSES, frames)[0]
    assert progress.upstream_error == "protocol"


@pytest.mark.parametrize("adapter", FAMILIES, ids=ROUTES)
def test_comments_and_one_more_end_are_nothing(adapter: Adapter) -> None:
    frames = whole(adapter, FIRST)
    sent, progress = run(adapter, [*frames, b": bye\n\n", DONE])
    assert sent == run(adapter, frames)[0]
    assert progress.upstream_error is None


@pytest.mark.parametrize("adapter", FAMILIES, ids=ROUTES)
def test_a_connection_that_breaks_behind_the_end_takes_nothing_back(adapter: Adapter) -> None:  # W-06
    frames = whole(adapter, FIRST)
    broken = UpstreamError("gone", status=502, code="upstream_error", kind="connect")
    sent, progress = run(adapter, frames, fault=broken)
    assert sent == run(adapter, frames)[0]
    assert (progress.outcome, progress.terminator, progress.upstream_error) == ("answered", "done", "connect")
    with pytest.raises(UpstreamError):
        run(adapter, frames[:1], fault=broken)


LATE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"data: [DONE]\n\n", b": ping\n\n", b"\n\n", b"data: 1\n\n", b"event: error\ndata: {}\n\n"]),
)


@settings(max_examples=60, deadline=None, phases=QUICK)
@given(
    adapter=st.sampled_from(FAMILIES),
    late=st.lists(st.one_of(LATE, st.sampled_from([FIRST, SECOND, "violet umbrella"])), max_size=6),
    places=st.lists(st.integers(0, 2000), max_size=6),
    mode=st.sampled_from(MODES),
)
def test_whatever_comes_behind_the_end_changes_nothing(
    adapter: Adapter, late: Sequence[bytes | str], places: Sequence[int], mode: str
) -> None:  # S-01
    frames = whole(adapter, FIRST)
    raw = b"".join(frames) + b"".join([say(adapter, one) if isinstance(one, str) else one for one in late])
    cuts = sorted({0, *[place for place in places if place < len(raw)], len(raw)})
    sent, progress = run(adapter, [raw[a:b] for a, b in pairwise(cuts)], mode)
    assert sent == run(adapter, frames, mode)[0]
    assert (progress.outcome, progress.terminator) == ("answered", "done")


def test_a_stream_that_nobody_judges_is_read_to_its_last_byte() -> None:
    cutter = Cutter(CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), stops=False)
    assert len(cutter.cut(b"".join([*whole(CHAT, FIRST), say(CHAT, SECOND)]))) == 4
    assert (cutter.over, cutter.behind) == (False, False)
    with pytest.raises(BadStream):
        cutter.cut(b"data: {no json\n\n")
