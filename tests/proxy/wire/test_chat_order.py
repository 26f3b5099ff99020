"""In whatever order a client of a chat stream puts its texts together, each is judged (G-03, G-06, S-01)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Head
from proxy.wire.chat import CHAT
from proxy.wire.chat_stream import ChatFrames
from proxy.wire.segments import as_list
from proxy.wire.sse import SseParser
from tests.proxy.test_readings import MODES, chat, relay
from tests.proxy.wire.test_completeness import CANARY, QUICK, WORDS
from tests.proxy.wire.test_whole_and_streamed import cut

Json = dict[str, Any]
Said = tuple[str, str]
"""What a client tells texts apart by, and a text."""


Write = Callable[[Any, str], Json]
"""From what a client tells texts apart by, and a text, to a choice or to an entry of a list."""


def named(key: str, text: str) -> Json:
    return {"delta": {key: text}}


def called(key: str, **more: Any) -> Write:
    def write(value: Any, text: str) -> Json:
        return {**more, key: value, "function": {"arguments": text}}

    return write


def entry(key: str, leaf: str = "text", **more: Any) -> Write:
    def write(value: Any, text: str) -> Json:
        return {**more, key: value, leaf: text}

    return write


def mixed(key: str, text: str) -> Json:
    """The plain text, parts of it, and what stands where the delta or its text should."""
    forms: dict[str, Json] = {
        "plain": {"delta": {"content": text}},
        "part": {"delta": {"content": [{"type": "text", "text": text}]}},
        "message": {"message": {"content": text}},
        "text": {"text": text},
    }
    return forms[key]


REASONING = ("reasoning_content", "reasoning", "thinking")
INDEXES: dict[str, tuple[Any, Any]] = {
    "numbers": (0, 1),
    "letters": ("a", "b"),
    "fractions": (0.5, 1.5),
    "floats": (0.0, 1.0),
    "digits": ("0", "1"),
}


_TEXTS = ("text", "arguments", "t", "content", *REASONING)


def read_texts(value: Any) -> str:
    """Return the running text below a value, in order."""
    if isinstance(value, list):
        return "".join(
            [item if isinstance(item, str) else read_texts(item) for item in as_list(cast("object", value)) or ()]
        )
    members = cast("Json", value) if isinstance(value, dict) else {}
    return "".join(
        [item if key in _TEXTS and isinstance(item, str) else read_texts(item) for key, item in members.items()]
    )


class Shape(NamedTuple):
    """A way to tell texts apart.

    Args:
        keys: what they are told apart by.
        write: makes an entry of a list, or a whole choice.
        member: whose entries they are, "" for choices.
        key: of an entry; "" for names of members.
    """

    keys: Sequence[Any]
    write: Write
    member: str = ""
    key: str = ""

    def said(self, choice: Json) -> list[Said]:
        """Return what a choice says."""
        if self.member:
            entries = as_list(choice["delta"].get(self.member)) or []  # a notice is no list
            return [(repr(one.get(self.key)), read_texts(one)) for one in entries]
        if self.key:  # the form
            content = choice["delta"].get("content", "")
            found = [("message", read_texts(choice.get("message"))), ("text", choice.get("text", ""))]
            return [*found, ("plain", content) if isinstance(content, str) else ("part", read_texts(content))]
        return [(key, value) for key, value in choice["delta"].items() if isinstance(value, str)]


SHAPES: dict[str, Shape] = {
    "fields": Shape(REASONING, named),
    "forms": Shape(("plain", "part", "message", "text"), mixed, key="form"),
    "ids of calls": Shape(("A1", "B1"), called("id"), "tool_calls", "id"),
    "ids at one index": Shape(("A", "B"), called("id", index=0), "tool_calls", "id"),
    "one id": Shape((0, 1), called("index", id="A"), "tool_calls", "index"),
    "ids of parts": Shape(("a", "b"), entry("id", type="text"), "content", "id"),
    "ids of numbered parts": Shape(("a", "b"), entry("id", index=0), "reasoning_details", "id"),
    "ids of answers": Shape(("a", "b"), entry("id", "t"), "answers", "id"),
    **{f"{name} of calls": Shape(keys, called("index"), "tool_calls", "index") for name, keys in INDEXES.items()},
    **{f"{name} of parts": Shape(keys, entry("index"), "content", "index") for name, keys in INDEXES.items()},
    **{f"{name} of answers": Shape(keys, entry("index", "t"), "answers", "index") for name, keys in INDEXES.items()},
}
_WORD = re.compile(rf"\b{CANARY}\b")


def write_frames(shape: Shape, said: Sequence[tuple[Any, str]], together: Sequence[bool]) -> list[bytes]:
    """Return a stream of these texts; those that go together with the one before stand in one frame if they can."""
    if not shape.member:
        return chat(*[shape.write(key, text) for key, text in said])
    frames: list[list[Json]] = []
    for number, (key, text) in enumerate(said):
        if number and together[number % len(together)]:
            frames[-1].append(shape.write(key, text))
        else:
            frames.append([shape.write(key, text)])
    return chat(*[{"delta": {shape.member: frame}} for frame in frames])


def readings(shape: Shape, sent: bytes) -> list[str]:
    """Return what clients read: as it comes, and by what tells texts apart."""
    frames = [orjson.loads(frame.data) for frame in SseParser().feed(sent) if frame.data.startswith(b"{")]
    choices = [choice for frame in frames for choice in frame.get("choices", []) if not choice.get("finish_reason")]
    told: dict[str, str] = defaultdict(str)
    come = ""
    for choice in choices:
        for key, text in shape.said({"delta": {}, **choice}):
            told[key] += text
            come += text
    return [come, *told.values()]


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=30, deadline=None, phases=QUICK)
@given(data=st.data())
def test_a_text_is_caught_in_every_order_that_clients_read(name: str, data: st.DataObject) -> None:
    shape = SHAPES[name]
    keys = st.sampled_from(shape.keys)
    pieces = cut(f"so {CANARY} now", data.draw(st.lists(st.integers(1, 17), min_size=1, max_size=3)))
    if data.draw(st.booleans()):  # as it comes
        said = [(data.draw(keys), text) for text in pieces]
    else:  # by its key, with others between
        key = data.draw(keys)
        others = st.sampled_from([one for one in shape.keys if one != key])
        said = list[tuple[Any, str]]()
        for text in pieces:
            said += [
                (data.draw(others), f"{word} ")
                for word in data.draw(st.lists(st.sampled_from(["x", "well"]), max_size=2))
            ]
            said.append((key, text))
    frames = write_frames(shape, said, data.draw(st.lists(st.booleans(), min_size=1, max_size=4)))
    if data.draw(st.booleans()):  # it goes on after its finish
        frames.insert(data.draw(st.integers(0, len(frames) - 2)), frames[-2])
    assert any(_WORD.search(text) for text in readings(shape, b"".join(frames)))
    stream = {"mode": data.draw(st.sampled_from(MODES)), "window_chars": data.draw(st.sampled_from([1, 12, 1000]))}
    sent = relay(CHAT, frames, WORDS, on_unsafe=data.draw(st.sampled_from(["block", "redact"])), stream=stream)
    assert not [text for text in readings(shape, sent) if _WORD.search(text)]


@pytest.mark.parametrize("name", SHAPES)
def test_texts_in_any_order_leave_as_they_came_when_nobody_objects(name: str) -> None:
    shape = SHAPES[name]
    said = [(key, text) for text in ("all ", "is ", "well ") for key in shape.keys]
    for together in ([False], [True, False]):
        frames = write_frames(shape, said, together)
        assert relay(CHAT, frames, WORDS, stream={"window_chars": 1}) == b"".join(frames)
        assert relay(CHAT, frames, WORDS, on_unsafe="redact", stream={"mode": "sentence"}) == b"".join(frames)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "deltas",
    [
        [{"tool_calls": [{"index": 0, "id": text}]} for text in ("violet", " ", "umbrella")],
        [
            {"tool_calls": [{"index": 0, "id": "violet"}]},
            {"content": "x", "tool_calls": [{"index": 0, "id": " umbrella"}]},
        ],
        [{"audio": {"id": "violet"}}, {"audio": {"id": " "}}, {"audio": {"id": "umbrella"}}],
        [
            {"tool_calls": [{"id": "a", "index": 0, "type": "violet"}]},
            {"tool_calls": [{"index": 0, "type": " umbrella"}]},
        ],
    ],
)
def test_an_id_is_judged_with_what_came_of_it_before(deltas: Any, mode: str) -> None:
    sent = relay(CHAT, chat(*[{"delta": delta} for delta in deltas]), WORDS, stream={"mode": mode, "window_chars": 1})
    assert b" umbrella" not in sent
    assert b'"umbrella' not in sent


def test_ids_that_have_their_form_are_no_text() -> None:
    frames = ChatFrames(Head())
    call: Json = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{"}}
    read = [
        frames.read(SseParser().feed(raw)[0])[0]
        for raw in chat({"delta": {"tool_calls": [call]}}, {"delta": {"tool_calls": [call]}})[:2]
    ]
    assert [[piece.text for piece in chunk.pieces] for chunk in read] == [["f", "{"]] * 2


def test_a_plain_text_costs_nothing_more() -> None:  # PF-27
    frames = ChatFrames(Head())
    plain = [
        frames.read(SseParser().feed(raw)[0])[0]
        for raw in chat({"delta": {"content": "a"}}, {"delta": {"content": "b"}})
    ]
    assert [[piece.text for piece in chunk.pieces] for chunk in plain[:2]] == [["a"], ["b"]]
    twins = chat({"delta": {"reasoning": "a", "thinking": "a"}}, {"delta": {"reasoning": "b", "thinking": "b"}})
    assert [len(ChatFrames(Head()).read(SseParser().feed(raw)[0])[0].pieces) for raw in twins[:2]] == [2, 2]
    thought = chat({"delta": {"reasoning": "a"}}, {"delta": {"reasoning": "b"}}, {"delta": {"content": "c"}})
    assert [len(frames.read(SseParser().feed(raw)[0])[0].pieces) for raw in thought[:3]] == [1, 1, 1]
