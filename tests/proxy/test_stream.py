"""The gate of a streamed choice: nothing unjudged leaves, everything safe leaves unchanged (guarding §7, §12)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.plan import Planner, Request, StagePlan
from proxy.policy import Policy
from proxy.stream import Gate
from proxy.wire.chat import CHAT
from proxy.wire.sse import SseParser, data_frame
from supervisors.ask import ask_all
from supervisors.testing import Finds, context
from supervisors.types import Exchange, Supervisor, Verdict

CANARY = "violet umbrella"
FRAMES = CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {})


def plan_of(supervisor: Supervisor, **stream: object) -> StagePlan:
    policy = Policy.model_validate({"output": {"forced": ["words"], "stream": stream}})
    return Planner({"default": policy}, {"words": supervisor}).plan(Request("gpt", None, CHAT.route)).output


def delta(text: str, finish: str | None = None, choice: int = 0) -> bytes:
    content = {"content": text} if text else {}
    return data_frame({"id": "x", "choices": [{"index": choice, "delta": content, "finish_reason": finish}]})


def never(name: str, verdict: Verdict) -> bool:
    return False


def run_gate(gate: Gate, frames: Sequence[bytes]) -> bytes:
    """Push frames as the relay does and return what leaves."""

    async def run() -> bytes:
        out: list[bytes] = []
        parser = SseParser()
        for frame in frames:
            for parsed in parser.feed(frame):
                for chunk in FRAMES.read(parsed):
                    gate.push(chunk)
                    for asked in gate.due():
                        exchange = Exchange("id", "gpt", "output", (), asked.segments, 0, complete=asked.complete)
                        gate.take(asked, await ask_all(asked.named, exchange, context("unused"), never))
                    out += gate.release()
        return b"".join(out)

    return asyncio.run(run())


def text_of(sent: bytes) -> str:
    frames = SseParser().feed(sent)
    deltas = [orjson.loads(frame.data)["choices"][0]["delta"] for frame in frames]
    return "".join([each.get("content") or "" for each in deltas])


@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
@pytest.mark.parametrize("position", range(1, len(CANARY)))
def test_no_byte_of_a_canary_split_anywhere_leaves(mode: str, position: int) -> None:  # S-01, S-07
    gate = Gate(plan_of(Finds(CANARY), mode=mode, window_chars=8, overlap_chars=20), FRAMES, 0, 1)
    frames = [delta("Here it is: "), delta(CANARY[:position]), delta(CANARY[position:]), delta("!", "stop")]
    left = text_of(run_gate(gate, frames))
    assert gate.block is not None
    assert "viol" not in left
    assert "Here it is: ".startswith(left)


@settings(max_examples=100, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=60),
    before=st.text("abc .\n", max_size=60),
    after=st.text("abc .\n", max_size=60),
    mode=st.sampled_from(["hold", "window", "sentence"]),
    window=st.integers(1, 40),
)
def test_no_chunking_lets_the_canary_out(cuts: list[int], before: str, after: str, mode: str, window: int) -> None:
    text = before + CANARY + after
    frames: list[bytes] = []
    position = 0
    for cut in cuts:
        frames.append(delta(text[position : position + cut]))
        position += cut
    frames += [delta(text[position:]), delta("", "stop")]
    gate = Gate(plan_of(Finds(CANARY), mode=mode, window_chars=window, overlap_chars=20), FRAMES, 0, 1)
    left = text_of(run_gate(gate, frames))
    assert before.startswith(left)
    assert gate.block is not None


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(st.text("abcdé .\n\u200b", min_size=1, max_size=9), min_size=1, max_size=40),
    mode=st.sampled_from(["hold", "window", "sentence", "observe"]),
    window=st.integers(1, 40),
)
def test_a_safe_stream_leaves_byte_for_byte(pieces: list[str], mode: str, window: int) -> None:  # S-11, G-06
    frames = [*[delta(piece) for piece in pieces], delta("", "stop")]
    gate = Gate(plan_of(Finds(CANARY), mode=mode, window_chars=window, overlap_chars=20), FRAMES, 0, 1)
    assert run_gate(gate, frames) == b"".join(frames)


def test_the_finish_frame_waits_for_the_final_verdict() -> None:  # W-25, S-08
    gate = Gate(plan_of(Finds(CANARY), mode="window", window_chars=5, overlap_chars=20), FRAMES, 0, 1)
    left = run_gate(gate, [delta("some text and then a "), delta(CANARY), delta("", "stop")])
    assert b'"stop"' not in left
    assert gate.block is not None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_redaction_works_across_window_edges(size: int) -> None:  # S-10
    policy = Policy.model_validate(
        {"output": {"forced": ["words"], "on_unsafe": "redact", "stream": {"window_chars": 6, "overlap_chars": 20}}}
    )
    plan = Planner({"default": policy}, {"words": Finds(CANARY)}).plan(Request("gpt", None, CHAT.route)).output
    text = f"one {CANARY} two {CANARY} three"
    frames = [delta(text[i : i + size]) for i in range(0, len(text), size)]
    gate = Gate(plan, FRAMES, 0, 1)
    left = run_gate(gate, [*frames, delta("", "stop")])
    assert text_of(left) == "one [REDACTED:canary] two [REDACTED:canary] three"
    assert gate.late_spans == 0
    assert b'"content":""' not in left  # what is inside a redaction leaves no frames without text


@pytest.mark.parametrize(
    ("extra", "left"),
    [({}, 0), ({"role": "assistant"}, 0), ({"novel": "x"}, 1), ({"tool_calls": [{"index": 0, "id": "c"}]}, 1)],
)
def test_only_what_says_nothing_else_goes_with_a_redacted_text(extra: dict[str, object], left: int) -> None:
    policy = Policy.model_validate({"output": {"forced": ["words"], "on_unsafe": "redact"}})
    plan = Planner({"default": policy}, {"words": Finds(CANARY)}).plan(Request("gpt", None, CHAT.route)).output
    gate = Gate(plan, FRAMES, 0, 1)
    choice = {"index": 0, "delta": {"content": CANARY[8:], **extra}, "finish_reason": None}
    more = data_frame({"id": "x", "choices": [choice]})
    sent = run_gate(gate, [delta("a "), delta(CANARY[:8]), more, delta("", "stop")])
    assert text_of(sent) == "a [REDACTED:canary]"
    assert sent.count(b"data: ") == 3 + left


def test_a_caller_that_sees_nothing_of_a_long_redaction_gets_heartbeats() -> None:  # W-28
    policy = Policy.model_validate({"output": {"forced": ["words"], "on_unsafe": "redact"}})
    plan = Planner({"default": policy}, {"words": Finds(CANARY)}).plan(Request("gpt", None, CHAT.route)).output
    gate = Gate(plan, FRAMES, 0, 1)
    run_gate(gate, [delta("a "), *[delta(letter) for letter in CANARY], delta("." * 2000)])
    assert gate.holding is True
    run_gate(gate, [delta("", "stop")])
    assert gate.holding is False


def test_incremental_cost_is_at_most_twice_the_length() -> None:  # S-02
    gate = Gate(plan_of(Finds(CANARY), mode="window", window_chars=100, overlap_chars=100), FRAMES, 0, 1)
    run_gate(gate, [*[delta("word ") for _ in range(400)], delta("", "stop")])
    assert gate.assessments()[0].chars_judged <= 2 * 2000


def test_growth_cost_is_at_most_three_times_the_length_and_logarithmic_passes() -> None:  # S-02
    judge = Finds(CANARY, capability="growth")
    gate = Gate(plan_of(judge, mode="window", window_chars=500), FRAMES, 0, 1)
    run_gate(gate, [*[delta("abcd efgh ") for _ in range(800)], delta("", "stop")])
    found = gate.assessments()[0]
    assert found.passes <= 5
    assert found.chars_judged <= 3 * 8000


def test_judged_text_is_the_exact_join_of_deltas() -> None:  # S-03
    seen: list[str] = []

    class Watch(Finds):
        async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
            seen.append("".join([segment.text for segment in exchange.judged]))
            return await super().assess(exchange, context)

    gate = Gate(plan_of(Watch(CANARY), mode="hold"), FRAMES, 0, 1)
    run_gate(gate, [delta("un"), delta("believ"), delta("able "), delta("", "stop")])
    assert seen == ["unbelievable "]


def test_tool_calls_stay_until_their_arguments_are_judged() -> None:  # S-16, W-11
    def call(arguments: str, **first: object) -> bytes:
        part = {"index": 0, **first, "function": {"arguments": arguments}}
        return data_frame({"choices": [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]})

    gate = Gate(plan_of(Finds(CANARY), mode="window", window_chars=1, overlap_chars=20), FRAMES, 0, 1)
    left = run_gate(gate, [call('{"q": "violet ', id="c1"), call('umbrella"}'), delta("", "tool_calls")])
    assert left == b""
    assert gate.block is not None


def test_a_growing_encoded_run_is_not_cut() -> None:
    gate = Gate(plan_of(Finds("nothing"), mode="window", window_chars=4, overlap_chars=20), FRAMES, 0, 1)
    left = text_of(run_gate(gate, [delta("see "), delta("dmlvbGV0IHVt"), delta("YnJlbGxh")]))
    assert left in ("", "see ")


def member(name: str, text: str) -> bytes:
    """Return a frame with a member that no document names."""
    return data_frame({"choices": [{"index": 0, "delta": {name: text}, "finish_reason": None}]})


def count_segments(members: int, text: str) -> int:
    """Return how many texts all looks of a stream of so many members read."""
    counted = [0]

    class Counts(Finds):
        """Counts the segments it is given."""

        async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
            counted[0] += len(exchange.judged)
            return await super().assess(exchange, context)

    gate = Gate(plan_of(Counts(CANARY), mode="window", window_chars=50, overlap_chars=20), FRAMES, 0, 1)
    left = run_gate(gate, [*[member(f"k{i}", text) for i in range(members)], delta("", "stop")])
    assert left.count(b"data: ") == members + 1
    return counted[0]


@pytest.mark.parametrize("text", ["x", "a b ", "all is well here"])
def test_many_members_are_each_read_a_few_times(text: str) -> None:  # S-02
    assert count_segments(400, text) <= 5 * 400
    assert count_segments(1600, text) <= 5 * 1600


@pytest.mark.parametrize("position", range(1, len(CANARY)))
def test_a_member_that_goes_on_after_many_others_is_read_again(position: int) -> None:  # S-01
    others = [member(f"k{i}", "all is well here") for i in range(30)]
    begun, ended = member("odd", f"see {CANARY[:position]}"), member("odd", CANARY[position:])
    gate = Gate(plan_of(Finds(CANARY), mode="window", window_chars=50, overlap_chars=20), FRAMES, 0, 1)
    left = run_gate(gate, [*others, begun, *others, ended, *others, delta("", "stop")])
    assert gate.block is not None
    assert ended not in left


def test_an_overlong_hold_blocks_by_default() -> None:
    gate = Gate(plan_of(Finds(CANARY), mode="hold", max_buffer_bytes=200), FRAMES, 0, 1)
    left = run_gate(gate, [delta("x" * 50) for _ in range(10)])
    assert left == b""
    assert gate.block is not None
    assert (gate.block.reason, gate.block.detail) == ("unknown", "buffer")
