"""The relay of a stream: what leaves was judged, whatever the frames, their order and splits (G-06, S-01 to S-19)."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

import orjson
import pytest

from proxy.call import Call, Progress
from proxy.cutting import BadStream
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.relay import Judging, Relay
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from proxy.wire.sse import SseParser, data_frame
from supervisors.testing import Fails, Finds, context
from supervisors.types import Exchange, Supervisor, Verdict
from tests.proxy.sink import Sink

CANARY = "violet umbrella"
MODES = ("hold", "window", "sentence")
STRUCTURE = {"id", "object", "created", "model", "role", "type", "finish_reason", "usage", "obfuscation"}


class Watching(Finds):
    """Find the canary and remember every text that was judged, by choice."""

    def __init__(self, seen: dict[int | None, list[str]], capability: str = "incremental") -> None:
        super().__init__(CANARY, capability=capability)
        object.__setattr__(self, "seen", seen)

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        seen = cast("dict[int | None, list[str]]", getattr(self, "seen"))  # noqa: B009 - set beside the fields
        seen.setdefault(exchange.choice, []).extend([segment.text for segment in exchange.judged])
        return await super().assess(exchange, context)


def make_call(supervisor: Supervisor, body: dict[str, Any] | None = None, **output: Any) -> Call:
    policy = Policy.model_validate({"output": {"forced": ["words"], **output}})
    plan = Planner({"default": policy}, {"words": supervisor}).plan(Request("gpt", None, CHAT.route))
    return Call(
        id="id",
        request_id="id",
        adapter=CHAT,
        body={"n": 3} if body is None else body,
        stream=True,
        model="gpt",
        upstream="main",
        plan=plan,
        version="0" * 64,
        key_id=None,
        task=None,
        started=0.0,
        clock=0.0,
    )


async def flow(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def relay(call: Call, parts: Sequence[bytes], sink: Sink | None = None) -> tuple[Sink, Progress]:
    """Run a relay over the bytes of a stream."""
    out, progress = sink or Sink(), Progress()
    judging = Judging(call.output, lambda _: context("unused"), "full")
    asyncio.run(
        Relay(call, progress, judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), call.body), out).run(flow(parts))
    )
    return out, progress


def chunk(delta: Any, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish, **more}
    return data_frame({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


class Script:
    """Random frames for some choices; every text is made of marks that occur once."""

    def __init__(self, seed: int, choices: int = 3) -> None:
        self.random = random.Random(seed)  # noqa: S311 - makes up frames, guards nothing
        self.count = 0
        self.choices = choices

    def text(self) -> str:
        self.count += self.random.randint(1, 3)
        return "".join(
            [f"<{n}>{self.random.choice(['', ' ', '. ', chr(10)])}" for n in (self.count, self.count + 1000)]
        )

    def delta(self) -> dict[str, Any]:
        text = self.text()
        call = {"index": self.random.randint(0, 1), "function": {"arguments": orjson.dumps(text).decode()}}
        shapes: list[dict[str, Any]] = [
            {"content": text},
            {"content": text},
            {"content": text},
            {"reasoning_content": text},
            {"reasoning": text, "content": self.text()},
            {"refusal": text},
            {"tool_calls": [{**call, "id": "c", "type": "function"}, {"index": 2, "custom": {"input": self.text()}}]},
            {"function_call": {"name": text, "arguments": self.text()}},
            {"reasoning_details": [{"type": "x", "text": text, "more": [self.text()]}]},
            {"annotations": [{"url_citation": {"title": text, "url": self.text()}}]},
            {"audio": {"id": "a", "transcript": text}},
            {"a/b": text, "content": None},
            {},
            {"role": "assistant", "content": ""},
        ]
        return self.random.choice(shapes)

    def frame(self, index: int) -> bytes:
        more: dict[str, Any] = self.random.choice([{}, {}, {"note": self.text()}, {"content_filter": {"hate": 0}}])
        if self.random.random() < 0.1:
            more["logprobs"] = {"content": [{"token": self.text(), "logprob": -1}]}
        return chunk(self.delta(), None, index, **more)

    def between(self) -> bytes:
        odd = [
            b": a comment <77777>\n\n",
            data_frame({"id": "x", "choices": [], "prompt_filter_results": [{"text": self.text()}]}),
            data_frame({"id": "x", "choices": [], "numbers": [1]}),
            b"event: odd <77777>\nid: 3\ndata: " + chunk({"content": self.text()})[6:],
        ]
        return self.random.choice(odd)

    def frames(self) -> list[bytes]:
        frames: list[bytes] = []
        for _ in range(self.random.randint(3, 25)):
            frames.append(self.frame(self.random.randrange(self.choices)))
            if self.random.random() < 0.15:
                frames.append(self.between())
        finishes = [chunk({}, self.random.choice(["stop", "tool_calls"]), index) for index in range(self.choices)]
        usage = data_frame({"id": "x", "choices": [], "usage": {"total_tokens": 3}})
        return [*frames, *finishes, usage, b"data: [DONE]\n\n"]

    def cut(self, frames: Sequence[bytes]) -> list[bytes]:
        whole, parts = b"".join(frames), list[bytes]()
        while whole:
            size = self.random.choice([1, 7, 50, 400, 5000])
            parts.append(whole[:size])
            whole = whole[size:]
        return parts


def leaves(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if key not in STRUCTURE:
            yield value
    elif isinstance(value, dict):
        for name, child in cast("dict[str, object]", value).items():
            yield from leaves(child, name)
    elif isinstance(value, list):
        for child in cast("list[object]", value):
            yield from leaves(child, key)


def marks_of(frames: Sequence[Any]) -> set[str]:
    texts = [text for frame in frames if isinstance(frame, dict) for text in leaves(cast("object", frame))]
    return set(re.findall(r"<\d+>", "".join(texts)))


@pytest.mark.parametrize("capability", ["incremental", "windowed", "growth", "final"])
@pytest.mark.parametrize("mode", MODES)
def test_whatever_leaves_was_judged(mode: str, capability: str) -> None:  # G-06, M-15, S-04
    for seed in range(100):
        script = Script(seed)
        seen: dict[int | None, list[str]] = {}
        supervisor = Watching(seen, capability)
        call = make_call(supervisor, stream={"mode": mode, "window_chars": script.random.choice([1, 20, 90, 1000])})
        frames = script.frames()
        out, progress = relay(call, script.cut(frames))
        judged = "\n".join([text for texts in seen.values() for text in texts])
        sent = marks_of(out.frames)
        assert sent <= set(re.findall(r"<\d+>", judged)), seed
        assert b"77777" not in out.sent
        assert sent == marks_of(
            [orjson.loads(f.data) for f in SseParser().feed(b"".join(frames)) if f.data[:1] == b"{"]
        )
        assert out.frames[-1] == "[DONE]"
        assert [frame for frame in out.frames if frame == "[DONE]"] == ["[DONE]"]
        assert progress.usage == {"total_tokens": 3}


@pytest.mark.parametrize("mode", MODES)
def test_order_within_a_choice_is_kept(mode: str) -> None:  # W-10
    for seed in range(15):
        script = Script(seed)
        frames = script.frames()
        call = make_call(Finds(CANARY), stream={"mode": mode, "window_chars": 30})
        out, _ = relay(call, script.cut(frames))
        for index in range(3):
            given = [
                frame for frame in SseParser().feed(b"".join(frames)) if b'"index":%d,"delta"' % index in frame.data
            ]
            left = [frame for frame in SseParser().feed(out.sent) if b'"index":%d,"delta"' % index in frame.data]
            assert [frame.data for frame in left] == [frame.data for frame in given]


SPOTS: Sequence[dict[str, Any]] = [
    {"delta": {"content": CANARY}},
    {"delta": {"reasoning_content": CANARY}},
    {"delta": {"reasoning": CANARY}},
    {"delta": {"thinking": {"text": CANARY}}},
    {"delta": {"refusal": CANARY}},
    {"delta": {"tool_calls": [{"index": 0, "function": {"name": CANARY}}]}},
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": "violet\\u0020umbrella"}'}}]}},
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": {CANARY: 1}}}]}},
    {"delta": {"tool_calls": [{"index": 0, "custom": {"input": CANARY}}]}},
    {"delta": {"tool_calls": {"function": {"name": CANARY}}}},
    {"delta": {"tool_calls": [CANARY]}},
    {"delta": {"function_call": CANARY}},
    {"delta": {"function_call": {"arguments": CANARY}}},
    {"delta": {"audio": CANARY}},
    {"delta": {"audio": {"transcript": CANARY}}},
    {"delta": {"future": [{"a": CANARY}]}},
    {"delta": CANARY},
    {"delta": [CANARY]},
    {"text": CANARY},
    {"message": {"content": CANARY}},
    {"delta": {}, "logprobs": {"content": [{"token": CANARY}]}},
    {"delta": {"content": "harmless"}, "logprobs": {"content": [{"token": "violet "}, {"token": "umbrella"}]}},
    {"delta": {}, "note": CANARY, "finish_reason": None},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spot", SPOTS)
def test_a_canary_in_any_field_of_a_frame_never_leaves(mode: str, spot: dict[str, Any]) -> None:  # G-06, M-06, M-14
    frames = [
        chunk({"content": "so far so good. "}, index=1),
        data_frame({"choices": [{"index": 1, **spot}]}),
        chunk({"content": "of the other"}, index=0),
        *[chunk({}, "stop", index) for index in (0, 1)],
    ]
    out, progress = relay(make_call(Finds(CANARY), {"n": 2}, stream={"mode": mode, "window_chars": 8}), frames)
    assert b"umbrella" not in out.sent
    assert progress.outcome == "blocked_output"
    assert progress.finish_reasons == {0: "stop", 1: "content_filter"}
    assert b"of the other" in out.sent


@pytest.mark.parametrize("top", [{"note": CANARY}, {"a/b": [CANARY]}, {"choices": [], "note": {"x": CANARY}}])
def test_text_beside_the_choices_is_judged(top: dict[str, Any]) -> None:  # G-06
    choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
    out, _ = relay(make_call(Finds(CANARY), {}), [data_frame({"choices": [choice], **top}), chunk({}, "stop")])
    assert b"umbrella" not in out.sent
    assert b'"content_filter"' in out.sent


def test_a_frame_after_the_finish_is_judged_and_delivered() -> None:  # S-04: some servers report their filters last
    late = data_frame({"choices": [{"index": 0, "finish_reason": None, "offsets": {"start": 1}}]})
    out, _ = relay(make_call(Finds(CANARY), {}), [chunk({"content": "x"}), chunk({}, "stop"), late])
    assert late in out.sent
    bad = data_frame({"choices": [{"index": 0, "finish_reason": None, "note": CANARY}]})
    out, _ = relay(make_call(Finds(CANARY), {}), [chunk({"content": "x"}), chunk({}, "stop"), bad])
    assert b"umbrella" not in out.sent


def test_redaction_of_text_that_cannot_be_rewritten_blocks() -> None:  # G-37
    frames = [chunk({"future": [{"a": CANARY}]}), chunk({}, "stop")]
    out, progress = relay(make_call(Finds(CANARY), {}, on_unsafe="redact"), frames)
    assert b"umbrella" not in out.sent
    assert progress.outcome == "blocked_output"
    assert out.frames[-1] == "[DONE]"


def test_redaction_in_a_stream_drops_the_tokens_that_spell_it() -> None:  # W-09
    tokens = [{"token": "my violet umbrella"}]
    frames = [chunk({"content": "my violet umbrella"}, logprobs={"content": tokens}), chunk({}, "stop")]
    out, _ = relay(make_call(Finds(CANARY), {}, on_unsafe="redact"), frames)
    assert out.frames[0]["choices"][0]["delta"]["content"] == "my [REDACTED:canary]"
    assert b"umbrella" not in out.sent


def test_a_null_error_is_no_error_and_an_error_beside_choices_is_one() -> None:  # W-06
    fine = data_frame({"choices": [], "usage": {"total_tokens": 1}, "error": None})
    out, _ = relay(make_call(Finds(CANARY), {}), [chunk({"content": "x"}), chunk({}, "stop"), fine])
    assert out.frames[-1] == "[DONE]"
    choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "error"}
    bad = data_frame({"choices": [choice], "error": {"message": "http://inner.host/x failed"}})
    sink = Sink()
    relay(make_call(Finds(CANARY), {}, stream={"window_chars": 1}), [chunk({"content": "some words. "}), bad], sink)
    assert sink.frames[-1]["error"]["code"] == "upstream_error"
    assert b"inner.host" not in sink.sent


@pytest.mark.parametrize(
    "bad", [b"data: {\n\n", b"data: 3\n\n", b'data: {"choices": [3]}\n\n', b'data: {"choices":[{"index":"0"}]}\n\n']
)
def test_what_is_no_frame_is_an_error_of_the_upstream(bad: bytes) -> None:
    with pytest.raises(BadStream):
        relay(make_call(Finds(CANARY), {}), [bad])


def test_a_block_before_the_first_byte_with_error_frames_is_a_real_status() -> None:  # W-05
    call = make_call(Finds(CANARY), {}, stream={"block_frame": "error"})
    with pytest.raises(RequestError) as caught:
        relay(call, [chunk({"content": CANARY}), chunk({}, "stop")])
    assert (caught.value.status, caught.value.code) == (400, "content_filter")


def test_a_failing_supervisor_ends_the_stream_for_all_choices() -> None:  # W-27
    with pytest.raises(RequestError) as caught:
        relay(make_call(Fails(RuntimeError("bug"))), [chunk({"content": "x"}), chunk({}, "stop")])
    assert caught.value.code == "guardrail_unavailable"


@pytest.mark.parametrize("scope", ["choice", "response"])
def test_block_scope_says_whether_siblings_go_on(scope: str) -> None:  # W-10
    frames = [
        chunk({"content": CANARY}),
        chunk({"content": "sibling"}, index=1),
        *[chunk({}, "stop", i) for i in (0, 1)],
    ]
    out, progress = relay(make_call(Finds(CANARY), {"n": 2}, block_scope=scope), frames)
    assert (b"sibling" in out.sent) is (scope == "choice")
    assert progress.finish_reasons[1] == ("stop" if scope == "choice" else "content_filter")


@pytest.mark.parametrize("on_block", ["cancel", "drain"])
def test_nothing_of_a_sibling_follows_its_notice(on_block: str) -> None:  # W-10, W-26
    frames = [
        chunk({"content": CANARY}),
        chunk({"content": "sibling"}, index=1),
        chunk({"content": " and more"}, index=1),
        *[chunk({}, "stop", i) for i in (0, 1)],
        b"data: [DONE]\n\n",
    ]
    stream = {"on_block": on_block, "window_chars": 1}
    out, progress = relay(make_call(Finds(CANARY), {"n": 2}, block_scope="response", stream=stream), frames)
    assert (b"sibling" in out.sent, b"more" in out.sent, b'"stop"' in out.sent) == (False, False, False)
    assert progress.finish_reasons == {0: "content_filter", 1: "content_filter"}


def test_a_stream_without_its_end_gets_none_invented() -> None:  # S-23
    cut = [chunk({"content": "The answer is"})]
    out, progress = relay(make_call(Finds(CANARY)), cut)
    assert b"[DONE]" not in out.sent
    assert out.frames[-1]["error"]["code"] == "upstream_error"
    assert (progress.outcome, progress.terminator) == ("upstream_error", "error")


def test_a_stream_whose_choices_have_all_finished_needs_no_terminator() -> None:
    out, progress = relay(make_call(Finds(CANARY)), [chunk({"content": "hello "}), chunk({}, "stop")])
    assert out.frames[-1] == "[DONE]"
    assert (progress.outcome, progress.terminator) == ("answered", "done")


def test_draining_reads_the_usage_after_a_block() -> None:  # W-26
    usage = data_frame({"choices": [], "usage": {"total_tokens": 3}})
    for on_block, known in (("cancel", None), ("drain", {"total_tokens": 3})):
        frames = [chunk({"content": f"{CANARY} and"}), chunk({}, "stop"), usage, b"data: [DONE]\n\n"]
        call = make_call(Finds(CANARY), {}, stream={"on_block": on_block, "window_chars": 1})
        out, progress = relay(call, frames)
        assert progress.usage == known
        assert (usage in out.sent) is (known is not None)
        assert out.frames[-1] == "[DONE]"


async def test_a_stream_that_never_waits_lets_others_have_the_loop() -> None:
    frames = b"".join([chunk({"content": f"word {number} "}) for number in range(4000)])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    call = make_call(Finds(CANARY), {}, stream={"window_chars": 1})
    judging = Judging(call.output, lambda _: context("unused"), "full")
    opened = CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), call.body)
    counting = asyncio.ensure_future(count())
    await Relay(call, Progress(), judging, opened, Sink()).run(flow([frames, chunk({}, "stop"), b"data: [DONE]\n\n"]))
    counting.cancel()
    assert turns >= 3
