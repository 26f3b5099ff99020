"""What no document calls a delta is judged in both readings: joined to the frames beside it, and alone (G-06)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest

from proxy.call import Call, Progress
from proxy.frontier import Field
from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.readings import Readings
from proxy.relay import Judging, Relay
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import DONE, SseParser, data_frame, event_frame
from supervisors.rules import Rules
from supervisors.testing import Finds, context
from supervisors.types import Supervisor
from tests.proxy.sink import Sink

MODES = ("hold", "window", "sentence")
WORD = Rules(keywords=("umbrella",))
"""A whole word: it is not in "umbrellastand"."""


async def flow(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def relay(
    adapter: Adapter,
    frames: Sequence[bytes],
    supervisor: Supervisor = WORD,
    body: dict[str, Any] | None = None,
    **output: Any,
) -> bytes:
    """Return what reaches the caller of a stream."""
    policy = Policy.model_validate({"output": {"forced": ["words"], **output}})
    plan = Planner({"default": policy}, {"words": supervisor}).plan(Request("gpt", None, adapter.route))
    call = Call("id", "id", adapter, body or {}, True, "gpt", "main", plan, "0" * 64, None, None, 0.0, 0.0)
    sink = Sink()
    judging = Judging(call.output, lambda _: context("unused"), "full")
    opened = adapter.open_frames(adapter.new_head("id", 0, "gpt"), call.body)
    asyncio.run(Relay(call, Progress(), judging, opened, sink).run(flow(frames)))
    return sink.sent


def event(name: str, **members: Any) -> bytes:
    return event_frame(name, {"type": name, **members})


def chat(*choices: Any, **top: Any) -> list[bytes]:
    frames = [data_frame({"id": "x", "choices": [{"index": 0, **choice}], **top}) for choice in choices]
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [*frames, data_frame({"id": "x", "choices": [last]}), DONE]


def deltas(one: Any, two: Any) -> list[bytes]:
    return chat({"delta": one}, {"delta": two})


def tops(one: Any, two: Any) -> list[bytes]:
    return [*chat({"delta": {}}, **one)[:1], *chat({"delta": {}}, **two)]


def completions(one: Any, two: Any) -> list[bytes]:
    return chat({"text": "a ", **one}, {"text": "b ", **two})


def messages(*events: bytes) -> list[bytes]:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {},
    }
    end = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1})
    return [event("message_start", message=message), *events, end, event("message_stop")]


def block(index: int, *inner: Any, **start: Any) -> list[bytes]:
    return [
        event("content_block_start", index=index, content_block={"type": "text", "text": "", **start}),
        *[event("content_block_delta", index=index, delta=delta) for delta in inner],
        event("content_block_stop", index=index),
    ]


def text_delta(text: str) -> Any:
    return {"type": "text_delta", "text": text}


def cite(title: str) -> Any:
    return {"type": "citations_delta", "citation": {"type": "page_location", "document_title": title}}


def responses(*events: bytes) -> list[bytes]:
    response: dict[str, Any] = {"id": "r", "object": "response", "status": "in_progress", "output": []}
    done = event("response.completed", sequence_number=99, response={**response, "status": "completed"})
    return [event("response.created", sequence_number=0, response=response), *events, done]


def note(number: int, value: Any, **more: Any) -> bytes:
    return event("response.note.delta", sequence_number=number, output_index=0, note=value, **more)


def token(text: str, spelled: str) -> bytes:
    members = {"output_index": 0, "content_index": 0, "item_id": "i", "delta": text}
    return event("response.output_text.delta", sequence_number=1, **members, logprobs=[{"token": spelled}])


def annotated(number: int, title: str) -> bytes:
    at = {"item_id": "i", "output_index": 0, "content_index": 0, "annotation_index": number}
    note = {"type": "url_citation", "title": title, "url": "http://a.b"}
    return event("response.output_text.annotation.added", sequence_number=number, **at, annotation=note)


def spots(one: str, two: str) -> list[tuple[Adapter, list[bytes]]]:
    """Return streams in which the two texts follow one another in two frames, where no delta stands."""
    details = [{"reasoning_details": [{"text": text}]} for text in (one, two)]
    calls = [{"tool_calls": [{"index": 0, "id": "c", "function": {"name": text}}]} for text in (one, two)]
    spelled = [{"delta": {}, "logprobs": {"content": [{"token": text}]}} for text in (one, two)]
    return [
        (CHAT, tops({"citations": [one]}, {"citations": [two]})),
        (CHAT, tops({"note": one}, {"note": two})),
        (CHAT, chat({"note": one}, {"note": {"x": 1}}, {"note": two})),
        (CHAT, chat({"message": {"content": one}}, {"message": {"content": two}})),
        (CHAT, deltas({"annotations": [{"title": one}]}, {"annotations": [{"title": two}]})),
        (CHAT, deltas(details[0], details[1])),
        (CHAT, deltas({"future": one}, {"future": two})),
        (CHAT, deltas(calls[0], calls[1])),
        (CHAT, chat(*spelled)),
        (COMPLETIONS, completions({"note": [one]}, {"note": [two]})),
        (COMPLETIONS, completions({"logprobs": {"tokens": [one]}}, {"logprobs": {"tokens": [two]}})),
        (MESSAGES, messages(*block(0, text_delta(one)), *block(1, text_delta(two)))),
        (MESSAGES, messages(*block(0, text_delta("see "), cite(one), cite(two)))),
        (MESSAGES, messages(event("note", note=one), event("note", note=two))),
        (RESPONSES, responses(note(1, one), note(2, two))),
        (RESPONSES, responses(note(1, [one]), note(2, [two]))),
        (RESPONSES, responses(token("a", one), token("b", two))),
        (RESPONSES, responses(annotated(0, one), annotated(1, two))),
        (RESPONSES, responses(annotated(0, one), annotated(0, two))),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(spots("", ""))))
@pytest.mark.parametrize(("one", "two"), [("umbrella", "stand"), ("sun", "umbrella"), ("umb", "rella")])
def test_a_word_is_found_alone_and_joined(one: str, two: str, number: int, mode: str) -> None:
    adapter, frames = spots(one, two)[number]
    sent = relay(adapter, frames, stream={"mode": mode, "window_chars": 1})
    assert b"umbrella" not in sent
    assert not (one in sent.decode() and two in sent.decode() and "umbrella" in one + two)


@pytest.mark.parametrize("capability", ["incremental", "windowed", "growth", "final"])
@pytest.mark.parametrize("number", range(len(spots("", ""))))
def test_every_kind_of_supervisor_reads_both(number: int, capability: str) -> None:
    class Exact(Finds):
        """Finds a text that begins and ends as it should."""

        async def assess(self, exchange: Any, context: object, /) -> Any:
            alone = [
                dataclasses.replace(one, text=one.text if one.text == "umbrella" else "") for one in exchange.reply
            ]
            return await super().assess(dataclasses.replace(exchange, reply=tuple(alone)), context)

    adapter, frames = spots("sun", "umbrella")[number]
    assert b"umbrella" not in relay(adapter, frames, Exact("umbrella", capability=capability))


@pytest.mark.parametrize("mode", MODES)
def test_what_stands_in_parts_of_their_own_index_is_not_joined(mode: str) -> None:
    parts = [[{"index": 0, "text": "umbrella"}], [{"index": 1, "text": "stand"}]]
    frames = deltas({"reasoning_details": parts[0]}, {"reasoning_details": parts[1]})
    assert b"umbrella" not in relay(CHAT, frames, stream={"mode": mode, "window_chars": 1})


@pytest.mark.parametrize("shape", ["reasoning_details", "content"])
def test_deltas_in_numbered_parts_are_read_as_one_text(shape: str) -> None:
    frames = deltas({shape: [{"index": 0, "text": "umbrella"}]}, {shape: [{"index": 0, "text": "stand"}]})
    assert relay(CHAT, frames) == b"".join(frames)


def test_a_stray_message_is_not_glued_to_the_content() -> None:
    frames = chat({"delta": {"content": "sun"}}, {"message": {"content": "umbrella"}}, {"delta": {"content": "stand"}})
    assert b"umbrella" not in relay(CHAT, frames)


@pytest.mark.parametrize("thought", ["I take my umbrella", "umbrella"])
def test_a_word_at_the_end_of_a_text_that_has_ended_does_not_leave_with_it(thought: str) -> None:  # S-01
    thinking = [
        event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
        event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": thought}),
        event("content_block_stop", index=0),
    ]
    said = block(1, text_delta("It may "), text_delta("rain all "), text_delta("day."))
    assert b"umbrella" not in relay(MESSAGES, messages(*thinking, *said), stream={"window_chars": 1})
    at = {"item_id": "i", "output_index": 0, "summary_index": 0, "sequence_number": 1}
    reasoned = [
        event("response.reasoning_summary_text.delta", **at, delta=thought),
        event("response.reasoning_summary_text.done", **at, text=thought),
    ]
    words = ("It may ", "rain all ", "day.")
    place = {"item_id": "j", "output_index": 1, "content_index": 0, "sequence_number": 1}
    spoken = [event("response.output_text.delta", **place, delta=word) for word in words]
    assert b"umbrella" not in relay(RESPONSES, responses(*reasoned, *spoken), stream={"window_chars": 1})


def in_parts(one: str, two: str) -> list[tuple[Adapter, list[bytes]]]:
    """Return streams of two parts of a text, one after the other."""
    listed = [{"content": [{"type": "text", "text": text, "index": at}]} for at, text in enumerate((one, two))]
    return [
        (MESSAGES, messages(*block(0, text_delta(one)), *block(1, text_delta(two)))),
        (CHAT, deltas(listed[0], listed[1])),
        (RESPONSES, responses(annotated(0, one), annotated(1, two))),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(in_parts("", ""))))
@pytest.mark.parametrize("on_unsafe", ["block", "redact"])
def test_the_end_of_a_text_is_not_glued_to_its_own_beginning(number: int, mode: str, on_unsafe: str) -> None:  # G-06
    """Each part is read alone too; what stands between two readings of one text, nobody reads."""
    adapter, frames = in_parts("umbrella stands", " are often violet")[number]
    phrase = Rules(keywords=("violet umbrella", "violetumbrella"))
    for chars in (1, 400):
        sent = relay(adapter, frames, phrase, on_unsafe=on_unsafe, stream={"mode": mode, "window_chars": chars})
        assert b"umbrella stands" in sent
        assert b"often violet" in sent
        assert b"REDACTED" not in sent


@pytest.mark.parametrize("mode", MODES)
def test_a_message_that_goes_on_after_its_reason_to_stop_does_not_leave_in_part(mode: str) -> None:  # S-01
    stop = messages()
    frames = [stop[0], *block(0, text_delta("my violet ")), stop[1], *block(1, text_delta("umbrella")), *stop[1:]]
    sent = relay(MESSAGES, frames, Rules(keywords=("violet umbrella",)), stream={"mode": mode, "window_chars": 1})
    assert b"violet" not in sent
    assert b"refusal" in sent


def test_a_redaction_reaches_every_repetition_of_a_text_that_stands_alone() -> None:  # G-35
    frames = tops({"note": "my umbrella"}, {"note": "my umbrella"})
    sent = relay(CHAT, frames, on_unsafe="redact")
    assert sent.count(b"[REDACTED:") == 2
    assert b"umbrella" not in sent


def test_a_redaction_reaches_each_of_several_annotations() -> None:  # G-35
    frames = responses(annotated(0, "my umbrella"), annotated(1, "an umbrella"), annotated(2, "a stand"))
    sent = relay(RESPONSES, frames, on_unsafe="redact", stream={"window_chars": 1})
    assert sent.count(b"[REDACTED:") == 2
    assert b"umbrella" not in sent
    assert b"a stand" in sent


@pytest.mark.parametrize("mode", MODES)
def test_what_stands_over_two_annotations_cannot_be_redacted(mode: str) -> None:  # G-37
    frames = responses(annotated(0, "my umb"), annotated(1, "rella "), token("on ", "on "))
    sent = relay(RESPONSES, frames, on_unsafe="redact", stream={"mode": mode, "window_chars": 1})
    assert b"rella" not in sent
    assert b"response.incomplete" in sent


def test_readings_lead_back_to_the_field() -> None:  # G-07
    grown = Field("other", whole=False)
    for text in ("sun", "umbrella", "umbrella"):
        grown.cut()
        grown.grow(text)
        grown.cut()
    read = Readings(1, 0)
    read.add("/note", grown, 2, grown.length)
    asked = read.ask("window", (), complete=False)
    assert [segment.text for segment in asked.segments] == ["numbrellaumbrella", "n", "umbrella", "umbrella"]
    assert [asked.places[segment.path] for segment in asked.segments] == [
        ("/note", 2),
        ("/note", 2),
        ("/note", 3),
        ("/note", 11),
    ]
    assert asked.ended == {"/note~2", "/note~3", "/note~11"}


async def sent_before_the_end(frames: Sequence[bytes], **stream: Any) -> bytes:
    """Return what has left when the last frame has not come yet."""
    sink = Sink()
    seen: list[bytes] = []

    async def slowly() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame
        seen.append(sink.sent)

    policy = Policy.model_validate({"output": {"forced": ["words"], "stream": stream}})
    plan = Planner({"default": policy}, {"words": WORD}).plan(Request("gpt", None, CHAT.route))
    call = Call("id", "id", CHAT, {}, True, "gpt", "main", plan, "0" * 64, None, None, 0.0, 0.0)
    judging = Judging(call.output, lambda _: context("unused"), "full")
    run = Relay(call, Progress(), judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), sink)
    await run.run(slowly())
    return seen[0]


@pytest.mark.parametrize("thought", ["reasoning_content", "reasoning", "reasoning_details"])
async def test_thoughts_hold_up_no_text_once_the_model_speaks(thought: str) -> None:
    said = [{"content": word} for word in ("It ", "may rain ", *["and rain "] * 9)]
    text: Any = [{"index": 0, "text": "Let me see"}] if thought == "reasoning_details" else "Let me see"
    frames = chat({"delta": {thought: text}}, *[{"delta": delta} for delta in said])
    early = await sent_before_the_end(frames[:-2], window_chars=1)
    assert b"Let me see" in early
    assert b"may rain" in early


def test_a_thought_that_goes_on_after_a_text_is_judged_to_its_end() -> None:
    deltas = [{"reasoning_content": "a "}, {"content": "b "}, {"content": "c "}, {"reasoning_content": "my umbrella"}]
    frames = chat(*[{"delta": delta} for delta in deltas], {"delta": {"content": "d "}}, {"delta": {"content": "e "}})
    assert b"umbrella" not in relay(CHAT, frames, stream={"window_chars": 1})


async def test_reports_of_content_filters_hold_up_no_text() -> None:
    report = {"hate": {"filtered": False, "severity": "safe"}, "self_harm": {"filtered": False, "severity": "low"}}
    said = [{"delta": {"content": word}} for word in ("It may rain ", *["and rain "] * 9)]
    frames = chat({"delta": {"content": "Well, "}, "content_filter_results": report}, *said)
    assert b"may rain" in await sent_before_the_end(frames[:-2], window_chars=1)


def redacted(adapter: Adapter, frames: Sequence[bytes], body: dict[str, Any]) -> bytes:
    return relay(adapter, frames, body=body, on_unsafe="redact", stream={"window_chars": 1})


ASKED: Sequence[tuple[Adapter, dict[str, Any]]] = (
    (CHAT, {"response_format": {"type": "json_object"}}),
    (RESPONSES, {"text": {"format": {"type": "json_object"}}}),
    (MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
)


def structured(adapter: Adapter, parts: Sequence[str]) -> list[bytes]:
    if adapter is CHAT:
        return chat(*[{"delta": {"content": part}} for part in parts])
    if adapter is MESSAGES:
        return messages(*block(0, *[text_delta(part) for part in parts]))
    at = {"item_id": "i", "output_index": 0, "content_index": 0, "sequence_number": 1}
    return responses(*[event("response.output_text.delta", **at, delta=part) for part in parts])


def said(sent: bytes) -> str:
    """Return the text of a stream of any family."""
    bodies = [orjson.loads(frame.data) for frame in SseParser().feed(sent) if frame.data[:1] == b"{"]
    texts = [choice["delta"].get("content") for body in bodies for choice in body.get("choices", ())]
    deltas = [body.get("delta", {}) for body in bodies]
    texts += [delta if isinstance(delta, str) else delta.get("text") for delta in deltas]
    return "".join([text for text in texts if isinstance(text, str)])


@pytest.mark.parametrize(("adapter", "body"), ASKED)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_redacted_structured_reply_is_valid_json(adapter: Adapter, body: dict[str, Any], size: int) -> None:  # G-37
    text = '{"a": "my umbrella \\" is", "b": [1, "umbrella"], "c": 5}'
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    sent = redacted(adapter, structured(adapter, parts), body)
    assert orjson.loads(said(sent)) == {"a": 'my [REDACTED:rules] " is', "b": [1, "[REDACTED:rules]"], "c": 5}


@pytest.mark.parametrize(("adapter", "body"), [*ASKED, (CHAT, {})])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_structured_reply_with_escapes_is_redacted_as_its_reader_reads_it(
    adapter: Adapter, body: dict[str, Any], size: int
) -> None:  # G-37, S-01
    text = '{"a": "my \\u0075mbrella\\tis", "b": ["x\\numb\\u0072ella", "{\\"c\\": \\"umbrell\\\\u0061\\"}"], "c": "é"}'
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    sent = redacted(adapter, structured(adapter, parts), body)
    masked = "[REDACTED:rules]"
    assert orjson.loads(said(sent)) == {
        "a": f"my {masked}\tis",
        "b": [f"x\n{masked}", f'{{"c": "{masked}"}}'],
        "c": "é",
    }


@pytest.mark.parametrize(("adapter", "body"), ASKED)
@pytest.mark.parametrize(
    "text",
    [
        '{"umbrella": 1, "b": "x"}',
        '{"a": [{"umbrella": "x"}]}',
        '{"\\u0075mbrella": 1}',
        '{"a": {"umb\\u0072ella": ""}}',
    ],
)
def test_a_hit_in_a_key_of_a_structured_reply_blocks(adapter: Adapter, body: dict[str, Any], text: str) -> None:
    sent = redacted(adapter, structured(adapter, [text[:9], text[9:]]), body)
    assert b"mbrella" not in sent
    assert b"u0072" not in sent
    assert b"REDACTED" not in sent


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ('{"q": "my umbrella", "n": 1}', {"q": "my [REDACTED:rules]", "n": 1}),
        ('{"q": "my \\u0075mbrella"}', {"q": "my [REDACTED:rules]"}),
        (
            '{"q": ["x", {"r": "\\u0075mbrella"}], "s": "umbrella"}',
            {"q": ["x", {"r": "[REDACTED:rules]"}], "s": "[REDACTED:rules]"},
        ),
        ('{"umbrella": 1}', None),
        ('{"\\u0075mbrella": 1}', None),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 100])
def test_redacted_arguments_are_valid_json(written: str, left: Any, size: int) -> None:  # G-37, M-07
    parts = [written[start : start + size] for start in range(0, len(written), size)]
    first = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]}
    calls = [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts]
    frames = chat(*[{"delta": delta} for delta in [first, *calls]])
    sent = redacted(CHAT, frames, {})
    assert b"umbrella" not in sent
    bodies = [orjson.loads(frame.data) for frame in SseParser().feed(sent) if frame.data[:1] == b"{"]
    deltas = [choice["delta"] for body in bodies for choice in body["choices"]]
    arguments = "".join([delta["tool_calls"][0]["function"]["arguments"] for delta in deltas if "tool_calls" in delta])
    assert (orjson.loads(arguments) if arguments else None) == left
    blocks = [
        event("content_block_start", index=0, content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        *[
            event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": p})
            for p in ["", *parts]
        ],
        event("content_block_stop", index=0),
    ]
    sent = redacted(MESSAGES, messages(*blocks), {})
    assert b"umbrella" not in sent
    found = [orjson.loads(frame.data).get("delta", {}) for frame in SseParser().feed(sent) if frame.data]
    arguments = "".join([delta.get("partial_json", "") for delta in found])
    assert (orjson.loads(arguments) if arguments else None) == left


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["block", "redact"])
def test_a_text_that_stands_there_once_more_is_read_beside_its_neighbours(action: str, mode: str) -> None:  # G-06
    """Left out as said already, it would join what stands on either side of it, and not what stands beside it."""
    apart = [{"type": "text", "text": text, "index": number} for number, text in enumerate(["x", "never ", "x", "y"])]
    phrase = Rules(keywords=("x y",))
    frames = chat(*[{"delta": {"content": [part]}} for part in apart])
    assert b'"y"' not in relay(CHAT, frames, phrase, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    apart = [{**part, "text": text} for part, text in zip(apart, ["never ", "x ", "never ", "y"], strict=True)]
    frames = chat(*[{"delta": {"content": [part]}} for part in apart])
    sent = relay(CHAT, frames, phrase, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    assert sent == b"".join(frames)
