"""Text after the finish of a choice is judged with it; after the end of a stream there is none (S-01)."""

from __future__ import annotations

import asyncio

import pytest

from proxy.call import Progress
from proxy.relay import Judging, Relay
from proxy.wire.chat import CHAT
from supervisors.testing import Finds, context
from tests.proxy.sink import Sink
from tests.proxy.test_relay import CANARY, chunk, flow, make_call, relay


@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
@pytest.mark.parametrize("late", [[], [chunk({}, "stop")], [chunk({"content": " and on"}, "stop")]])
def test_a_text_that_goes_on_after_its_finish_does_not_leave_in_part(mode: str, late: list[bytes]) -> None:  # S-01
    frames = [chunk({"content": "my violet "}), chunk({}, "stop"), chunk({"content": "umbrella"}), *late]
    out, progress = relay(make_call(Finds(CANARY), {}, stream={"mode": mode}), [*frames, b"data: [DONE]\n\n"])
    assert b"my" not in out.sent
    assert progress.outcome == "blocked_output"
    frames[2] = chunk({"content": "sun"})
    out, progress = relay(make_call(Finds(CANARY), {}, stream={"mode": mode}), [*frames, b"data: [DONE]\n\n"])
    assert out.sent == b"".join(frames) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
def test_what_comes_after_the_end_of_a_stream_reaches_nobody(mode: str) -> None:  # S-01
    frames = [chunk({"content": "my violet "}), chunk({}, "stop"), b"data: [DONE]\n\n"]
    call = make_call(Finds(CANARY), {}, stream={"mode": mode})
    out, progress = relay(call, [*frames, chunk({"content": "umbrella"}), chunk({}, "stop"), frames[-1]])
    assert out.sent == b"".join(frames)
    assert progress.outcome == "answered"


def test_a_text_that_is_only_observed_is_judged_to_its_end() -> None:  # S-15
    frames = [chunk({"content": "my violet "}), chunk({}, "stop"), chunk({"content": "umbrella"}), b"data: [DONE]\n\n"]
    call, sink = make_call(Finds(CANARY), {}, stream={"mode": "observe"}), Sink()
    judging = Judging(call.output, lambda _: context("unused"), "full")
    run = Relay(call, Progress(), judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), sink)
    asyncio.run(run.run(flow(frames)))
    assert sink.sent == b"".join(frames)
    (result,) = run.results()
    assert [found.verdict.label for found in result.assessments] == ["unsafe"]
