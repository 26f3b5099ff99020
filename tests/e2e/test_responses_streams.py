"""The Responses route over real sockets, streamed replies (wire §5.2, §6; guarding §7, §12)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.wire.sse import SseParser
from supervisors.testing import Sleeps
from tests.e2e.fake_responses import (
    SSE,
    begun,
    call_events,
    frames,
    message,
    output_text,
    reasoning_events,
    response,
    stream,
    streamed,
    text_events,
)
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, BreaksLater, Serving, guarded, hang_up, policy, serving
from tests.timing import PATIENCE_S

WINDOW = {"window_chars": 12, "overlap_chars": 20}
REDACT = policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW})


async def ask(proxy: Serving, given: str = "hello", **fields: Any) -> httpx.Response:
    return await proxy.client.post("/v1/responses", json={"model": "gpt", "input": given, "stream": True, **fields})


def events_of(reply: httpx.Response) -> list[dict[str, Any]]:
    """Return the events, after checking what holds for every stream: names, numbers, no [DONE]."""
    found: list[dict[str, Any]] = []
    for frame in SseParser().feed(reply.content):
        if frame.data:
            event: dict[str, Any] = orjson.loads(frame.data)
            assert frame.event == event["type"]
            found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert b"[DONE]" not in reply.content
    return found


def names_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def said(events: list[dict[str, Any]]) -> str:
    return "".join([event["delta"] for event in events if event["type"] == "response.output_text.delta"])


@pytest.mark.parametrize("mode", ["hold", "window", "sentence", "observe"])
async def test_a_safe_stream_is_the_upstreams_bytes(tmp_path: Path, mode: str) -> None:  # S-11, S-09, M-12
    rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "mode": mode}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        items = [*reasoning_events(["Think. ", "Hard."]), *text_events(["All ", "is well. ", "Really."], 1)]
        sent = frames(stream(*items, *call_events(['{"a": ', "1}"], 2)))
        up.script(Answer(frames=sent, split=11, headers=SSE))
        reply = await ask(proxy)
        assert reply.content == b"".join(sent)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        record = (await proxy.records())[0]
        assert (record["client"]["terminator"], record["usage"]["total_tokens"]) == ("done", 10)
        assert (record["model_served"], record["client"]["finish_reasons"]) == ("fake-model", ["completed"])


async def test_with_no_supervisor_a_stream_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-30
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies={})) as proxy:
        sent = frames(stream(*text_events(["a", "b"])))
        up.script(Answer(frames=sent, headers=SSE))
        assert (await ask(proxy)).content == b"".join(sent)
        assert (await proxy.records())[0]["client"]["terminator"] == "done"


async def test_a_block_closes_what_is_open_and_ends_incomplete(tmp_path: Path) -> None:  # wire §5.2, W-25, S-19
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(streamed("All is well. ", "Really it is. ", "Take a violet", " umbrella now"))
        reply = await ask(proxy, metadata={"job": "7"})
        events = events_of(reply)
        assert "violet" not in reply.text
        assert said(events).startswith("All is well. ")
        tail = names_of(events)[-8:]
        assert tail == [
            "output_text.done",
            "content_part.done",
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done",
            "output_item.done",
            "incomplete",
        ]
        assert events[-8]["text"] == said(events)
        final = events[-1]["response"]
        assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
        assert (final["id"], final["usage"], final["metadata"]) == ("resp_fake", None, {"job": "7"})
        (item,) = final["output"]
        assert item == events[-2]["item"]
        assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]
        assert item["content"][0]["text"] == said(events)
        record = (await proxy.records())[0]
        assert (record["outcome"], record["client"]["terminator"]) == ("blocked_output", "done")


async def test_a_block_of_the_first_words_says_the_notice_as_text_too(tmp_path: Path) -> None:  # wire §5.2, W-22
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["output_text", "refusal"]),
            ({"text": {"format": {"type": "json_schema"}}}, ["refusal"]),
        ]
        for fields, types in cases:
            up.script(streamed(f"{CANARY} ", "here"))
            events = events_of(await ask(proxy, **fields))
            assert names_of(events)[:3] == ["created", "in_progress", "output_item.added"]
            final = events[-1]["response"]
            assert final["status"] == "incomplete"
            assert [part["type"] for part in final["output"][0]["content"]] == types
            assert said(events) == (final["output"][0]["content"][0].get("text") or "")


async def test_an_empty_part_that_is_open_takes_the_notice(tmp_path: Path) -> None:
    rules = policy(output={"forced": ["words"], "stream": WINDOW})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        at = {"item_id": "msg_1", "output_index": 0}
        second = {"type": "response.content_part.added", **at, "content_index": 1, "part": output_text("")}
        items = text_events(["a long enough opening, then"])[:3]
        items += [second, {"type": "response.output_text.delta", **at, "content_index": 1, "delta": CANARY}]
        up.script(Answer(frames=frames(stream(*items)), headers=SSE))
        events = events_of(await ask(proxy))
        assert names_of(events)[-2:] == ["output_item.done", "incomplete"]
        assert CANARY not in str(events)


async def test_a_block_behind_reasoning_closes_it_and_answers_in_a_message(tmp_path: Path) -> None:  # wire §5.2
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        thoughts = ["Let me think about this for a long time. ", f"Then: {CANARY}."]
        up.script(Answer(frames=frames(stream(*reasoning_events(thoughts))), headers=SSE))
        events = events_of(await ask(proxy))
        assert names_of(events)[-14:-11] == [
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ]
        first, second = events[-1]["response"]["output"]
        assert (first["type"], first["status"]) == ("reasoning", "incomplete")
        assert [part["type"] for part in second["content"]] == ["output_text", "refusal"]
        assert CANARY not in str(events)


async def test_redaction_reaches_done_events_and_the_final_object(tmp_path: Path) -> None:  # G-38, W-29, S-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        texts = ["a vio", "let umb", "rella, and a long walk home in the rain"]
        up.script(streamed(*texts))
        reply = await ask(proxy)
        events = events_of(reply)
        masked = "a [REDACTED:canary], and a long walk home in the rain"
        assert said(events) == masked
        by_name = dict(zip(names_of(events), events, strict=True))
        assert by_name["output_text.done"]["text"] == masked
        assert by_name["content_part.done"]["part"]["text"] == masked
        assert by_name["output_item.done"]["item"]["content"][0]["text"] == masked
        assert by_name["completed"]["response"]["output"][0]["content"][0]["text"] == masked
        assert "violet" not in reply.text
        assert "rella" not in reply.text
        assert (await proxy.records())[0]["decisions"][-1]["redacted"] is True


async def test_redaction_drops_the_tokens_that_spell_it(tmp_path: Path) -> None:  # W-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        tokens = [{"token": CANARY, "logprob": -1.0}]
        events = stream(*text_events([CANARY]))
        for event in events:
            if event["type"].startswith("response.output_text."):
                event["logprobs"] = tokens
            elif event["type"] == "response.content_part.done":
                event["part"]["logprobs"] = tokens
        up.script(Answer(frames=frames(events), headers=SSE))
        reply = await ask(proxy)
        assert "umbrella" not in reply.text
        assert said(events_of(reply)) == "[REDACTED:canary]"


async def test_redaction_in_the_arguments_of_a_call_keeps_them_json(tmp_path: Path) -> None:  # M-07, G-37
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        up.script(Answer(frames=frames(stream(*call_events(['{"q": "a violet', ' umbrella"}']))), headers=SSE))
        final = events_of(await ask(proxy))[-1]["response"]
        assert orjson.loads(final["output"][0]["arguments"]) == {"q": "a [REDACTED:canary]"}


async def test_a_done_event_that_says_something_else_is_judged_too(tmp_path: Path) -> None:  # G-06
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for spot in range(-4, 0):
            events = stream(*text_events(["nothing to see here, move along"]))
            text = orjson.dumps(events[spot]).replace(b"nothing to see", CANARY.encode())
            events[spot] = orjson.loads(text)
            up.script(Answer(frames=frames(events), headers=SSE))
            reply = await ask(proxy)
            assert events_of(reply)[-1]["type"] == "response.incomplete"
            assert CANARY not in reply.text


async def test_text_that_comes_only_when_it_is_done_is_judged_and_redacted(tmp_path: Path) -> None:  # G-06
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        up.script(Answer(frames=frames(stream(*text_events([f"a {CANARY}"])[-1:])), headers=SSE))
        final = events_of(await ask(proxy))[-1]["response"]
        assert final["output"][0]["content"][0]["text"] == "a [REDACTED:canary]"


async def test_a_call_stays_until_its_arguments_are_judged(tmp_path: Path) -> None:  # S-16, W-11, W-24
    rules = policy(output={"forced": ["words"], "stream": {"window_chars": 1, "overlap_chars": 20}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        items = [*text_events(["Let me look that up for you, one moment."]), *call_events(['{"q": "a violet'], 1)]
        sent = frames(stream(*items, *call_events([' umbrella"}'], 2)))
        up.script(Answer(frames=sent, hold_at=len(sent) - 3, headers=SSE))
        async with proxy.client.stream(
            "POST", "/v1/responses", json={"model": "gpt", "input": "x", "stream": True}
        ) as live:
            seen = b""
            async for data in live.aiter_bytes():
                seen += data
                if b"Let me look" in data:
                    break
            assert b"function_call" not in seen
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(frames=frames(stream(*call_events(['{"q": "violet', ' umbrella"}']))), headers=SSE))
        reply = await ask(proxy)
        assert "look_up" not in reply.text
        assert events_of(reply)[-1]["type"] == "response.incomplete"


async def test_a_message_flows_though_reasoning_came_first(tmp_path: Path) -> None:  # E-10, S-18
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        words = ["All is well. "] * 6
        search = {"id": "ws", "type": "web_search_call", "status": "completed"}
        found = {**search, "action": {"type": "search", "query": "weather"}}
        built_in = [
            {"type": "response.output_item.added", "output_index": 1, "item": search},
            {"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws"},
            {"type": "response.output_item.done", "output_index": 1, "item": found},
        ]
        sent = frames(stream(*reasoning_events(["Hm. ", "Well."]), *built_in, *text_events(words, 2)))
        up.script(Answer(frames=sent, hold_at=len(sent) - 5, headers=SSE))
        body = {"model": "gpt", "input": "x", "stream": True}
        seen = b""
        async with asyncio.timeout(PATIENCE_S), proxy.client.stream("POST", "/v1/responses", json=body) as live:
            async for data in live.aiter_bytes():
                seen += data
                if b"All is well" in seen:
                    up.release()
        assert seen == b"".join(sent)


async def test_a_heartbeat_begins_the_response_and_numbers_stay_whole(tmp_path: Path) -> None:  # W-28, S-20
    rules = policy(output={"forced": ["slow"], "stream": {"mode": "hold", "heartbeat_s": 0.1}})
    slow = {"slow": Sleeps(0.35)}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules, supervisors=slow)) as proxy:
        up.script(streamed("All is well."))
        reply = await ask(proxy)
        events = events_of(reply)
        names = names_of(events)
        assert names[0] == "created"
        assert names.count("created") == 1
        assert names.count("in_progress") >= 2
        assert events[0]["response"]["id"] == "resp_fake"
        assert said(events) == "All is well."
        assert b": keep-alive" in reply.content


async def test_an_error_after_the_first_byte_is_an_error_event(tmp_path: Path) -> None:  # W-06, S-23
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(streamed("All is well here, ", "really", " it is", abort_at=6))
        events = events_of(await ask(proxy))
        assert {key: events[-1][key] for key in ("type", "code", "param")} == {
            "type": "error",
            "code": "upstream_error",
            "param": None,
        }
        assert "completed" not in names_of(events)


@pytest.mark.parametrize("policies", [{}, None])
async def test_a_stream_that_just_stops_ends_with_an_error(tmp_path: Path, policies: dict[str, Any] | None) -> None:
    parts = {} if policies is None else {"policies": policies}  # E-07, S-14
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        up.script(Answer(frames=frames(stream(*text_events(["All is well. "]))[:-1]), headers=SSE))
        events = events_of(await ask(proxy))
        assert said(events) == "All is well. "
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "upstream_error")
        record = (await proxy.records())[0]
        assert (record["outcome"], record["client"]["terminator"]) == ("upstream_error", "error")


@pytest.mark.parametrize("name", ["error", "response.failed"])
async def test_an_error_that_the_upstream_reports_names_no_address(tmp_path: Path, name: str) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        error = {"code": "server_error", "message": f"no route to {up.url}"}
        failed = {"type": name, "response": begun(error=error), **error, "sequence_number": 9}
        events = stream(*text_events(["All is well. "] * 4))[:8]
        up.script(Answer(frames=frames([*events, failed]), headers=SSE))
        reply = await ask(proxy)
        assert events_of(reply)[-1]["code"] == "upstream_error"
        assert up.url not in reply.text
        assert (await proxy.records())[0]["outcome"] == "upstream_error"


async def test_an_error_before_the_first_byte_is_a_real_status(tmp_path: Path) -> None:  # W-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=frames([{"type": "error", "code": "x", "message": "y"}]), headers=SSE))
        reply = await ask(proxy)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")


async def test_a_guard_that_fails_mid_stream_ends_it_with_an_error(tmp_path: Path) -> None:  # W-27
    rules = policy(output={"forced": ["words"], "stream": {"window_chars": 5}})
    config: dict[str, Any] = {"supervisors": {"words": BreaksLater(CANARY, capability="windowed")}, "policies": rules}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **config)) as proxy:
        up.script(streamed("first part ", "more words ", "second part ", "third"))
        reply = await ask(proxy)
        last = events_of(reply)[-1]
        assert (last["type"], last["code"]) == ("error", "guardrail_unavailable")
        assert last["guardrail"]["stage"] == "output"
        assert "second" not in reply.text


async def test_a_disconnect_closes_the_upstream(tmp_path: Path) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(streamed("one", hold_at=-1))
        await hang_up(ask(proxy), up.wait_received())
        assert (await up.wait_finished()).closed_at is not None
        assert (await proxy.wait_records())[0]["outcome"] == "cancelled"


async def test_numbers_of_the_upstream_that_have_gaps_are_made_whole(tmp_path: Path) -> None:  # W-20
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        events = stream(*text_events(["All is well."]))
        for event in events:
            event["sequence_number"] = event["sequence_number"] * 3 + 5
        up.script(Answer(frames=frames(events), headers=SSE))
        assert said(events_of(await ask(proxy))) == "All is well."


async def test_comments_and_terminators_of_the_upstream_stay_behind(tmp_path: Path) -> None:  # W-03, G-06
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        sent = frames(stream(*text_events(["All is well."])))
        sent[3] = f": {CANARY}\nid: {CANARY}\n".encode() + sent[3]
        up.script(Answer(frames=[*sent, b"data: [DONE]\n\n"], headers=SSE))
        reply = await ask(proxy)
        assert CANARY not in reply.text
        assert said(events_of(reply)) == "All is well."


async def test_draining_records_the_usage_of_a_blocked_response(tmp_path: Path) -> None:  # W-26
    rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "on_block": "drain"}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(streamed("Take a violet umbrella along ", "today"))
        assert names_of(events_of(await ask(proxy))).count("incomplete") == 1
        assert (await proxy.records())[0]["usage"]["total_tokens"] == 10


async def test_a_finished_item_and_a_blocked_one_both_stand_in_the_end(tmp_path: Path) -> None:  # W-25
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        items = [*text_events(["A first message. "] * 3), *text_events(["Then the second. ", CANARY], 1, "msg_2")]
        up.script(Answer(frames=frames(stream(*items)), headers=SSE))
        events = events_of(await ask(proxy))
        output = events[-1]["response"]["output"]
        assert output[0] == message("A first message. " * 3)
        assert (output[1]["id"], output[1]["status"]) == ("msg_2", "incomplete")
        assert CANARY not in str(events)


async def test_a_response_that_ends_incomplete_is_passed_on(tmp_path: Path) -> None:  # W-14
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        sent = frames(stream(*text_events(["All is well."]), ending="incomplete", **details))
        up.script(Answer(frames=sent, headers=SSE))
        assert (await ask(proxy)).content == b"".join(sent)
        assert (await proxy.records())[0]["client"]["finish_reasons"] == ["max_output_tokens"]
        up.script(Answer(json=response(message("cut"), status="incomplete", **details)))
        await ask(proxy, stream=False)
        assert (await proxy.records())[0]["client"]["finish_reasons"] == ["max_output_tokens"]


async def test_a_streamed_reply_is_recorded_like_a_whole_one(tmp_path: Path) -> None:  # G-05
    items = [*reasoning_events(["thinking"]), *call_events(['{"city": "Oslo"}'], 1)]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        whole = response(*[event["item"] for event in items if event["type"] == "response.output_item.done"])
        up.script(Answer(json=whole), Answer(frames=frames(stream(*items)), headers=SSE))
        await ask(proxy, stream=False)
        await ask(proxy)
        streamed_view, whole_view = [record["view"] for record in await proxy.records(2)]
        assert streamed_view["opaque"] == whole_view["opaque"] == 1
        assert streamed_view["segments"] == whole_view["segments"]


async def test_shadow_supervisors_see_the_kinds_of_a_stream(tmp_path: Path) -> None:
    words = {"use": "rules", "keywords": ["oslo"], "kinds": ["tool_args"]}
    rules = policy(output={"forced": ["words"], "mode": "shadow"})
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors={"words": words}, policies=rules)) as proxy,
    ):
        up.script(Answer(frames=frames(stream(*call_events(['{"city": "Oslo"}']))), headers=SSE))
        await ask(proxy)
        verdicts = (await proxy.wait_records())[0]["verdicts"]
        assert [(row["stage"], row["label"]) for row in verdicts] == [("output", "unsafe")]


@pytest.mark.parametrize(("said", "leaves"), [("fine", True), (CANARY, False)])
async def test_an_item_of_an_unknown_type_leaves_once_it_is_judged(
    tmp_path: Path, said: str, leaves: bool
) -> None:  # W-29, G-01
    item = {"id": "n1", "type": "novelty", "deep": [{"a": said}], "more": [[{"b": "fine"}]]}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "n1", "type": "novelty"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        sent = frames(stream(*events))
        up.script(Answer(frames=sent, headers=SSE))
        reply = await ask(proxy)
        assert reply.status_code == 200
        assert (reply.content == b"".join(sent)) is leaves
        assert CANARY not in reply.text
