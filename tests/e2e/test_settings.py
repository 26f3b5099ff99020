"""Every setting has an effect from the file to the wire (operations O-04, guarding F-04, D-08b)."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.config import Config, parse_config
from supervisors.testing import Always, Finds, Sleeps
from supervisors.types import Cause, Supervisor, unknown, unsafe
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.e2e.serving import CANARY, Serving, chat_body, content_of, frames_of, guarded, policy, serving, tree

ROUTE = "/v1/chat/completions"
WORDS: Mapping[str, Any] = {"words": {"use": "rules", "keywords": [CANARY]}}


def both_choices() -> dict[str, Any]:
    body = chat_reply(CANARY)
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"})
    return body


@pytest.mark.parametrize(
    ("expose", "headers", "categories"), [("full", 7, True), ("decision", 3, False), ("none", 1, False)]
)
async def test_expose(tmp_path: Path, expose: str, headers: int, categories: bool) -> None:  # wire §3.2
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, expose=expose)) as proxy:
        reply = await proxy.chat(CANARY)
        assert len([name for name in reply.headers if name.startswith("x-guardrail-")]) == headers
        shown = reply.json()["error"]["guardrail"]
        assert ("categories" in shown) is categories
        assert ("policy" in shown) is (expose != "none")


async def hmac_of(up: FakeUpstream, folder: Path, key: str) -> str:
    folder.mkdir()  # noqa: ASYNC240 - a folder of the test
    (folder / "key").write_text(key)
    config = guarded(up, folder, supervisors=WORDS, policies=policy({"forced": ["words"]}))
    config["journal"] = {"path": str(folder / "own.sqlite3"), "hmac_key": {"file": str(folder / "key")}}
    async with serving(parse(config)) as proxy:
        await proxy.chat("the same text")
        found: str = (await proxy.records())[0]["view"]["input_hmac"]
        assert (folder / "own.sqlite3").exists()
        return found


def parse(config: Mapping[str, Any]) -> Config:
    return parse_config(json.dumps(config, default=str))


async def test_the_journals_key_makes_digests_comparable(tmp_path: Path) -> None:  # O-25
    async with FakeUpstream() as up:
        digests = [await hmac_of(up, tmp_path / name, key) for name, key in (("a", "k1"), ("b", "k1"), ("c", "k2"))]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(("on_failure", "status"), [("block", 503), ("continue", 200)])
async def test_a_journal_that_takes_no_records(tmp_path: Path, on_failure: str, status: int) -> None:  # §4.4
    journal = {"path": tmp_path / "journal.sqlite3", "on_record_failure": on_failure}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, journal=journal)) as proxy:
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
            database.execute("drop table records")
            database.commit()
        replies = [await proxy.chat() for _ in range(2)]
        async with asyncio.timeout(5):
            while replies[-1].status_code != status or on_failure == "continue":
                await asyncio.sleep(0.05)
                replies.append(await proxy.chat())
                if len(replies) > 10 and on_failure == "continue":
                    break
        assert replies[-1].status_code == status
        if on_failure == "block":
            assert replies[-1].json()["error"]["code"] == "record_unavailable"
            assert (await proxy.client.get("/readyz")).json()["missing"] == ["journal"]


async def test_keys_are_bound_to_routes_and_policies_to_keys_and_tags(tmp_path: Path) -> None:  # guarding §4
    names = {"app": "a", "team": "b", "bare": "c"}
    keys: dict[str, Any] = {
        name: {"sha256": sha256(letter.encode() * 40).hexdigest()} for name, letter in names.items()
    }
    keys["team"]["tags"] = ["red"]
    keys["bare"]["routes"] = ["/v1/models"]
    policies = {
        "app": {"attach": {"keys": ["app"]}, "input": {"forced": ["words"]}},
        "red": {"attach": {"tags": ["red"]}, "input": {"forced": ["words"], "on_unsafe": "log"}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, keys=keys, policies=policies)) as proxy:
        for name, status, applied in (("app", 400, "words"), ("team", 200, "words"), ("bare", 403, None)):
            headers = {"authorization": f"Bearer {names[name] * 40}"}
            reply = await proxy.client.post(ROUTE, json=chat_body(CANARY), headers=headers)
            assert (reply.status_code, reply.headers.get("x-guardrail-applied")) == (status, applied)


@pytest.mark.parametrize(
    ("attach", "status"),
    [
        ({"models": ["gpt"]}, 400),
        ({"models": ["other*"]}, 200),
        ({"routes": [ROUTE]}, 400),
        ({"routes": ["/v1/x"]}, 200),
    ],
)
async def test_policies_are_attached_to_models_and_routes(tmp_path: Path, attach: dict[str, Any], status: int) -> None:
    parts = {
        "models": {"gpt": {"upstream": "main"}, "other": {"upstream": "main"}},
        "policies": {"p": {"attach": attach, "input": {"forced": ["words"]}}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await proxy.chat(CANARY)).status_code == status


async def test_a_policy_for_a_model_holds_under_a_wildcard_too(tmp_path: Path) -> None:  # G-15
    parts = {
        "models": {"*": {"upstream": "main"}},
        "policies": {"p": {"attach": {"models": ["gpt*"]}, "input": {"forced": ["words"]}}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await proxy.chat(CANARY)).status_code == 400
        assert (await proxy.chat(CANARY, model="free")).status_code == 200


async def test_models_name_the_upstream_and_the_name_there(tmp_path: Path) -> None:  # W-01
    async with FakeUpstream() as one, FakeUpstream() as two:
        config = tree(one.url, tmp_path)
        config["upstreams"]["second"] = {"base_url": two.url, "headers": {"x-team": "red"}, "api_key": None}
        config["models"]["mine"] = {"upstream": "second", "model": "theirs"}
        async with serving(parse(config)) as proxy:
            await proxy.chat(model="mine")
            assert one.received == []
            assert (two.received[0].json["model"], two.received[0].header("x-team")) == ("theirs", "red")


async def test_what_an_upstream_is_sent(tmp_path: Path) -> None:  # W-17
    (tmp_path / "key").write_text("upstream-key")
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path)
        config["upstreams"]["main"] |= {"api_key": {"file": str(tmp_path / "key")}, "forward_headers": ["x-trace"]}
        async with serving(parse(config)) as proxy:
            await proxy.client.post(ROUTE, json=chat_body(), headers={"x-trace": "t", "openai-beta": "b"})
            received = up.received[0]
            assert received.header("authorization") == "Bearer upstream-key"
            assert (received.header("x-trace"), received.header("openai-beta")) == ("t", None)


async def test_an_upstream_that_is_too_slow(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path)
        config["upstreams"]["main"] |= {"timeout_s": 0.3, "retries": 0}
        async with serving(parse(config)) as proxy:
            up.script(Answer(hold_at=-1))
            reply = await proxy.chat()
            assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")


async def test_an_upstream_that_falls_silent(tmp_path: Path) -> None:  # S-11b
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path)
        config["upstreams"]["main"] |= {"idle_timeout_s": 0.3}
        async with serving(parse(config)) as proxy:
            up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
            reply = await proxy.chat(stream=True)
            assert frames_of(reply)[-1]["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize(
    ("limits", "fields", "param"),
    [
        ({"max_choices": 2}, {"n": 3}, "n"),
        ({"max_tokens": 10}, {"max_tokens": 11}, "max_tokens"),
        ({"max_tokens": 10}, {"max_completion_tokens": 11}, "max_completion_tokens"),
        ({"max_tokens": 10}, {"max_tokens": 1e9}, "max_tokens"),
        ({"max_tokens": 10}, {"max_tokens": "1000"}, "max_tokens"),
        ({"max_tokens": 10}, {"max_tokens": -1}, "max_tokens"),
        ({}, {"max_tokens": -5}, "max_tokens"),
        ({}, {"temperature": "hot"}, "temperature"),
        ({}, {"top_p": True}, "top_p"),
        ({"max_json_depth": 5}, {"x": [[[[[[1]]]]]]}, None),
    ],
)
async def test_caps(tmp_path: Path, limits: dict[str, int], fields: dict[str, Any], param: str | None) -> None:  # X-07
    async with FakeUpstream() as up, serving(parse({**tree(up.url, tmp_path), "limits": limits})) as proxy:
        reply = await proxy.chat(**fields)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        assert (await proxy.chat(n=1, max_tokens=10, temperature=None, seed=1)).status_code == 200


async def test_a_reply_beyond_the_limit_is_a_502(tmp_path: Path) -> None:
    async with (
        FakeUpstream() as up,
        serving(parse({**tree(up.url, tmp_path), "limits": {"max_reply_bytes": 500}})) as proxy,
    ):
        up.script(Answer(json=chat_reply("x" * 1000)))
        assert (await proxy.chat()).status_code == 502


@pytest.mark.parametrize("stream", [False, True])
async def test_the_deadline_of_a_request(tmp_path: Path, stream: bool) -> None:  # G-45
    async with (
        FakeUpstream() as up,
        serving(parse({**tree(up.url, tmp_path), "limits": {"request_timeout_s": 0.3}})) as proxy,
    ):
        up.script(Answer(hold_at=-1))
        reply = await proxy.chat(stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")


def judging(up: FakeUpstream, folder: Path, limits: dict[str, int]) -> Config:
    judges = {name: {"use": "judge", "model": "gpt"} for name in ("one", "two")}
    rules = policy({"forced": ["one", "two"], "exhaustive": True})
    return parse({**tree(up.url, folder), "supervisors": judges, "policies": rules, "limits": limits})


async def test_the_budget_of_judge_calls(tmp_path: Path) -> None:  # G-50
    async with FakeUpstream() as up, serving(judging(up, tmp_path, {"judge_calls_per_request": 0})) as proxy:
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "content_not_judged")
        assert reply.json()["error"]["guardrail"]["cause"] == "over_limit"
        assert up.received == []


async def test_the_cost_of_judge_calls_is_capped(tmp_path: Path) -> None:  # G-50
    def judged(request: Received) -> Answer:
        system = json.loads(request.body)["messages"][0]["content"]
        nonce = re.search(r"the text `([0-9a-f]{32})`", system)
        reply = chat_reply(json.dumps({"nonce": nonce and nonce[1], "label": "safe"}))
        return Answer(json={**reply, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}})

    judge = {"use": "judge", "model": "gpt"}
    both = {"default": {stage: {"forced": ["one"]} for stage in ("input", "output")}}
    for cap in (0.4, 2.0):
        async with FakeUpstream() as up:
            limits = {"judge_cost_usd_per_request": cap}
            config = parse(
                {**tree(up.url, tmp_path), "supervisors": {"one": judge}, "policies": both, "limits": limits}
            )
            async with serving(config) as proxy:
                up.script(judged, Answer(), judged)
                reply = await proxy.chat()
                assert reply.status_code == 200
                choice = reply.json()["choices"][0]
                assert (choice["finish_reason"] == "content_filter") == (cap < 0.5)  # the second call is too dear
                assert len(up.received) == (2 if cap < 0.5 else 3)


@pytest.mark.parametrize("setting", ["judge_concurrency", "judge_concurrency_per_model"])
async def test_judge_calls_wait_for_a_place(tmp_path: Path, setting: str) -> None:  # G-46
    async with FakeUpstream() as up, serving(judging(up, tmp_path, {setting: 1})) as proxy:
        up.script(Answer(hold_at=-1), Answer(hold_at=-1))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(proxy.chat())
            await up.wait_received(1)
            await asyncio.sleep(0.2)
            assert len(up.received) == 1
            up.release()
        assert waiting.result().status_code == 503  # the fake model gives no verdict
        assert len(up.received) >= 2


async def test_tasks_are_words_from_the_list(tmp_path: Path) -> None:  # wire §2.1
    async with FakeUpstream() as up, serving(parse({**tree(up.url, tmp_path), "tasks": ["summary"]})) as proxy:
        for word in ("summary", "secret words"):
            await proxy.client.post(ROUTE, json=chat_body(), headers={"x-guardrail-task": word})
        assert [record["task"] for record in await proxy.records(2)] == ["other", "summary"]


CAUSES = [cause for cause in Cause if cause is not Cause.SKIPPED]
STATUS = {Cause.OVER_LIMIT: 400, Cause.UNSUPPORTED: 400, Cause.REFUSED: 400, Cause.ABSTAINED: 400}


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize("cause", CAUSES)
async def test_each_cause_of_unknown_has_its_own_action(tmp_path: Path, stage: str, cause: Cause) -> None:  # G-17
    parts: Mapping[str, Supervisor] = {"words": Always(unknown(cause))}
    for action in ("block", "log"):
        other = "log" if action == "block" else "block"
        settings = {"forced": ["words"], "on_unknown": {"default": other, cause.value: action}}
        rules = {"p": {stage: settings, "on_block": {"output": "error"}}}
        folder = tmp_path / action
        folder.mkdir()
        async with FakeUpstream() as up, serving(guarded(up, folder, supervisors=parts, policies=rules)) as proxy:
            status = (await proxy.chat()).status_code
            assert status == (200 if action == "log" else STATUS.get(cause, 503))


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize(("action", "status"), [("log", 200), ("redact", 200), ("block", 400)])
async def test_each_action_on_unsafe_has_its_effect(
    tmp_path: Path, stage: str, action: str, status: int
) -> None:  # D-08b
    rules = {"p": {stage: {"forced": ["words"], "on_unsafe": action}, "on_block": {"output": "error"}}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=chat_reply(f"a {CANARY}")))
        reply = await proxy.chat(f"a {CANARY}")
        assert reply.status_code == status
        assert reply.headers["x-guardrail-decision"] == {"log": "flag", "redact": "redact", "block": "block"}[action]
        if status == 200:
            text = up.received[0].body if stage == "input" else reply.content
            assert (CANARY.encode() in text) is (action == "log")


async def test_scopes_have_actions_of_their_own(tmp_path: Path) -> None:  # G-04, M-08
    tools = [{"type": "function", "function": {"name": "f", "description": CANARY}}]
    for scopes, status in (({}, 200), ({"tool_def": {"on_unsafe": "block"}}, 400)):
        folder = tmp_path / str(status)
        folder.mkdir()
        config = {**tree("", folder), "supervisors": WORDS, "policies": policy({"forced": ["words"], "scopes": scopes})}
        async with FakeUpstream() as up:
            config["upstreams"]["main"]["base_url"] = up.url
            async with serving(parse(config)) as proxy:
                assert (await proxy.chat(tools=tools)).status_code == status


@pytest.mark.parametrize(("exhaustive", "causes"), [(False, [None, "skipped"]), (True, [None, None])])
async def test_exhaustive_asks_everybody(tmp_path: Path, exhaustive: bool, causes: list[str | None]) -> None:  # G-22
    parts: Mapping[str, Supervisor] = {"first": Sleeps(0, unsafe("x")), "second": Sleeps(0.2)}
    rules = policy({"forced": ["first", "second"], "exhaustive": exhaustive})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=parts, policies=rules)) as proxy:
        assert (await proxy.chat()).status_code == 400
        assert [row["cause"] for row in (await proxy.records())[0]["verdicts"]] == causes


@pytest.mark.parametrize("stage", ["input", "output"])
async def test_a_stage_has_its_own_deadline(tmp_path: Path, stage: str) -> None:  # G-45
    parts: Mapping[str, Supervisor] = {"words": Sleeps(20)}
    rules = {"p": {stage: {"forced": ["words"], "timeout_s": 0.2}}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=parts, policies=rules)) as proxy:
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["guardrail"]["cause"]) == (503, "timeout")


async def test_optional_supervisors_of_a_stage(tmp_path: Path) -> None:  # G-15
    cases: list[tuple[dict[str, Any], list[str] | None, bool]] = [
        ({}, None, False),
        ({}, ["words"], True),
        ({"default_on": True}, None, True),
        ({"default_on": True}, [], True),
        ({"default_on": True, "opt_out": True}, [], False),
    ]
    for number, (settings, asked, ran) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        stage = {"optional": ["words"], **settings}
        async with FakeUpstream() as up, serving(guarded(up, folder, policies=policy(stage, stage))) as proxy:
            fields: dict[str, Any] = {} if asked is None else {"guardrails": asked}
            reply = await proxy.chat(**fields)
            assert reply.headers["x-guardrail-applied"] == ("words" if ran else "")


@pytest.mark.parametrize("mode", ["blocking", "parallel", "shadow"])
@pytest.mark.parametrize("stage", ["input", "output"])
async def test_modes_of_a_stage(tmp_path: Path, stage: str, mode: str) -> None:  # guarding §5
    rules = {"p": {stage: {"forced": ["words"], "mode": mode}, "on_block": {"output": "error"}}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=chat_reply(CANARY)))
        assert (await proxy.chat(CANARY)).status_code == (200 if mode == "shadow" else 400)


@pytest.mark.parametrize("form", ["error", "refusal"])
@pytest.mark.parametrize("stream", [False, True])
async def test_forms_and_words_of_a_block(tmp_path: Path, form: str, stream: bool) -> None:  # wire §5
    block = {"input": form, "output": form, "message": "No: {policy} {request_id}."}
    rules = policy({"forced": ["words"]}, {"forced": ["words"]}, on_block=block)
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks(CANARY))) if stream else Answer(json=chat_reply(CANARY)))
        for text in (CANARY, "harmless"):
            reply = await proxy.chat(text, stream=stream)
            said = f"No: default {reply.headers['x-request-id']}."
            assert reply.status_code == (400 if form == "error" else 200)
            if form == "error":
                assert reply.json()["error"]["message"] == said
            else:
                shown = content_of(reply) if stream else reply.json()["choices"][0]["message"]["content"]
                assert shown.strip() == said


@pytest.mark.parametrize(("scope", "content"), [("choice", "fine"), ("response", None)])
async def test_block_scope(tmp_path: Path, scope: str, content: str | None) -> None:  # W-10
    rules = policy(output={"forced": ["words"], "block_scope": scope})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=both_choices()))
        second = (await proxy.chat(n=2)).json()["choices"][1]
        assert (second["message"]["content"] == "fine") is (content is not None)


StreamCheck = Callable[[Serving, Any], None]


async def stream_of(folder: Path, stream: dict[str, Any], answer: Answer, supervisor: Supervisor | None = None) -> Any:
    parts: Mapping[str, Supervisor] = {"words": supervisor or Finds(CANARY)}
    rules = policy(output={"forced": ["words"], "stream": stream})
    async with FakeUpstream() as up, serving(guarded(up, folder, supervisors=parts, policies=rules)) as proxy:
        up.script(answer)
        return await proxy.chat(stream=True)


GOOD = "All is well so far, and it goes on like this. "
MIXED = Answer(frames=sse(*chat_chunks(GOOD, GOOD, CANARY, usage=True)))


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"mode": "hold"}, False),
        ({"mode": "window", "window_chars": 20}, True),
        ({"mode": "window", "window_chars": 1000}, False),
        ({"mode": "sentence", "window_chars": 1000}, True),
    ],
)
async def test_stream_modes_and_windows(tmp_path: Path, settings: dict[str, Any], kept: bool) -> None:  # guarding §5
    reply = await stream_of(tmp_path, settings, MIXED)
    assert (GOOD in content_of(reply)) is kept
    assert CANARY not in reply.text


@pytest.mark.parametrize(("frame", "last"), [("refusal", "[DONE]"), ("error", "content_filter")])
async def test_block_frames(tmp_path: Path, frame: str, last: str) -> None:  # wire §5.2
    reply = await stream_of(tmp_path, {"block_frame": frame, "window_chars": 20}, MIXED)
    found = frames_of(reply)[-1]
    assert (found if frame == "refusal" else found["error"]["code"]) == last


@pytest.mark.parametrize(("on_block", "usage"), [("cancel", False), ("drain", True)])
async def test_what_happens_to_the_upstream_after_a_block(tmp_path: Path, on_block: str, usage: bool) -> None:  # W-26
    reply = await stream_of(tmp_path, {"on_block": on_block, "window_chars": 20}, MIXED)
    assert ('"completion_tokens"' in reply.text) is usage


@pytest.mark.parametrize(("exceeded", "blocked"), [("block", True), ("window", False)])
async def test_the_buffer_of_a_held_stream(tmp_path: Path, exceeded: str, blocked: bool) -> None:  # guarding §5
    long = Answer(frames=sse(*chat_chunks(*[GOOD for _ in range(40)])))
    settings = {"mode": "hold", "max_buffer_bytes": 2000, "on_buffer_exceeded": exceeded, "window_chars": 100}
    reply = await stream_of(tmp_path, settings, long)
    assert (GOOD not in content_of(reply)) is blocked


async def test_heartbeats_while_text_is_held(tmp_path: Path) -> None:  # W-28
    slow = Answer(frames=sse(*chat_chunks("one", "two")), frame_delay_s=0.3)
    reply = await stream_of(tmp_path, {"mode": "hold", "heartbeat_s": 0.1}, slow)
    assert ": keep-alive\n\n" in reply.text
    assert content_of(reply) == "onetwo"


async def test_a_supervisor_of_whole_texts_holds_the_stream(tmp_path: Path) -> None:  # G-33
    reply = await stream_of(
        tmp_path, {"window_chars": 5, "on_unstreamable": "hold"}, MIXED, Finds(CANARY, capability="final")
    )
    assert GOOD not in content_of(reply)


E2E = "tests/e2e/test_settings.py::"
HOSTILE = "tests/e2e/test_hostile.py::"
OVERLOAD = "tests/e2e/test_overload.py::"
RESPONSES = "tests/e2e/test_responses.py::"
SERVE = "tests/proxy/commands/test_serve.py::"
CAUSE_TEST = f"{E2E}test_each_cause_of_unknown_has_its_own_action"
TESTS: Mapping[str, str] = {
    "expose": f"{E2E}test_expose",
    "journal.hmac_key": f"{E2E}test_the_journals_key_makes_digests_comparable",
    "journal.input": "tests/e2e/test_privacy.py::test_content_modes",
    "journal.output": "tests/e2e/test_privacy.py::test_content_modes",
    "journal.path": f"{E2E}test_the_journals_key_makes_digests_comparable",
    "journal.on_record_failure": f"{E2E}test_a_journal_that_takes_no_records",
    "journal.retention_days": "tests/proxy/test_verify.py::test_retention_leaves_a_journal_that_can_be_proven",
    "keys.*.admin": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.check": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.models": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.sha256": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.key": "tests/e2e/test_privacy.py::test_nothing_of_prompts_replies_and_keys_is_left_behind",
    "keys.*.routes": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "keys.*.tags": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "limits.judge_calls_per_request": f"{E2E}test_the_budget_of_judge_calls",
    "limits.judge_cost_usd_per_request": f"{E2E}test_the_cost_of_judge_calls_is_capped",
    "limits.judge_concurrency": f"{E2E}test_judge_calls_wait_for_a_place",
    "limits.judge_concurrency_per_model": f"{E2E}test_judge_calls_wait_for_a_place",
    "limits.max_body_bytes": f"{HOSTILE}test_bodies_beyond_the_limit_are_refused_while_reading",
    "limits.max_choices": f"{E2E}test_caps",
    "limits.max_in_flight": f"{HOSTILE}test_too_many_at_once_are_told_to_come_back",
    "limits.max_json_depth": f"{E2E}test_caps",
    "limits.max_reply_bytes": f"{E2E}test_a_reply_beyond_the_limit_is_a_502",
    "limits.max_tokens": f"{E2E}test_caps",
    "limits.request_timeout_s": f"{E2E}test_the_deadline_of_a_request",
    "models.*.model": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "models.*.upstream": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "policies.*.attach.keys": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "policies.*.attach.tags": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "policies.*.attach.models": f"{E2E}test_policies_are_attached_to_models_and_routes",
    "policies.*.attach.routes": f"{E2E}test_policies_are_attached_to_models_and_routes",
    "policies.*.on_block.input": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.on_block.output": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.on_block.message": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.output.block_scope": f"{E2E}test_block_scope",
    "policies.*.output.stream.mode": f"{E2E}test_stream_modes_and_windows",
    "policies.*.output.stream.window_chars": f"{E2E}test_stream_modes_and_windows",
    "policies.*.output.stream.overlap_chars": "tests/proxy/test_stream.py::test_no_chunking_lets_the_canary_out",
    "policies.*.output.stream.block_frame": f"{E2E}test_block_frames",
    "policies.*.output.stream.on_block": f"{E2E}test_what_happens_to_the_upstream_after_a_block",
    "policies.*.output.stream.max_buffer_bytes": f"{E2E}test_the_buffer_of_a_held_stream",
    "policies.*.output.stream.on_buffer_exceeded": f"{E2E}test_the_buffer_of_a_held_stream",
    "policies.*.output.stream.heartbeat_s": f"{E2E}test_heartbeats_while_text_is_held",
    "policies.*.output.stream.on_unstreamable": f"{E2E}test_a_supervisor_of_whole_texts_holds_the_stream",
    "policies.*.output.on_signed": "tests/e2e/test_messages.py::test_on_signed_block_blocks_the_reply",
    "policies.*.input.on_unseen_history": f"{RESPONSES}test_unseen_history_is_recorded_and_can_be_blocked",
    "policies.*.output.on_unseen_history": f"{RESPONSES}test_the_journal_holds_with_and_without_unseen_history",
    "moderation_field": "tests/e2e/test_moderation_field.py::test_the_field_is_answered_and_never_sent_on",
    "moderations.aliases": "tests/e2e/test_moderations.py::test_aliases_are_policies",
    "unguarded_routes": "tests/e2e/test_unguarded.py::test_a_declared_route_passes_as_it_came_and_is_recorded",
    "server.allowed_hosts": f"{HOSTILE}test_only_configured_hosts_are_answered",
    "server.drain_grace_s": f"{SERVE}test_a_drain_ends_what_runs_and_flushes_records",
    "server.drain_timeout_s": f"{SERVE}test_what_outlasts_the_drain_ends_with_an_error_frame",
    "server.host": f"{SERVE}test_a_proxy_that_cannot_serve_says_why",
    "server.port": f"{SERVE}test_a_taken_port_is_exit_code_4",
    "supervisors.*.use": "tests/proxy/test_config.py::test_a_wrong_setting_is_named_by_its_path",
    "tasks": f"{E2E}test_tasks_are_words_from_the_list",
    "keys.*.max_in_flight": f"{OVERLOAD}test_a_key_has_its_number_at_a_time",
    "keys.*.requests_per_minute": f"{OVERLOAD}test_a_key_has_its_rate_on_every_route_that_judges",
    "limits.max_queue": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "models.*.max_concurrency": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "upstreams.*.max_concurrency": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "upstreams.*.breaker_failures": f"{OVERLOAD}test_a_dead_server_is_left_alone_for_a_while",
    "upstreams.*.breaker_open_s": f"{OVERLOAD}test_a_dead_server_is_left_alone_for_a_while",
    "reload": "tests/e2e/test_reload.py::test_under_auto_the_file_alone_is_enough",
    "caches.*.max_entries": "tests/proxy/test_cache.py::test_the_longest_unused_is_forgotten_first",
    "caches.*.scope": "tests/e2e/test_cache.py::test_callers_share_only_what_the_config_lets_them",
    "caches.*.ttl_s": "tests/e2e/test_cache.py::test_a_kept_verdict_decides_like_a_new_one_and_shows",
    "journal.stream_notes": "tests/e2e/test_interrupted.py::test_a_killed_stream_is_recorded_at_the_next_start",
    "policies.*.input.allowed_tools": "tests/e2e/test_tools.py::test_only_allowed_tools_are_offered",
    "policies.*.output.allowed_tools": "tests/e2e/test_tools.py::test_only_allowed_tools_are_called",
    "policies.*.mcp_servers": "tests/e2e/test_tools.py::test_servers_of_the_callers_choice_need_a_policy",
    "upstreams.*.stream_usage": "tests/e2e/test_operations.py::test_usage_of_streams_is_for_those_who_asked",
    "upstreams.*.allow_link_local": "tests/proxy/test_checks.py::test_what_cannot_work_together_is_an_error",
    "upstreams.*.api_key": f"{E2E}test_what_an_upstream_is_sent",
    "upstreams.*.base_url": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "upstreams.*.forward_headers": f"{E2E}test_what_an_upstream_is_sent",
    "upstreams.*.headers": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "upstreams.*.idle_timeout_s": f"{E2E}test_an_upstream_that_falls_silent",
    "upstreams.*.timeout_s": f"{E2E}test_an_upstream_that_is_too_slow",
    "upstreams.*.use": "tests/proxy/test_config.py::test_a_wrong_setting_is_named_by_its_path",
    **{
        f"policies.*.{stage}.{name}": f"{E2E}{test}"
        for stage in ("input", "output")
        for name, test in {
            "forced": "test_each_action_on_unsafe_has_its_effect",
            "on_unsafe": "test_each_action_on_unsafe_has_its_effect",
            "mode": "test_modes_of_a_stage",
            "timeout_s": "test_a_stage_has_its_own_deadline",
            "exhaustive": "test_exhaustive_asks_everybody",
            "optional": "test_optional_supervisors_of_a_stage",
            "default_on": "test_optional_supervisors_of_a_stage",
            "opt_out": "test_optional_supervisors_of_a_stage",
            "scopes.*.on_unsafe": "test_scopes_have_actions_of_their_own",
        }.items()
    },
    **{
        f"policies.*.{stage}.on_unknown.{name}": CAUSE_TEST
        for stage in ("input", "output")
        for name in ("default", *[cause.value for cause in CAUSES])
    },
}
BELOW: Mapping[str, str] = {
    "journal.max_backlog": "tests/proxy/store/test_writer.py",
    "policies.*.input.on_opaque": "tests/proxy/test_plan.py",
    "policies.*.output.on_opaque": "tests/proxy/test_plan.py",
    "upstreams.*.connect_timeout_s": "tests/supervisors/transport/test_client.py",
    "upstreams.*.max_connections": "tests/supervisors/transport/test_client.py",
    "upstreams.*.proxy": "tests/supervisors/transport/test_client.py",
    "upstreams.*.retries": "tests/proxy/test_upstream.py",
    "upstreams.*.vendor": "tests/proxy/test_upstream.py",
}
"""Settings whose effect is tested on the part they are handed to, not yet from the file to the wire."""
LOCAL = {f"upstreams.*.{name}" for name in ("model", "path", "n_ctx", "slots", "threads")}
"""Settings of the local model, which needs the packages of the extra `local`."""


def settings_of(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str = "") -> set[str]:
    """Return the dotted path of every setting of a JSON Schema; names chosen by the operator are `*`."""
    if "$ref" in node:
        return settings_of(definitions[node["$ref"].split("/")[-1]], definitions, path)
    found: set[str] = set()
    for choice in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        found |= settings_of(choice, definitions, path)
    for name, child in node.get("properties", {}).items():
        if name not in ("env", "file"):  # the two ways to write a secret
            inner = f"{path}.{name}" if path else name
            found |= settings_of(child, definitions, inner) or {inner}
    if isinstance(node.get("additionalProperties"), dict):
        found |= settings_of(node["additionalProperties"], definitions, f"{path}.*")
    return found


def test_every_setting_has_a_test_of_its_effect() -> None:  # O-04
    schema = Config.model_json_schema()
    assert settings_of(schema, schema["$defs"]) == {*TESTS, *BELOW, *LOCAL}
    root = Path(__file__).resolve().parents[2]
    for test in TESTS.values():
        file, name = test.split("::")
        assert f"def {name}(" in (root / file).read_text("utf-8"), test
    for file in BELOW.values():
        assert (root / file).is_file(), file
