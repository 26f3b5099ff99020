"""`/v1/messages` streamed, over real sockets, against a server that speaks it natively (wire §5.2, §6; M-01)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from supervisors.testing import Finds, Sleeps
from supervisors.types import Supervisor
from tests.e2e.fake_messages import (
    ROUTE,
    accumulate,
    anthropic_tree,
    ask,
    event,
    events_of,
    message_body,
    message_events,
    text_block,
    text_events,
    thinking_events,
    tool_events,
)
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, BreaksLater, hang_up, policy, serving

WINDOW = {"window_chars": 12, "overlap_chars": 20}
REDACT = policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW})
SAFE = [
    thinking_events(0, "Let me ", "think about it."),
    text_events(1, "All", " is well,", " and it ", "stays so."),
    tool_events(2, '{"city": "Os', 'lo", "n": 1}'),
    tool_events(3),
]


def answer(*blocks: Sequence[bytes], **options: Any) -> Answer:
    return Answer(frames=message_events(*blocks), headers={"content-type": "text/event-stream"}, **options)


@pytest.mark.parametrize("mode", ["window", "sentence", "hold", "observe"])
@pytest.mark.parametrize("action", ["block", "redact"])
async def test_a_safe_stream_is_the_upstreams_bytes(tmp_path: Path, mode: str, action: str) -> None:  # S-11, W-03
    output = {"forced": ["words"], "on_unsafe": action, "stream": {**WINDOW, "mode": mode}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(answer(*SAFE, split=11))
        reply = await ask(proxy, stream=True)
        assert reply.content == b"".join(message_events(*SAFE))
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
        record = (await proxy.records())[0]
        assert record["usage"] == {"input_tokens": 7, "output_tokens": 5}
        assert (record["model_served"], record["client"]["terminator"]) == ("fake-model", "done")
        assert record["client"]["finish_reasons"] == ["end_turn"]


async def test_an_unguarded_stream_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-30, S-18
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies={})) as proxy:
        up.script(answer(*SAFE, split=11))
        assert (await ask(proxy, stream=True)).content == b"".join(message_events(*SAFE))
        assert (await proxy.records())[0]["client"]["terminator"] == "done"


async def test_every_stream_runs_its_supervisors(tmp_path: Path) -> None:  # M-01
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        up.script(answer(*SAFE))
        await ask(proxy, stream=True)
        verdicts = (await proxy.records())[0]["verdicts"]
        assert [(row["stage"], row["label"], row["cause"]) for row in verdicts] == [
            ("input", "safe", None),
            ("output", "safe", None),
        ]


async def test_a_blocked_stream_ends_with_a_notice_and_a_refusal(tmp_path: Path) -> None:  # wire §5.2, S-08, S-19
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        texts = ["All is well. ", "Really it is. ", "Take a violet", " umbrella now"]
        up.script(answer(thinking_events(0, "hm, a long thought. "), text_events(1, *texts)))
        reply = await ask(proxy, stream=True)
        message = accumulate(reply)
        assert message["content"][1]["text"].startswith("All is well. ")
        assert message["content"][2]["text"].startswith("This request cannot be completed")
        assert (message["stop_reason"], message["stop_details"]["type"]) == ("refusal", "refusal")
        assert [name for name, _ in events_of(reply)][-2:] == ["message_delta", "message_stop"]
        assert "violet" not in reply.text
        record = (await proxy.records())[0]
        assert (record["outcome"], record["client"]["terminator"]) == ("blocked_output", "done")


@pytest.mark.parametrize("on_block", ["cancel", "drain"])
async def test_a_stream_blocked_before_its_first_byte_is_a_whole_message(tmp_path: Path, on_block: str) -> None:
    output = {"forced": ["words"], "stream": {"mode": "hold", "on_block": on_block}}  # W-26
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(answer(text_events(0, CANARY, " and more, and still more.")))
        reply = await ask(proxy, stream=True)
        message = accumulate(reply)
        assert [block["type"] for block in message["content"]] == ["text"]
        assert (message["id"], message["stop_reason"]) == ("msg_fake", "refusal")
        assert [name for name, _ in events_of(reply)].count("message_stop") == 1


@pytest.mark.parametrize(
    "blocks",
    [
        [text_events(0, "fine"), tool_events(1, '{"a": "vio', 'let umbrella"}')],
        [text_events(0, "fine"), tool_events(1, '{"violet umbr', 'ella": 1}'), text_events(2, "and more text")],
        [tool_events(0, "{}", name=CANARY), text_events(1, "and more text")],
        [thinking_events(0, "a violet", " umbrella"), text_events(1, "fine, and more")],
        [text_events(0, "a violet"), text_events(1, " umbrella"), text_events(2, "and more")],
    ],
    ids=["tool input", "tool key", "tool name", "thinking", "over two blocks"],
)
async def test_no_part_of_a_canary_leaves_in_any_block(tmp_path: Path, blocks: Sequence[Sequence[bytes]]) -> None:
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:  # S-01, S-13, G-20, M-06
        up.script(answer(*blocks, split=5))
        reply = await ask(proxy, stream=True)
        assert accumulate(reply)["stop_reason"] == "refusal"
        assert "vio" not in reply.text


async def test_a_tool_call_leaves_when_it_is_complete_and_judged(tmp_path: Path) -> None:  # G-20, W-11
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        blocks = [tool_events(0, '{"city": "Os', 'lo"}'), tool_events(1, '{"city": "Ber', 'gen"}')]
        up.script(answer(*blocks, hold_at=9))  # within the second call
        body = message_body(stream=True)
        seen = b""
        async with proxy.client.stream("POST", ROUTE, json=body) as reply:
            async for data in reply.aiter_raw():
                seen += data
                if b"content_block_stop" in seen:
                    up.release()
        assert b"Ber" not in seen[: seen.index(b"content_block_stop")]
        assert seen == b"".join(message_events(*blocks))


async def test_text_after_thinking_flows(tmp_path: Path) -> None:  # E-10
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        blocks = [thinking_events(0, "a thought"), text_events(1, *["some words "] * 20)]
        up.script(answer(*blocks, hold_at=20))
        seen = b""
        async with proxy.client.stream("POST", ROUTE, json=message_body(stream=True)) as reply:
            async for data in reply.aiter_raw():
                seen += data
                if b"some words" in seen:
                    up.release()
        assert seen == b"".join(message_events(*blocks))


async def test_redaction_in_a_stream_masks_text_and_tool_input(tmp_path: Path) -> None:  # S-10, M-07
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        texts = text_events(0, "my vio", "let umb", "rella, and more text")
        up.script(answer(texts, tool_events(1, '{"a": "violet', ' umbrella", "n": 1}')))
        message = accumulate(await ask(proxy, stream=True))
        assert message["content"][0]["text"] == "my [REDACTED:canary], and more text"
        assert message["content"][1]["input"] == {"a": "[REDACTED:canary]", "n": 1}
        assert message["stop_reason"] == "end_turn"


async def test_a_phrase_over_two_text_blocks_is_redacted_in_both(tmp_path: Path) -> None:  # G-03
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        up.script(answer(text_events(0, "my violet"), text_events(1, " umbrella is nice")))
        message = accumulate(await ask(proxy, stream=True))
        assert [block["text"] for block in message["content"]] == ["my [REDACTED:canary]", " is nice"]


@pytest.mark.parametrize("mode", ["window", "hold"])
async def test_a_hit_in_signed_thinking_strips_its_block_and_renumbers(tmp_path: Path, mode: str) -> None:  # W-32
    output = {"forced": ["words"], "on_unsafe": "redact", "stream": {**WINDOW, "mode": mode}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        blocks = [
            thinking_events(0, "quite harmless"),
            thinking_events(1, "a long thought about a violet", " umbrella"),
            text_events(2, "my violet umbrella"),
            tool_events(3, '{"a": 1}'),
        ]
        up.script(answer(*blocks))
        reply = await ask(proxy, stream=True)
        message = accumulate(reply)
        assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
        assert message["content"][0]["signature"] == "c2lnbmVk"
        assert message["content"][1]["text"] == "my [REDACTED:canary]"
        assert message["content"][2]["input"] == {"a": 1}
        assert "thought" not in reply.text


async def test_no_event_of_thinking_leaves_before_all_of_it_is_judged(tmp_path: Path) -> None:  # W-32
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        blocks = [
            text_events(0, "some text that is long enough to leave early, ", "and more. "),
            thinking_events(1, "a thought that is long as well, ", "about a violet", " umbrella"),
            text_events(2, "the end"),
        ]
        up.script(answer(*blocks))
        reply = await ask(proxy, stream=True)
        assert [block["type"] for block in accumulate(reply)["content"]] == ["text", "text"]
        assert "thinking" not in reply.text


async def test_a_block_after_a_stripped_block_is_numbered_right(tmp_path: Path) -> None:  # W-32, W-25
    supervisors: Mapping[str, Supervisor] = {"words": Finds(CANARY), "other": Finds("green hat")}
    policies = {
        "mask": {"output": {"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW}},
        "stop": {"output": {"forced": ["other"], "stream": WINDOW}},
    }
    config = {"supervisors": supervisors, "policies": policies}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **config)) as proxy:
        texts = text_events(1, "some text that is long enough to leave early, ", "with a green", " hat in it")
        up.script(answer(thinking_events(0, CANARY), texts))
        message = accumulate(await ask(proxy, stream=True))
        assert [block["type"] for block in message["content"]] == ["text", "text"]
        assert message["stop_reason"] == "refusal"
        assert "green" not in message["content"][0]["text"]


async def test_on_signed_block_blocks_the_stream(tmp_path: Path) -> None:  # W-32
    output = {"forced": ["words"], "on_unsafe": "redact", "on_signed": "block", "stream": WINDOW}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(answer(thinking_events(0, CANARY), text_events(1, "fine")))
        assert accumulate(await ask(proxy, stream=True))["stop_reason"] == "refusal"


async def test_a_supervisor_that_breaks_mid_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:  # W-27, W-06
    output = {"forced": ["words"], "stream": {"window_chars": 5}}
    config: dict[str, Any] = {
        "supervisors": {"words": BreaksLater(CANARY, capability="windowed")},
        "policies": policy(output=output),
    }
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **config)) as proxy:
        up.script(answer(text_events(0, "first part ", "more words ", "second part ", "third")))
        reply = await ask(proxy, stream=True)
        name, data = events_of(reply)[-1]
        assert (name, data["error"]["type"]) == ("error", "overloaded_error")
        assert data["error"]["details"] == {"error_code": "guardrail_unavailable"}
        assert "second" not in reply.text
        assert "message_stop" not in reply.text


async def test_block_frame_error_ends_a_stream_with_an_error_event(tmp_path: Path) -> None:  # wire §5.2
    output = {"forced": ["words"], "stream": {**WINDOW, "block_frame": "error"}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(answer(text_events(0, "All is well, and more so. ", "And yet a ", CANARY, " comes")))
        reply = await ask(proxy, stream=True)
        name, data = events_of(reply)[-1]
        assert (name, data["error"]["details"]) == ("error", {"error_code": "content_filter"})
        assert "violet" not in reply.text


async def test_an_upstream_that_dies_mid_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:  # S-23, E-07
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        up.script(answer(text_events(0, "All is well here, and more. ", "really it is"), abort_at=4))
        reply = await ask(proxy, stream=True)
        name, data = events_of(reply)[-1]
        assert (name, data["error"]["type"]) == ("error", "api_error")
        assert "message_stop" not in reply.text


@pytest.mark.parametrize("policies", [{}, None])
async def test_an_error_event_of_the_upstream_ends_the_stream(
    tmp_path: Path, policies: dict[str, Any] | None
) -> None:  # W-06, S-14
    parts = {} if policies is None else {"policies": policies}
    failed = event("error", error={"type": "overloaded_error", "message": "no luck at http://10.0.0.1"})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, **parts)) as proxy:
        frames = [*message_events(text_events(0, "All is well here, and more"))[:-2], failed]
        up.script(Answer(frames=frames))
        reply = await ask(proxy, stream=True)
        assert [name for name, _ in events_of(reply)].count("error") == 1
        assert events_of(reply)[-1][0] == "error"
        assert "10.0.0.1" not in reply.text
        assert (await proxy.records())[0]["outcome"] == "upstream_error"


@pytest.mark.parametrize(
    "frames",
    [
        [b"event: message_start\ndata: [1]\n\n"],
        [b'event: ping\ndata: {"type": "message_start"}\n\n'],
        [b'data: {"a": 1}\n\n'],
        [b'event: content_block_stop\ndata: {"type": "content_block_stop"}\n\n'],
    ],
)
async def test_a_stream_of_another_kind_is_a_502(tmp_path: Path, frames: list[bytes]) -> None:  # W-05
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        up.script(Answer(frames=frames))
        reply = await ask(proxy, stream=True)
        assert (reply.status_code, reply.json()["error"]["type"]) == (502, "api_error")


async def test_a_disconnect_closes_the_upstream_and_is_recorded(tmp_path: Path) -> None:  # O-10, R-03
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
        for number, stream in enumerate((False, True)):
            up.script(answer(text_events(0, "one"), hold_at=-1))
            await hang_up(ask(proxy, stream=stream), up.wait_received(number + 1))
            assert (await up.wait_finished(number)).closed_at is not None
        for record in await proxy.wait_records(2):
            assert (record["route"], record["outcome"]) == (ROUTE, "cancelled")


async def test_held_text_is_kept_alive_with_pings(tmp_path: Path) -> None:  # W-28
    output = {"forced": ["words"], "stream": {"mode": "hold", "heartbeat_s": 0.05}}
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(answer(text_events(0, "one", "two"), hold_at=4))
        seen = b""
        async with proxy.client.stream("POST", ROUTE, json=message_body(stream=True)) as reply:
            async for data in reply.aiter_raw():
                seen += data
                if seen.count(b"event: ping") >= 2:
                    up.release()
        assert seen.startswith(b": keep-alive\n\nevent: ping\n")
        assert seen.endswith(b"".join(message_events(text_events(0, "one", "two"))))


async def test_unknown_events_and_deltas_are_judged(tmp_path: Path) -> None:  # W-29, G-01
    odd = event("content_block_delta", index=0, delta={"type": "new_delta", "words": CANARY})
    news = event("news", words=CANARY)
    for frame in (odd, news, event("message_stop", words=CANARY)):
        async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path)) as proxy:
            frames = message_events(text_events(0, "fine"))
            up.script(Answer(frames=[*frames[:4], frame, *frames[4:]]))
            assert "violet" not in (await ask(proxy, stream=True)).text


async def test_a_result_of_the_providers_own_tool_is_judged(tmp_path: Path) -> None:  # G-01, W-31
    page = {"type": "web_search_result", "url": "http://x", "title": "t", "encrypted_content": "eA==", "page_age": None}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [page]}
    start = event("content_block_start", index=0, content_block=found)
    blocks = [[start, event("content_block_stop", index=0)], text_events(1, "fine and well, and more")]
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, policies=REDACT)) as proxy:
        up.script(answer(*blocks))
        assert (await ask(proxy, stream=True)).content == b"".join(message_events(*blocks))
        page["title"] = f"a {CANARY}"
        start = event("content_block_start", index=0, content_block=found)
        up.script(answer([start, event("content_block_stop", index=0)]))
        message = accumulate(await ask(proxy, stream=True))
        assert message["content"][0]["content"][0]["title"] == "a [REDACTED:canary]"


async def test_parallel_input_holds_every_byte(tmp_path: Path) -> None:  # §5, W-05
    judge: Mapping[str, Supervisor] = {"words": Sleeps(0.05)}
    rules = policy({"forced": ["words"], "mode": "parallel"})
    async with FakeUpstream() as up, serving(anthropic_tree(up, tmp_path, supervisors=judge, policies=rules)) as proxy:
        up.script(answer(*SAFE))
        reply = await ask(proxy, [text_block("hi")], stream=True)
        assert reply.content == b"".join(message_events(*SAFE))
