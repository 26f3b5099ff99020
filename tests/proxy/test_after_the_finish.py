"""Text after the finish of a choice is judged with it; after the end of a stream there is none (S-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.call import Progress
from proxy.relay import Judging, Relay
from proxy.wire.chat import CHAT
from supervisors.testing import Finds, context
from tests.proxy.sink import Sink
from tests.proxy.test_relay import CANARY, chunk, flow, make_call, relay
from tests.timing import PATIENCE_S


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


@pytest.mark.parametrize("pings", [False, True])
@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
async def test_a_model_server_that_never_ends_its_stream_holds_up_no_answer(mode: str, *, pings: bool) -> None:
    sink, frames = Sink(), [chunk({"content": "my sun"}), chunk({}, "stop")]

    async def endless() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame
        while sink.sent != b"".join(frames):  # nothing but the answer that has left ends it
            await asyncio.sleep(0.02)
            if pings:
                yield b": ping\n\n"
        yield b"data: [DONE]\n\n"

    call = make_call(Finds(CANARY), {}, stream={"mode": mode})
    judging = Judging(call.output, lambda _: context("unused"), "full")
    run = Relay(call, Progress(), judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), sink)
    async with asyncio.timeout(PATIENCE_S):
        await run.run(endless())
    assert sink.sent == b"".join(frames) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
async def test_a_block_behind_a_finish_ends_a_stream_that_never_ends(mode: str) -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield chunk({"content": "a violet "})
            yield chunk({"content": "umbrella"}, "stop")
            await asyncio.Event().wait()
        finally:
            closed.set()

    sink, progress = Sink(), Progress()
    call = make_call(Finds(CANARY), {}, stream={"mode": mode})
    judging = Judging(call.output, lambda _: context("unused"), "full")
    run = Relay(call, progress, judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), sink)
    async with asyncio.timeout(PATIENCE_S):
        await run.run(endless())
    assert b"violet" not in sink.sent
    assert (progress.outcome, closed.is_set()) == ("blocked_output", True)
