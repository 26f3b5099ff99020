"""Every setting has an effect from the file to the wire (operations O-04, guarding F-04, D-08b)."""

from __future__ import annotations

import asyncio
import json
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
from tests.e2e.families import FAMILIES, NAMES, Family, families_tree
from tests.e2e.serving import CANARY, Serving, chat_body, content_of, frames_of, guarded, policy, serving, tree
from tests.judging import judged_as
from tests.timing import HANGS_S, PATIENCE_S

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
        async with asyncio.timeout(PATIENCE_S):
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
        ({"routes": ["/chat/completions/"]}, 400),
        ({"routes": ["/v1/embeddings"]}, 200),
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


async def test_judges_send_the_headers_of_their_upstream(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path)
        config["upstreams"]["main"]["headers"] = {"x-team": "red"}
        config |= {"supervisors": {"one": {"use": "judge", "model": "gpt"}}, "policies": policy({"forced": ["one"]})}
        async with serving(parse(config)) as proxy:
            await proxy.chat()
        assert [sent.header("x-team") for sent in up.received] == ["red"] * len(up.received)
        assert "nonce" in up.received[0].body.decode()


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


async def test_an_upstream_is_tried_again(tmp_path: Path) -> None:
    waited: list[float] = []
    for retries in (0, 4):
        config = tree("http://127.0.0.1:9/v1", tmp_path)
        config["upstreams"]["main"] |= {"retries": retries}
        async with serving(parse(config)) as proxy:
            assert (await proxy.chat()).status_code == 502
            call = (await proxy.records())[0]["upstream_call"]
            assert (call["called"], call["attempts"]) == (True, retries + 1)
            waited.append(call["seconds"])
    assert waited[0] < waited[1] >= 0.75  # what the pauses before four further attempts are at least


async def test_an_upstream_behind_a_proxy(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config = tree("http://far.test:81/v1", tmp_path)
        (tmp_path / "proxy").write_text(up.origin)
        config["upstreams"]["main"] |= {"proxy": {"file": str(tmp_path / "proxy")}}
        async with serving(parse(config)) as proxy:
            await proxy.chat()
        assert up.received[0].path == f"http://far.test:81{ROUTE}"


async def test_connections_to_an_upstream_are_bounded(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path)
        config["upstreams"]["main"] |= {"max_connections": 1}
        async with serving(parse(config)) as proxy:
            up.script(Answer(hold_at=-1))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(proxy.chat()) for _ in range(2)]
                await up.wait_received()
                await asyncio.sleep(0.2)
                assert len(up.received) == 1
                up.release()
            assert [task.result().status_code for task in tasks] == [200, 200]
            assert (up.connections, len(up.received)) == (1, 2)


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


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
async def test_a_request_without_a_bound_gets_that_of_the_limit(tmp_path: Path, family: Family) -> None:  # X-07, W-07
    for limits, added in (({}, None), ({"max_tokens": 10}, 10)):
        async with FakeUpstream() as up, serving(families_tree(up, tmp_path, limits=limits)) as proxy:
            body = family.body()
            body.pop("max_tokens", None)
            await proxy.client.post(family.route, json=body)
            sent = up.received[0].json
            field = "max_output_tokens" if family.name == "responses" else "max_tokens"
            assert (up.received[0].path, sent.get(field)) == (family.upstream, added)


async def test_the_bound_stands_in_the_field_that_the_server_takes(tmp_path: Path) -> None:  # X-07
    async with FakeUpstream() as up:
        config = tree(up.url, tmp_path, limits={"max_tokens": 10})
        config["upstreams"]["main"]["tokens_field"] = "max_completion_tokens"
        async with serving(parse(config)) as proxy:
            assert (await proxy.chat()).status_code == 200
            assert (await proxy.chat(max_tokens=5)).status_code == 200
            assert [one.json.get("max_completion_tokens") for one in up.received] == [10, None]
            assert [one.json.get("max_tokens") for one in up.received] == [None, 5]


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


@pytest.mark.parametrize(("reported", "price"), [({"cost": 0.5}, None), ({"cost": 0.5}, [0, 0]), ({}, [2e5, 3e5])])
async def test_the_cost_of_judge_calls_is_capped(  # G-50
    tmp_path: Path, reported: dict[str, float], price: list[float] | None
) -> None:
    def judged(request: Received) -> Answer:
        reply = chat_reply(judged_as("safe", json.loads(request.body)["messages"][0]["content"]))
        return Answer(json={**reply, "usage": {"prompt_tokens": 1, "completion_tokens": 1, **reported}})

    judge = {"use": "judge", "model": "gpt"}
    both = {"default": {stage: {"forced": ["one"]} for stage in ("input", "output")}}
    for cap in (0.4, 2.0):
        async with FakeUpstream() as up:
            limits = {"judge_cost_usd_per_request": cap}
            models = {"gpt": {"upstream": "main", "price": price}}
            parts = {"supervisors": {"one": judge}, "policies": both, "limits": limits, "models": models}
            config = parse(tree(up.url, tmp_path, **parts))
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
    parts: Mapping[str, Supervisor] = {
        "first": Sleeps(0, unsafe("x")),
        "second": Sleeps(0.05 if exhaustive else HANGS_S),
    }
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
