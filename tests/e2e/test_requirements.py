"""Requirements of the wire and guarding specifications, each end to end: what comes in, leaves, is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.checks import check_config
from proxy.config import Config
from supervisors.testing import Always, Fails, Finds, Sleeps
from supervisors.types import Supervisor, unsafe
from tests.e2e.fake_messages import ask
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, chat_body, frames_of, guarded, policy, serving, tree
from tests.timing import PATIENCE_S

WINDOW = {"window_chars": 12, "overlap_chars": 20}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


async def test_every_field_of_a_request_reaches_the_model(tmp_path: Path) -> None:  # E-08, W-07
    fields: dict[str, Any] = {
        "n": 2,
        "seed": 7,
        "max_completion_tokens": 9,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {}}},
        "logit_bias": {"50256": -100},
        "top_logprobs": 3,
        "logprobs": True,
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "prediction": {"type": "content", "content": "x"},
        "temperature": 1.0,
        "of_the_future": {"deep": [1, 2.50, None, True]},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        assert (await proxy.chat("hi", guardrails=["words"], **fields)).status_code == 200
        assert up.received[0].json == chat_body("hi", **fields)
        assert b'"temperature":1.0' in up.received[0].body
        assert "max_tokens" not in up.received[0].json


@pytest.mark.parametrize("expose", ["full", "decision", "none"])
async def test_no_answer_is_an_oracle(tmp_path: Path, expose: str) -> None:  # E-09
    told = replace(unsafe("weapons", score=0.8731, detail="pattern-17"), reason="the word hemlock")
    parts: dict[str, Any] = {"supervisors": {"words": Always(told)}, "expose": expose}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        reply = await proxy.chat("some hemlock")
        seen = reply.text + str(reply.headers)
        assert reply.status_code == 400
        assert not [word for word in ("hemlock", "0.87", "pattern-17") if word in seen]
        assert ("weapons" in seen) is (expose == "full")


async def test_odd_tools_and_null_content_pass(tmp_path: Path) -> None:  # F-02, M-20, W-13
    tools = [{"type": "web_search"}, {"type": "custom", "custom": {"name": "x"}}, {"type": "function"}]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "x", "input": "y"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "fine"}]},
    ]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = {"model": "gpt", "messages": messages, "tools": tools}
        assert (await proxy.client.post("/v1/chat/completions", json=body)).status_code == 200
        assert up.received[0].json == body


async def test_a_failing_supervisor_blocks_unless_the_policy_says_otherwise(tmp_path: Path) -> None:  # F-03, F-05
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken)) as proxy:
        assert (await proxy.chat()).status_code == 503
        assert up.received == []
    logs = policy({"forced": ["words"], "on_unknown": "log"})
    folder = tmp_path / "open"
    folder.mkdir()
    async with FakeUpstream() as up, serving(guarded(up, folder, supervisors=broken, policies=logs)) as proxy:
        reply = await proxy.chat()
        assert (reply.status_code, reply.headers["x-guardrail-verdict"]) == (200, "unknown; cause=error")
        assert (await proxy.records())[0]["decisions"][0]["action"] == "flag"


async def test_blocking_supervisors_come_before_parallel_ones(tmp_path: Path) -> None:  # G-21, D-01
    supervisors: Mapping[str, Supervisor] = {"first": Finds("red"), "beside": Finds("blue")}
    policies = {"a": {"input": {"forced": ["first"]}}, "b": {"input": {"forced": ["beside"], "mode": "parallel"}}}
    parts: dict[str, Any] = {"supervisors": supervisors, "policies": policies}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, **parts)) as proxy:
        assert (await proxy.chat("red")).status_code == 400
        assert up.received == []
        assert (await proxy.chat("blue")).status_code == 400
        assert (await proxy.chat("green")).status_code == 200
        newest, blue, red = await proxy.records(3)
        labels = [{row["supervisor"]: row["label"] for row in one["verdicts"]} for one in (red, blue, newest)]
        assert labels == [
            {"first": "unsafe", "beside": "unknown"},
            {"first": "safe", "beside": "unsafe"},
            {"first": "safe", "beside": "safe"},
        ]


async def test_what_is_sent_is_what_was_judged_after_translation(tmp_path: Path) -> None:  # G-23, M-03, S-11c, S-22
    rules = policy({"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        spelled = {"name": "x", "arguments": '{"where": "violet\\u0020umbrella"}'}
        calls = [{"id": "c", "type": "function", "function": spelled}]
        up.script(Answer(json=chat_reply(message={"role": "assistant", "content": None, "tool_calls": calls})))
        reply = await ask(proxy, f"a {CANARY} please")
        assert up.received[0].path == "/v1/chat/completions"
        assert up.received[0].json["messages"][-1]["content"] == "a [REDACTED:canary] please"
        assert reply.json()["stop_reason"] == "refusal"
        assert "umbrella" not in reply.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/files"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/files/file-1/content"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/v1/realtime"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/threads"),
    ],
)
async def test_what_nobody_judges_is_not_served(tmp_path: Path, method: str, path: str) -> None:  # M-10, M-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.request(method, path, content=CANARY.encode())
        assert reply.status_code in (404, 405)
        assert up.received == []


@pytest.mark.parametrize("stream", [False, True])
async def test_every_supervisor_answers_under_its_own_name(tmp_path: Path, stream: bool) -> None:  # M-17, M-21
    supervisors: Mapping[str, Supervisor] = {name: Finds(name) for name in ("a", "b", "c", "d")}
    policies = {
        "default": {"input": {"forced": ["a", "b"]}, "output": {"forced": ["d"]}},
        "beside": {"input": {"forced": ["c"], "mode": "parallel"}},
        "mine": {"attach": {"models": ["gpt"]}, "output": {"forced": ["a"]}},
        "other": {"attach": {"models": ["else"]}, "input": {"forced": ["d"]}},
    }
    models = {name: {"upstream": "main"} for name in ("gpt", "else")}
    parts: dict[str, Any] = {"supervisors": supervisors, "policies": policies, "models": models}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, **parts)) as proxy:
        await proxy.chat("hi", stream=stream)
        rows = (await proxy.records())[0]["verdicts"]
        assert sorted((row["stage"], row["supervisor"]) for row in rows) == [
            ("input", "a"),
            ("input", "b"),
            ("input", "c"),
            ("output", "a"),
            ("output", "d"),
        ]


async def test_only_held_text_is_rewritten_and_nothing_is_late(tmp_path: Path) -> None:  # S-06, S-10
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW})
    texts = ["All is well so far, and on. "] * 3 + ["a vio", "let umb", "rella"] + [" and on it goes. "] * 3
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks(*texts)), frame_delay_s=0.01))
        frames = frames_of(await proxy.chat(stream=True))
        said = "".join([frame["choices"][0]["delta"].get("content") or "" for frame in frames[:-1]])
        assert said == "".join(texts).replace(CANARY, "[REDACTED:canary]")
        assert [row["late_spans"] for row in (await proxy.records())[0]["verdicts"]] == [0]


async def test_a_flagged_stream_is_a_plain_200(tmp_path: Path) -> None:  # S-12
    rules = policy({"forced": ["words"], "on_unsafe": "log"}, {"forced": ["words"], "on_unsafe": "log"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        frames = sse(*chat_chunks("a ", CANARY))
        up.script(Answer(frames=frames))
        reply = await proxy.chat(CANARY, stream=True)
        assert (reply.status_code, reply.content) == (200, b"".join(frames))
        assert reply.headers["x-guardrail-decision"] == "flag"


async def test_the_first_words_of_a_stream_count_as_much_as_the_last(tmp_path: Path) -> None:  # S-17
    for mode in ("hold", "window", "sentence"):
        folder = tmp_path / mode
        folder.mkdir()
        rules = policy(output={"forced": ["words"], "stream": {**WINDOW, "mode": mode}})
        async with FakeUpstream() as up, serving(guarded(up, folder, policies=rules)) as proxy:
            up.script(Answer(frames=sse(*chat_chunks(CANARY, *["and then much more. "] * 50))))
            reply = await proxy.chat(stream=True)
            assert "umbrella" not in reply.text
            assert frames_of(reply)[-2]["choices"][0]["finish_reason"] == "content_filter"


async def test_a_supervisor_of_whole_replies_holds_the_stream_or_is_refused(tmp_path: Path) -> None:  # S-21
    final: Mapping[str, Supervisor] = {"words": Finds(CANARY, capability="final")}
    stream = {"mode": "window", "on_unstreamable": "refuse"}
    async with FakeUpstream() as up:
        rules = policy(output={"forced": ["words"], "stream": stream})
        refused = Config.model_validate(guarded(up, tmp_path, supervisors=final, policies=rules))
        assert "judges whole replies only" in str(check_config(refused)[0])
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=final)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("It goes on and on. " * 20, "a ", CANARY))))
        reply = await proxy.chat(stream=True)
        assert "It goes on" not in reply.text
        assert "umbrella" not in reply.text


def spoken(transcript: str | None) -> dict[str, Any]:
    audio = {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, **({"transcript": transcript} if transcript else {})}
    return {"role": "assistant", "content": None, "audio": audio}


@pytest.mark.parametrize("stream", [False, True])
async def test_sound_is_judged_by_its_transcript(tmp_path: Path, stream: bool) -> None:  # W-12
    words = {"words": {"use": "rules", "keywords": [CANARY]}}
    rules = policy(output={"forced": ["words"]})

    def answer(transcript: str | None) -> Answer:
        if not stream:
            return Answer(json=chat_reply(message=spoken(transcript)))
        first, *_, last = chat_chunks("x")
        return Answer(frames=sse({**first, "choices": [{"index": 0, "delta": spoken(transcript)}]}, last))

    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=words, policies=rules)) as proxy:
        up.script(answer("All is well."), answer(f"a {CANARY}"), answer(None))
        safe, bad, mute = [await proxy.chat(stream=stream) for _ in range(3)]
        assert "UklGRg==" in safe.text
        assert "UklGRg==" not in bad.text + mute.text
        assert "umbrella" not in bad.text
        mute_record = (await proxy.records())[0]
        assert [(row["label"], row["cause"]) for row in mute_record["verdicts"]] == [("unknown", "unsupported")]


async def test_a_hung_supervisor_ends_with_its_deadline(tmp_path: Path) -> None:  # F-07, G-45
    slow: Mapping[str, Supervisor] = {"words": Sleeps(30)}
    rules = policy({"forced": ["words"], "timeout_s": 0.5})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        async with asyncio.timeout(PATIENCE_S):
            assert (await proxy.chat()).status_code == 503
        assert (await proxy.records())[0]["verdicts"][0]["cause"] == "timeout"
        async with asyncio.timeout(PATIENCE_S):
            assert (await ask(proxy, stream=True)).json()["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_judge_that_would_come_back_here_is_refused(host: str) -> None:  # G-42, D-11
    own = f"http://{host}:8080/v1"
    upstreams = {"main": {"base_url": "http://127.0.0.1:9/v1"}, "loop": {"base_url": own}}
    models = {"gpt": {"upstream": "main"}, "again": {"upstream": "loop"}}
    for judge, wrong in (({"url": own}, True), ({"model": "again"}, True), ({"model": "gpt"}, False)):
        supervisors = {"j": {"use": "judge", "model": "m", **judge}}
        panel = {"use": "vote", "strategy": "any", "members": {"j": supervisors["j"], "k": supervisors["j"]}}
        for made in (supervisors, {"p": panel}):
            config = Config.model_validate({"upstreams": upstreams, "models": models, "supervisors": made})
            found = [one for one in check_config(config) if "judge the judge" in str(one)]
            assert bool(found) is wrong, (judge, made)


async def test_a_guard_is_asked_on_the_route_that_is_declared(tmp_path: Path) -> None:  # D-16
    async with FakeUpstream() as up:
        supervisors = {
            "judge": {"use": "judge", "model": "m", "url": up.url, "repair": False},
            "guard": {"use": "guard", "card": "wildguard", "model": "g", "url": up.url},
        }
        rules = policy({"forced": ["judge", "guard"], "exhaustive": True})
        async with serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
            assert (await proxy.chat()).status_code == 503
            assert {received.json["model"]: received.path for received in up.received} == {
                "m": "/v1/chat/completions",
                "g": "/v1/completions",
            }


async def test_every_exchange_has_a_budget_of_its_own_in_the_shadow(tmp_path: Path) -> None:  # G-50
    async with FakeUpstream() as judges, FakeUpstream() as up:
        supervisors = {"judge": {"use": "judge", "model": "m", "url": judges.url, "repair": False}}
        rules = policy({"forced": ["judge"], "mode": "shadow"})
        parts: dict[str, Any] = {"limits": {"judge_calls_per_request": 1}}
        async with serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules, **parts)) as proxy:
            for _ in range(3):
                assert (await proxy.chat()).status_code == 200
            causes = [record["verdicts"][0]["cause"] for record in await proxy.wait_records(3)]
            assert causes == ["unparsable"] * 3  # what this judge says is no verdict; it was asked each time


@pytest.mark.parametrize("guarded_stage", ["none", "input", "shadow"])
async def test_where_nobody_decided_no_decision_is_claimed(tmp_path: Path, guarded_stage: str) -> None:  # wire §3.2
    stages: dict[str, dict[str, Any]] = {
        "none": {},
        "input": {"forced": ["words"]},
        "shadow": {"forced": ["words"], "mode": "shadow"},
    }
    rules = policy(stages[guarded_stage])
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        asked: list[dict[str, Any]] = [{}, {"stream": True}, {"messages": []}, {"temperature": "hot"}, {"model": "no"}]
        for fields in asked:
            shown = (await proxy.chat(**fields)).headers.get("x-guardrail-decision")
            made = [one for one in (await proxy.records())[0]["decisions"] if one["mode"] == "enforce"]
            assert shown == ("pass" if made else None), fields
        metrics = (await proxy.client.get("/metrics")).text
        assert ('guardrail_decisions_total{action="pass",mode="enforce"' in metrics) is (guarded_stage == "input")
