"""Streams of the Responses API through the relay: what leaves was judged, and is valid (G-06, W-20, S-01 to S-19)."""

from __future__ import annotations

import asyncio
import base64
import random
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import orjson
import pytest

from proxy.call import Call, Progress
from proxy.cutting import BadStream
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.relay import Judging, Relay
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import event_frame
from supervisors.rules import Rules
from supervisors.testing import Finds, context
from supervisors.types import Exchange, Supervisor, Verdict
from tests.e2e.fake_responses import call_events, frames, output_text, reasoning_events, stream, text_events
from tests.proxy.sink import Sink

CANARY = "violet umbrella"
MODES = ("hold", "window", "sentence")
CAPABILITIES = ("incremental", "windowed", "growth", "final")
Event = dict[str, Any]


class Watching(Finds):
    """Find the canary and remember every text that was judged."""

    def __init__(self, seen: list[str], capability: str) -> None:
        super().__init__(CANARY, capability=capability)
        object.__setattr__(self, "seen", seen)

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        seen = cast("list[str]", getattr(self, "seen"))  # noqa: B009 - set beside the fields
        seen.extend([segment.text for segment in exchange.judged])
        return await super().assess(exchange, context)


def make_call(supervisor: Supervisor, body: dict[str, Any] | None = None, **output: Any) -> Call:
    policy = Policy.model_validate({"output": {"forced": ["words"], **output}})
    plan = Planner({"default": policy}, {"words": supervisor}).plan(Request("gpt", None, RESPONSES.route))
    return Call(
        id="id",
        request_id="id",
        adapter=RESPONSES,
        body=body or {"input": "hello"},
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


def relay(call: Call, parts: Sequence[bytes]) -> tuple[Sink, Progress]:
    """Run a relay over the bytes of a stream."""
    out, progress = Sink(), Progress()
    opened = RESPONSES.open_frames(RESPONSES.new_head("id", 0, "gpt"), call.body)
    judging = Judging(call.output, lambda _: context("unused"), "full")
    asyncio.run(Relay(call, progress, judging, opened, out).run(flow(parts)))
    return out, progress


class Script:
    """Random items for one response; every text is made of marks that occur once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - makes up frames, guards nothing
        self.count = 0

    def text(self) -> str:
        self.count += 1
        return f"<{self.count}>{self.random.choice(['', ' ', '. ', chr(10), ' and more of it, '])}"

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.random.randint(1, 6))]

    def item(self, index: int) -> list[Event]:
        search = {"id": f"ws_{index}", "type": "web_search_call", "status": "completed"}
        query = {**search, "action": {"type": "search", "query": self.text()}}
        code: Event = {
            "id": f"ci_{index}",
            "type": "code_interpreter_call",
            "code": "",
            "outputs": [],
            "status": "completed",
        }
        parts = self.texts()
        at = {"output_index": index, "item_id": code["id"]}
        note = {"type": "output_text.annotation", "title": self.text(), "url": self.text()}
        shapes: list[list[Event]] = [
            text_events(self.texts(), index, f"msg_{index}"),
            reasoning_events(self.texts(), index),
            call_events([f'"{part.strip()}"' for part in self.texts()[:1]], index, self.text()),
            [
                {"type": "response.output_item.added", "output_index": index, "item": search},
                {"type": "response.web_search_call.searching", "output_index": index, "item_id": search["id"]},
                {"type": "response.output_item.done", "output_index": index, "item": query},
            ],
            [
                {"type": "response.output_item.added", "output_index": index, "item": code},
                *[{"type": "response.code_interpreter_call_code.delta", **at, "delta": part} for part in parts],
                {"type": "response.code_interpreter_call_code.done", **at, "code": "".join(parts)},
                {"type": "response.output_item.done", "output_index": index, "item": {**code, "code": "".join(parts)}},
            ],
            [
                *text_events(self.texts(), index, f"msg_{index}")[:-1],
                {"type": "response.output_text.annotation.added", "output_index": index, "annotation": note},
            ],
            [{"type": "response.of_the_future", "output_index": index, "what": self.text(), "more": [self.text()]}],
        ]
        return self.random.choice(shapes)

    def frames(self) -> list[bytes]:
        items = [event for index in range(self.random.randint(1, 5)) for event in self.item(index)]
        return frames(stream(*items))

    def cut(self, whole: bytes) -> list[bytes]:
        parts: list[bytes] = []
        while whole:
            size = self.random.choice([1, 50, 400, 5000])
            parts.append(whole[:size])
            whole = whole[size:]
        return parts


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("mode", MODES)
def test_a_safe_stream_leaves_byte_for_byte_and_judged(mode: str, capability: str) -> None:  # S-11, G-06, W-30
    for seed in range(25):
        script = Script(seed)
        seen: list[str] = []
        window = script.random.choice([1, 20, 90, 1000])
        call = make_call(Watching(seen, capability), stream={"mode": mode, "window_chars": window})
        given = b"".join(script.frames())
        out, progress = relay(call, script.cut(given))
        assert out.sent == given, seed
        assert set(re.findall(rb"<\d+>", given)) <= set(re.findall(rb"<\d+>", "\n".join(seen).encode())), seed
        assert progress.finish_reasons == {0: "completed"}


@pytest.mark.parametrize("mode", MODES)
def test_a_canary_in_any_text_of_any_event_never_leaves(mode: str) -> None:  # G-06, M-06, S-07
    for seed in range(25):
        script = Script(seed)
        given = script.frames()
        spots = [(n, mark) for n, frame in enumerate(given) for mark in re.findall(rb"<\d+>", frame)]
        number, mark = script.random.choice(spots)
        given[number] = given[number].replace(mark, CANARY.encode())
        call = make_call(Finds(CANARY), stream={"mode": mode, "window_chars": script.random.choice([1, 20, 90])})
        out, progress = relay(call, given)
        assert b"umbrella" not in out.sent, seed
        assert progress.outcome == "blocked_output"
        events = out.frames
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[0]["type"] == "response.created"
        assert [event["type"] for event in events if "incomplete" in event["type"]] == ["response.incomplete"]
        assert events[-1]["response"]["output"] == done_items(events)


def done_items(events: Sequence[Event]) -> list[Any]:
    """Return the items of a stream in their last form, after checking that every one that began has ended."""
    began = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    ended = {event["output_index"]: event["item"] for event in events if event["type"] == "response.output_item.done"}
    assert set(began) <= set(ended)
    assert len(began) == len(set(began))
    return [item for _, item in sorted(ended.items())]


@pytest.mark.parametrize("mode", MODES)
def test_redaction_reaches_every_repetition(mode: str) -> None:  # G-38, S-10
    for seed in range(25):
        script = Script(seed)
        texts = [*script.texts(), "a violet", " umb", "rella!", *script.texts()]
        items = [*reasoning_events(script.texts()), *text_events(texts, 1)]
        stage = {"mode": mode, "window_chars": script.random.choice([1, 20, 90])}
        call = make_call(Finds(CANARY), on_unsafe="redact", stream=stage)
        out, _ = relay(call, script.cut(b"".join(frames(stream(*items)))))
        assert b"violet" not in out.sent, seed
        assert b"rella" not in out.sent
        whole = "".join(texts).replace(CANARY, "[REDACTED:canary]")
        events = out.frames
        assert "".join([e["delta"] for e in events if e["type"] == "response.output_text.delta"]) == whole
        assert events[-1]["response"]["output"][1]["content"][0]["text"] == whole
        assert [e["text"] for e in events if e["type"] == "response.output_text.done"] == [whole]


def test_cost_stays_bounded_over_many_items() -> None:  # S-02
    seen: list[str] = []
    items = [event for index in range(20) for event in text_events(["word " * 100], index, f"msg_{index}")]
    relay(make_call(Watching(seen, "incremental"), stream={"window_chars": 300}), frames(stream(*items)))
    assert sum(len(text) for text in seen) <= 2 * 20 * 500 + 20 * 300


def begin() -> list[Event]:
    return stream(*text_events(["All is well here. "]))


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {\n\n",
        b"data: 3\n\n",
        b"data: {}\n\n",
        event_frame("x", {"type": f"a {CANARY}"}),
        event_frame("x", {"type": "response.x", "output_index": CANARY}),
        event_frame("x", {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "x"}),
    ],
)
def test_what_is_no_event_is_an_error_of_the_upstream(bad: bytes) -> None:
    with pytest.raises(BadStream):
        relay(make_call(Finds(CANARY)), [*frames(begin()[:-1]), bad])


SPOTS: Sequence[Event] = [
    {"type": "response.output_text.delta", "output_index": 1, "delta": {"text": CANARY}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "x", "note": CANARY},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "x", "logprobs": [{"token": CANARY}]},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '"violet\\u0020umbrella"'},
    {"type": "response.custom_tool_call_input.delta", "output_index": 1, "delta": CANARY},
    {"type": "response.mcp_call_arguments.done", "output_index": 1, "arguments": CANARY},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "name": CANARY}},
    {"type": "response.output_item.added", "output_index": 1, "item": CANARY},
    {"type": "response.output_item.done", "output_index": 1, "item": {"type": "message", "content": [CANARY]}},
    {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": output_text(CANARY)},
    {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": [CANARY]},
    {"type": "response.audio.transcript.delta", "delta": CANARY},
    {"type": "response.shell_call_output_content.delta", "output_index": 1, "delta": {"stdout": CANARY}},
    {"type": "response.in_progress", "response": {"id": "resp_fake", "instructions": CANARY}},
    {"type": "response.in_progress", "response": {"id": "resp_fake", "output": [CANARY]}},
    {"type": "response.in_progress", "response": CANARY},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spot", SPOTS)
def test_a_canary_in_any_member_of_an_event_never_leaves(mode: str, spot: Event) -> None:  # G-06, M-14, M-15
    given = frames([*begin()[:-1], spot, begin()[-1]])
    out, progress = relay(make_call(Finds(CANARY), stream={"mode": mode, "window_chars": 8}), given)
    assert b"umbrella" not in out.sent
    assert progress.outcome == "blocked_output"
    assert out.frames[-1]["type"] == "response.incomplete"


def test_a_block_after_a_web_search_says_that_it_failed() -> None:
    search = {"id": "ws", "type": "web_search_call", "status": "in_progress"}
    items = [
        *text_events(["All is well here. "]),
        {"type": "response.output_item.added", "output_index": 1, "item": search},
        *text_events(["And so it goes on for long. ", CANARY], 2, "msg_2")[2:4],
    ]
    out, _ = relay(make_call(Finds(CANARY), stream={"window_chars": 8}), frames(stream(*items)))
    output = out.frames[-1]["response"]["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("message", "completed"),
        ("web_search_call", "failed"),
        ("message", "incomplete"),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "word", ["violetumbrella", base64.b64encode(b"say violet umbrella please").decode(), b"a violet umbrella".hex()]
)
def test_a_word_at_the_end_of_a_text_is_judged_again_once_that_has_ended(mode: str, word: str) -> None:  # S-01, G-06
    texts, annotation = text_events(["so", word]), {"type": "url_citation", "url": "http://a.b", "title": "A title"}
    done = [orjson.loads(orjson.dumps(event).replace(f"so{word}".encode(), b"so there")) for event in texts]
    at = next(index for index, event in enumerate(done) if event["type"].endswith("text.done"))
    noted = {"type": "response.output_text.annotation.added", "item_id": done[at]["item_id"], "output_index": 0}
    for number in (0, 1):
        done.insert(at, {**noted, "content_index": 0, "annotation_index": number, "annotation": annotation})
    call = make_call(Rules(keywords=(CANARY,), loose=True), stream={"mode": mode})
    events = orjson.loads(orjson.dumps(stream(*done)).replace(f"so{word}".encode(), b"so there"))
    out, progress = relay(call, frames(events))
    assert word.encode() not in out.sent
    assert progress.outcome == "blocked_output"
