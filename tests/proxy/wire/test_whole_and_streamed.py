"""A text is judged the same whole and streamed, however it is cut: over parts, blocks, fields, frames (G-03, M-04)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.call import Call, Progress
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.relay import Judging, Relay
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import DONE, SseParser, data_frame
from supervisors.testing import context
from supervisors.types import Exchange, Label
from tests.e2e.fake_messages import block_events, message_events, message_reply, tool_events
from tests.e2e.fake_responses import frames as response_frames
from tests.e2e.fake_responses import stream
from tests.proxy.sink import Sink
from tests.proxy.wire.test_completeness import CANARY, QUICK, WORDS, flow

Json = dict[str, Any]
Pieces = Sequence[str]
"""The text of one part, block or field, cut into the deltas it comes in."""
Draw = Callable[[st.SearchStrategy[Any]], Any]
Made = tuple[Adapter, Json, bytes]
"""A family, a whole reply, and the stream that says the same."""


def chat(message: Json, deltas: Sequence[Json]) -> Made:
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}
    frames: list[Json] = [{"id": "x", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    frames.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return CHAT, whole, b"".join([data_frame(frame) for frame in frames]) + DONE


def part(text: str, **more: Any) -> Json:
    return {"type": "text", "text": text, **more}


def content(parts: Sequence[Pieces], draw: Draw) -> Made:
    """Parts of the content: as strings, parts, parts of parts, numbered or not, one a frame or several."""
    deltas: list[Json] = []
    for number, pieces in enumerate(parts):
        for text in pieces:
            forms: list[Any] = [
                text,
                [part(text)],
                [part(text, index=number)],
                [{"type": "text", "text": [part(text)]}],
            ]
            form: Any = draw(st.sampled_from(forms))
            listed = form is not text and bool(deltas) and not isinstance(deltas[-1]["content"], str)
            if listed and draw(st.booleans()):
                deltas[-1]["content"] = [*deltas[-1]["content"], *form]
            else:
                deltas.append({"content": form})
    return chat({"content": [part("".join(pieces)) for pieces in parts]}, deltas)


def thinking_parts(parts: Sequence[Pieces], draw: Draw) -> Made:
    said = [part("".join(pieces)) for pieces in parts]
    whole = [{"type": "thinking", "thinking": said}, part("So it is.")]
    deltas: list[Any] = [[{"type": "thinking", "thinking": [part(text)]}] for pieces in parts for text in pieces]
    if draw(st.booleans()):
        deltas = [[{"type": "thinking", "thinking": [part(text) for pieces in parts for text in pieces]}]]
    return chat({"content": whole}, [{"content": one} for one in [*deltas, "So it is."]])


def reasoning_fields(parts: Sequence[Pieces], draw: Draw) -> Made:
    names = draw(st.permutations(["reasoning_content", "reasoning", "thinking", "reasoning_details"]))
    message: Json = {}
    deltas: list[Json] = []
    for name, pieces in zip(names, parts, strict=False):
        whole = "".join(pieces)
        details = name == "reasoning_details"
        message[name] = [{"type": "reasoning.text", "text": whole, "index": 0}] if details else whole
        said: list[Any] = [[{"type": "reasoning.text", "text": t, "index": 0}] if details else t for t in pieces]
        deltas += [{name: one} for one in said]
    return chat({**message, "content": "So it is."}, [*deltas, {"content": "So it is."}])


def turned_fields(parts: Sequence[Pieces], draw: Draw) -> Made:
    """The names of a reasoning text in turns, as they come; of a chat or of a completion."""
    texts = [text for pieces in parts for text in pieces]
    names = st.sampled_from(["reasoning_content", "reasoning"])
    said = [{draw(names): text} for text in texts]
    if draw(st.booleans()):
        return chat({"reasoning_content": "".join(texts), "content": "So."}, [*said, {"content": "So."}])
    frames = [data_frame({"id": "x", "choices": [{"index": 0, "text": "", **one}]}) for one in said]
    frames += [data_frame({"id": "x", "choices": [{"index": 0, "text": "So.", "finish_reason": "stop"}]}), DONE]
    whole = {"choices": [{"index": 0, "text": "So.", "reasoning": "".join(texts), "finish_reason": "stop"}]}
    return COMPLETIONS, whole, b"".join(frames)


def reasoning_details(parts: Sequence[Pieces], draw: Draw) -> Made:
    numbered = draw(st.booleans())
    key = draw(st.sampled_from(["text", "summary"]))
    kind = f"reasoning.{key}"

    def detail(number: int, text: str) -> Json:
        return {"type": kind, key: text, "format": "unknown", **({"index": number} if numbered else {})}

    whole = [detail(number, "".join(pieces)) for number, pieces in enumerate(parts)]
    deltas = [{"reasoning_details": [detail(number, t)]} for number, pieces in enumerate(parts) for t in pieces]
    return chat({"content": "So.", "reasoning_details": whole}, [*deltas, {"content": "So."}])


def completions(parts: Sequence[Pieces], draw: Draw) -> Made:
    texts = [text for pieces in parts for text in pieces]
    frames: list[Json] = [{"id": "x", "choices": [{"index": 0, "text": text}]} for text in texts]
    if draw(st.booleans()):
        frames = [{"id": "x", "choices": [{"index": 0, "text": [part(text) for text in texts]}]}]
    whole = {"choices": [{"index": 0, "text": [part(text) for text in texts], "finish_reason": "stop"}]}
    frames.append({"id": "x", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    return COMPLETIONS, whole, b"".join([data_frame(frame) for frame in frames]) + DONE


def blocks(parts: Sequence[Pieces], draw: Draw) -> Made:
    kind = draw(st.sampled_from(["text", "thinking"]))
    between = draw(st.booleans())
    whole: list[Json] = []
    events: list[list[bytes]] = []
    for pieces in parts:
        first, deltas = ("", pieces) if draw(st.booleans()) else (pieces[0], pieces[1:])
        whole.append({"type": kind, kind: "".join(pieces)})
        said = [{"type": f"{kind}_delta", kind: text} for text in deltas]
        events.append(block_events(len(events), {"type": kind, kind: first}, said))
        if between:
            whole.append({"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"q": "x"}})
            events.append(tool_events(len(events), '{"q": "x"}'))
    return MESSAGES, message_reply(*whole), b"".join(message_events(*events))


def stray_blocks(parts: Sequence[Pieces], draw: Draw) -> Made:
    """Blocks whose text is a list of parts, given as they begin."""
    kind = draw(st.sampled_from(["text", "thinking"]))
    whole: list[Json] = [{"type": kind, kind: [part(text) for text in pieces]} for pieces in parts]
    events = [block_events(number, block, []) for number, block in enumerate(whole)]
    return MESSAGES, message_reply(*whole), b"".join(message_events(*events))


def stray_deltas(parts: Sequence[Pieces], draw: Draw) -> Made:
    """One block an entry, whose deltas have any type and give their text as text or in parts."""
    kind = draw(st.sampled_from(["text", "thinking"]))
    forms: Sequence[Callable[[str], Any]] = (str, lambda text: [text], lambda text: [part(text)])
    events: list[list[bytes]] = []
    for pieces in parts:
        start: Any = draw(st.sampled_from(["", [part(pieces[0])]]))
        said = [draw(st.sampled_from(forms))(text) for text in (pieces if start == "" else pieces[1:])]
        names = [draw(st.sampled_from([f"{kind}_delta", "foo_delta"])) for _ in said]
        deltas = [{"type": name, kind: one} for name, one in zip(names, said, strict=True)]
        events.append(block_events(len(events), {"type": kind, kind: start}, deltas))
    whole = [{"type": kind, kind: "".join(pieces)} for pieces in parts]
    return MESSAGES, message_reply(*whole), b"".join(message_events(*events))


_ITEMS: dict[str, tuple[str, str, str, str, str]] = {
    "message": ("content", "output_text", "text", "response.output_text", "content_index"),
    "refusal": ("content", "refusal", "refusal", "response.refusal", "content_index"),
    "summary": ("summary", "summary_text", "text", "response.reasoning_summary_text", "summary_index"),
    "reasoning": ("content", "reasoning_text", "text", "response.reasoning_text", "content_index"),
}


def items(parts: Sequence[Pieces], draw: Draw) -> Made:
    """Parts of one item, or one part an item; with the events that end them, or without."""
    shape = draw(st.sampled_from(sorted(_ITEMS)))
    holder, kind, leaf, name, index = _ITEMS[shape]
    apart, ending = draw(st.booleans()), draw(st.booleans())
    start: Json = {"type": "message", "role": "assistant", "content": []}
    if holder == "summary" or shape == "reasoning":
        start = {"type": "reasoning", "summary": []}
    events: list[Json] = []
    output: list[Json] = []
    for number, pieces in enumerate(parts):
        if apart or not output:
            output.append({**start, "id": f"i{number}", holder: []})
            events.append({"type": "response.output_item.added", "output_index": len(output) - 1, "item": output[-1]})
        at = {"item_id": output[-1]["id"], "output_index": len(output) - 1, index: len(output[-1][holder])}
        events += [{"type": f"{name}.delta", **at, "delta": text} for text in pieces]
        output[-1] = {**output[-1], holder: [*output[-1][holder], {"type": kind, leaf: "".join(pieces)}]}
        if ending:
            events.append({"type": f"{name}.done", **at, leaf: "".join(pieces)})
    for number, item in enumerate(output if ending else []):
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    return RESPONSES, {"id": "r", "status": "completed", "output": output}, b"".join(response_frames(stream(*events)))


SHAPES: Sequence[Callable[[Sequence[Pieces], Draw], Made]] = (
    content,
    thinking_parts,
    reasoning_fields,
    turned_fields,
    reasoning_details,
    completions,
    blocks,
    stray_blocks,
    stray_deltas,
    items,
)
_SEAMLESS = (
    content,
    thinking_parts,
    turned_fields,
    reasoning_details,
    completions,
    blocks,
    stray_blocks,
    stray_deltas,
)
"""Streams of these do not show where a part ends, or judge what a block begins with alone too: only what is found in
the joined text is found whichever way."""


def judge_whole(adapter: Adapter, reply: Json) -> bool:
    """Say whether the whole reply is found unsafe."""
    segments = adapter.reply_segments(reply, 1, {})[0]
    exchange = Exchange("id", "gpt", "output", (), segments, 0)
    return asyncio.run(WORDS.assess(exchange, context("unused"))).label is Label.UNSAFE


def judge_stream(adapter: Adapter, raw: bytes, cuts: Sequence[int], **output: Any) -> tuple[bool, bytes]:
    """Say whether some text of the stream is found unsafe, and what has left."""
    policy = Policy.model_validate({"output": {"forced": ["words"], **output}})
    plan = Planner({"default": policy}, {"words": WORDS}).plan(Request("gpt", None, adapter.route))
    call = Call("id", "id", adapter, {}, True, "gpt", "main", plan, "0" * 64, None, None, 0.0, 0.0)
    sink = Sink()
    frames = adapter.open_frames(adapter.new_head("id", 0, "gpt"), {})
    run = Relay(call, Progress(), Judging(call.output, lambda _: context("unused"), "full"), frames, sink)
    asyncio.run(run.run(flow(raw, cuts)))
    return any(found.verdict.label is Label.UNSAFE for one in run.results() for found in one.assessments), sink.sent


def cut(text: str, places: Sequence[int]) -> list[str]:
    """Return a text cut at these places, counted round."""
    at = [0, *sorted({place % len(text) for place in places} - {0}), len(text)]
    return [text[begin:end] for begin, end in pairwise(at)]


def told(value: object, key: str = "") -> str:
    """Return all running text of a frame, in order."""
    if isinstance(value, str):
        return value if key in _TOLD else ""
    if isinstance(value, dict):
        return "".join([told(child, name) for name, child in cast("Json", value).items()])
    return "".join([told(child, key) for child in cast("list[object]", value)]) if isinstance(value, list) else ""


_TOLD = {
    *("text", "thinking", "content", "refusal", "delta"),
    *("reasoning", "reasoning_content", "reasoning_details", "summary"),
}


def read(sent: bytes) -> str:
    """Return what a client reads that joins all texts as they come."""
    frames = [orjson.loads(frame.data) for frame in SseParser().feed(sent) if frame.data and frame.data != b"[DONE]"]
    repeats = (".done", "response.completed", "response.incomplete")
    return "".join([told(frame) for frame in frames if not str(frame.get("type")).endswith(repeats)])


def given_whole(raw: bytes) -> list[str]:
    """Return the texts that events give as they are so far: each is judged as it stands there, too (G-06)."""
    frames = [orjson.loads(frame.data) for frame in SseParser().feed(raw) if frame.data and frame.data != b"[DONE]"]
    names = ("content_block_start", ".added", ".in_progress")
    return [told(frame) for frame in frames if str(frame.get("type")).endswith(names)]


def is_said(text: str) -> bool:
    return _WORD.search(text.replace("\u200b", "").lower()) is not None


PLACES = st.lists(st.integers(0, 400), max_size=3)
BEFORE = st.sampled_from(["", "so ", "One. Two! ", "word " * 30, "glue"])
_WORD = re.compile(rf"\b{CANARY}\b")
SAID = st.sampled_from([CANARY, CANARY, CANARY.upper(), "violet umbrellastand", "vi\u200bolet umb\u200crella"])
AFTER = st.sampled_from(["", ".", " and on", "s", " and on and on" * 20])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@settings(max_examples=100, deadline=None, phases=QUICK)
@given(data=st.data())
def test_a_text_is_judged_the_same_whole_and_streamed(
    shape: Callable[[Sequence[Pieces], Draw], Made], data: st.DataObject
) -> None:  # G-03, D-04, M-04, S-01
    text = data.draw(BEFORE) + data.draw(SAID) + data.draw(AFTER)
    parts = [cut(one, data.draw(PLACES)) for one in cut(text, data.draw(PLACES))]
    adapter, reply, raw = shape(parts, data.draw)
    caught = judge_whole(adapter, reply)
    mode = data.draw(st.sampled_from(["hold", "window", "sentence"]))
    window = data.draw(st.sampled_from([1, 12, 1000]))
    action = data.draw(st.sampled_from(["block", "redact"]))
    found, sent = judge_stream(
        adapter, raw, data.draw(PLACES), on_unsafe=action, stream={"mode": mode, "window_chars": window}
    )
    joined = is_said("".join([text for pieces in parts for text in pieces]))
    if joined or shape not in _SEAMLESS:
        assert found == caught
    assert found or not any(map(is_said, given_whole(raw)))
    assert caught or not joined
    assert not is_said(read(sent))
    if not found:
        assert b"content_filter" not in sent
