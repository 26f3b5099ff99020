"""Legacy completions over real sockets, whole and streamed (wire §5, §7; guarding M-01, M-04, M-18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from supervisors.rules import Rules
from supervisors.testing import Fails
from supervisors.types import Supervisor
from tests.e2e.fake_upstream import Answer, FakeUpstream, sse
from tests.e2e.serving import CANARY, BreaksLater, Serving, frames_of, guarded, hang_up, policy, serving
from tests.timing import PATIENCE_S

ROUTE = "/v1/completions"
RULES: Mapping[str, Any] = {
    "supervisors": {"words": Rules.model_validate({"use": "rules", "keywords": [CANARY]})},
    "policies": policy({"forced": ["words"]}, {"forced": ["words"]}),
}


def reply_of(*texts: str) -> dict[str, Any]:
    choices = [
        {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"} for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    return {"id": "cmpl-fake", "object": "text_completion", "created": 1, "model": "m", "choices": choices} | {
        "usage": usage
    }


def chunks_of(*texts: str, index: int = 0) -> list[dict[str, Any]]:
    head = {"id": "cmpl-fake", "object": "text_completion", "created": 1, "model": "m"}

    def chunk(text: str, finish: str | None) -> dict[str, Any]:
        return head | {"choices": [{"index": index, "text": text, "logprobs": None, "finish_reason": finish}]}

    return [*[chunk(text, None) for text in texts], chunk("", "stop")]


async def complete(proxy: Serving, prompt: object = "hello", **fields: Any) -> httpx.Response:
    return await proxy.client.post(ROUTE, json={"model": "gpt", "prompt": prompt, **fields})


def text_of(reply: httpx.Response, index: int = 0) -> str:
    choices = [frame["choices"][0] for frame in frames_of(reply) if frame != "[DONE]" and frame.get("choices")]
    return "".join([choice["text"] for choice in choices if choice["index"] == index])


async def test_an_allowed_reply_is_the_upstreams_bytes(tmp_path: Path) -> None:  # W-07, W-08, W-02
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = orjson.dumps(reply_of("fine") | {"vendor": {"a": None}}, option=orjson.OPT_INDENT_2)
        frames = sse(*chunks_of("All", " is", " well here."))
        up.script(Answer(body=body, headers={"content-type": "application/json"}), Answer(frames=frames, split=5))
        whole = await proxy.client.post(
            "/completions", json={"model": "gpt", "prompt": "x", "best_of": 1, "echo": False}
        )
        assert whole.content == body
        assert (await complete(proxy, stream=True)).content == b"".join(frames)
        assert [one.path for one in up.received] == [ROUTE, ROUTE]
        assert up.received[0].json["best_of"] == 1
        assert [record["route"] for record in await proxy.records(2)] == [ROUTE, ROUTE]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        {"prompt": f"a {CANARY}"},
        {"prompt": ["fine", f"a {CANARY}"]},
        {"prompt": "fine", "suffix": f"a {CANARY}"},
        {"prompt": "fine", "guided_json": {"description": f"a {CANARY}"}},
        {"prompt": None, "suffix": CANARY},
        {"prompt": "fine", "echo": True, "prefix": [CANARY]},
    ],
)
async def test_the_same_content_in_any_shape_is_blocked(
    tmp_path: Path, shape: dict[str, Any], stream: bool
) -> None:  # M-04, M-18, D-01
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post(ROUTE, json={"model": "gpt", "stream": stream, **shape})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "content_filter", "prompt")
        assert up.received == []
        assert (await proxy.records())[0]["outcome"] == "blocked_input"


async def test_a_phrase_split_over_prompts_is_found(tmp_path: Path) -> None:  # G-03, D-04
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **RULES)) as proxy:
        assert (await complete(proxy, ["a violet", "umbrella"])).status_code == 400
        assert (await complete(proxy, ["a violet", "parasol"])).status_code == 200


@pytest.mark.parametrize("prompt", [[1, 2, 3], [[1, 2], [3]], ["fine", [1]]])
async def test_token_arrays_are_not_judged_and_so_not_let_through(tmp_path: Path, prompt: object) -> None:  # G-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **RULES)) as proxy:
        reply = await complete(proxy, prompt)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (400, "content_not_judged")
        assert "could not be judged" in error["message"]
        assert error["guardrail"]["cause"] == "unsupported"
        assert up.received == []


async def test_a_blocked_choice_holds_the_notice_and_its_siblings_stay(tmp_path: Path) -> None:  # §5.1, W-10, M-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=reply_of("fine", f"a {CANARY}", "good")))
        reply = await complete(proxy, ["one", "two", "three"])
        first, second, third = reply.json()["choices"]
        assert (first["text"], third["text"]) == ("fine", "good")
        assert second == {
            "index": 1,
            "text": "This request cannot be completed because of a content policy.",
            "logprobs": None,
            "finish_reason": "content_filter",
        }
        assert reply.json()["usage"]["total_tokens"] == 7
        assert CANARY not in reply.text


async def test_a_blocked_stream_ends_with_notice_finish_and_done(tmp_path: Path) -> None:  # wire §5.2, S-07, W-25
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(
            Answer(frames=sse(*chunks_of("All is well. ", "Really it is. ", "Take a vio", "let umbr", "ella now")))
        )
        reply = await complete(proxy, stream=True)
        frames = frames_of(reply)
        assert frames[-1] == "[DONE]"
        assert frames[-2]["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "content_filter"}
        assert frames[-3]["choices"][0]["text"].startswith("\n\nThis request")
        assert {frame["id"] for frame in frames[:-1]} == {"cmpl-fake"}
        assert text_of(reply).startswith("All is well. ")
        assert "violet" not in text_of(reply)
        record = (await proxy.records())[0]
        assert (record["outcome"], record["client"]["finish_reasons"]) == ("blocked_output", ["content_filter"])


async def test_streams_of_several_prompts_are_judged_one_by_one(tmp_path: Path) -> None:  # W-10, wire §7
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        good, bad = chunks_of("all", " is", " well"), chunks_of("a violet", " umbrella", index=1)
        mixed = [chunk for pair in zip(good, [*bad, bad[-1]], strict=False) for chunk in pair]
        up.script(Answer(frames=sse(*mixed)))
        reply = await complete(proxy, ["one", "two"], stream=True)
        assert text_of(reply, 0) == "all is well"
        assert "umbrella" not in text_of(reply, 1)
        assert frames_of(reply)[-1] == "[DONE]"
        assert (await proxy.records())[0]["client"]["finish_reasons"] == ["stop", "content_filter"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_input_is_a_reply_of_this_route(tmp_path: Path, stream: bool) -> None:  # §5.1
    rules = policy({"forced": ["words"]}, on_block={"input": "refusal"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        reply = await complete(proxy, [CANARY, "fine"], stream=stream)
        assert reply.status_code == 200
        if stream:
            assert text_of(reply, 1).startswith("This request")
            return
        body = reply.json()
        assert (body["object"], body["id"][:5], body["model"]) == ("text_completion", "cmpl-", "gpt")
        assert [choice["finish_reason"] for choice in body["choices"]] == ["content_filter"] * 2
        assert body["usage"]["total_tokens"] == 0
        assert up.received == []


async def test_an_echoed_prompt_is_the_redacted_one(tmp_path: Path) -> None:  # wire §7, G-38
    rules = policy({"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["words"], "on_unsafe": "redact"})

    def echo(received: Any) -> Answer:
        return Answer(json=reply_of(received.json["prompt"] + f" and a {CANARY}"))

    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(echo)
        reply = await complete(proxy, f"my {CANARY}", echo=True)
        assert up.received[0].json["prompt"] == "my [REDACTED:canary]"
        assert reply.json()["choices"][0]["text"] == "my [REDACTED:canary] and a [REDACTED:canary]"


async def test_a_redacted_reply_loses_the_log_probabilities_of_the_span(tmp_path: Path) -> None:  # W-09
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact"})
    body = reply_of(f"a {CANARY}!")
    body["choices"][0]["logprobs"] = {"tokens": ["a ", "violet", " umbrella", "!"], "token_logprobs": [-1, -2, -3, -4]}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=body))
        choice = (await complete(proxy, logprobs=1)).json()["choices"][0]
        assert choice["logprobs"] == {"tokens": ["a ", "!"], "token_logprobs": [-1, -4]}


async def test_a_redacted_stream_loses_nothing_but_the_span(tmp_path: Path) -> None:  # S-10
    output = {"forced": ["words"], "on_unsafe": "redact", "stream": {"window_chars": 12, "overlap_chars": 20}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(Answer(frames=sse(*chunks_of("Take a vio", "let umbr", "ella now"))))
        assert text_of(await complete(proxy, stream=True)) == "Take a [REDACTED:canary] now"


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_broken_supervisor_is_a_503(tmp_path: Path, stage: str, stream: bool) -> None:  # F-01, M-04
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}
    rules = policy(**{"stage" if stage == "input" else "output": {"forced": ["words"]}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken, policies=rules)) as proxy:
        up.script(Answer(frames=sse(*chunks_of("hi"))) if stream else Answer(json=reply_of("hi")))
        reply = await complete(proxy, stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "guardrail_unavailable")


async def test_a_supervisor_that_breaks_mid_stream_ends_it_with_an_error_frame(tmp_path: Path) -> None:  # W-27, W-06
    parts: dict[str, Any] = {
        "supervisors": {"words": BreaksLater(CANARY, capability="windowed")},
        "policies": policy(output={"forced": ["words"], "stream": {"window_chars": 5}}),
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        up.script(
            Answer(
                frames=sse(*chunks_of("first part ", "more words ", "and some more of them ", "second part ", "third"))
            )
        )
        reply = await complete(proxy, stream=True)
        assert frames_of(reply)[-1]["error"]["code"] == "guardrail_unavailable"
        assert "second" not in reply.text


async def test_upstream_errors_before_and_after_the_first_byte(tmp_path: Path) -> None:  # W-05, W-06, S-23
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        failure = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
        up.script(Answer(status=400, json=failure), Answer(status=400, json=failure))
        for stream in (False, True):
            reply = await complete(proxy, stream=stream)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "context_length_exceeded")
        up.script(Answer(frames=sse(*chunks_of("All is well here, ", "really", " it is")), abort_at=2))
        reply = await complete(proxy, stream=True)
        assert frames_of(reply)[-1]["error"]["code"] == "upstream_error"
        assert "[DONE]" not in reply.text
        up.script(Answer(json={"object": "text_completion"}))
        assert (await complete(proxy)).status_code == 502


async def test_a_disconnect_closes_the_upstream_and_is_recorded(tmp_path: Path) -> None:  # O-10
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for number, stream in enumerate((False, True)):
            up.script(Answer(frames=sse(*chunks_of("one")), hold_at=-1))
            await hang_up(complete(proxy, stream=stream), up.wait_received(number + 1))
            assert (await up.wait_finished(number)).closed_at is not None
        assert [record["outcome"] for record in await proxy.wait_records(2)] == ["cancelled", "cancelled"]


async def test_held_text_gets_a_heartbeat_of_this_route(tmp_path: Path) -> None:  # W-28
    output = {"forced": ["words"], "stream": {"mode": "hold", "heartbeat_s": 0.05}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=policy(output=output))) as proxy:
        up.script(Answer(frames=sse(*chunks_of("one", " two")), hold_at=1))
        async with (
            asyncio.timeout(PATIENCE_S),
            proxy.client.stream("POST", ROUTE, json={"model": "gpt", "prompt": "x", "stream": True}) as reply,
        ):
            lines = reply.aiter_lines()
            first = [line async for line in _take(lines, 3)]
            up.release()
            rest = [line async for line in lines]
        assert first[0] == ": keep-alive"
        assert orjson.loads(first[2][6:])["choices"] == [
            {"index": 0, "text": "", "logprobs": None, "finish_reason": None}
        ]
        assert rest[-2] == "data: [DONE]"


async def _take(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    for _ in range(count):
        yield await anext(lines)


async def test_more_choices_than_allowed_are_refused(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, limits={"max_choices": 4})) as proxy:
        refused = await complete(proxy, ["a", "b", "c"], n=2)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "n")
        assert "6 choices" in refused.json()["error"]["message"]
        assert up.received == []
