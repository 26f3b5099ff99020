"""What operations.md asks for and no other file of tests is about: records, metrics, start, security."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisors.testing import Always, Finds, Sleeps
from supervisors.types import Cause, Context, Exchange, Supervisor, Verdict, safe, unknown
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import run_python
from tests.e2e.serving import CANARY, chat_body, content_of, frames_of, guarded, policy, serving, tree
from tests.timing import HANGS_S, PATIENCE_S

ROUTE = "/v1/chat/completions"


async def test_no_route_takes_config_code_or_templates(tmp_path: Path) -> None:  # O-07, X-09
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        served = (await proxy.client.get("/openapi.json")).json()["paths"]
        writing = {path: sorted(set(verbs) - {"get"}) for path, verbs in served.items()}
        assert {path: verbs for path, verbs in writing.items() if verbs} == {"/v1/guardrails/check": ["post"]}
        for path in ("/config/update", "/v1/config", "/v1/models", "/v1/guardrails", "/reload", "/v1/policies/default"):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                reply = await proxy.client.request(method, path, json={"policies": {}})
                assert reply.status_code in (404, 405)
        assert (await proxy.chat(CANARY)).status_code == 400


async def test_nothing_a_caller_sends_keeps_an_exchange_out_of_the_journal(tmp_path: Path) -> None:  # O-14, L-04
    tries: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"store": False}, {}),
        ({"metadata": {"no-log": "true", "no_log": "true"}}, {}),
        ({}, {"x-litellm-no-log": "true", "x-guardrail-log": "off", "x-guardrail-disable": "all"}),
        ({}, {"x-request-id": "same"}),
        ({}, {"x-request-id": "same"}),
    ]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for fields, headers in tries:
            await proxy.client.post(ROUTE, json=chat_body("hello", **fields), headers=headers)
        assert len(await proxy.records(10)) == len(tries)
        assert up.received[0].json["store"] is False  # it concerns the model's provider alone


async def test_a_block_is_no_error_and_a_failed_supervisor_is_no_block_for_content(tmp_path: Path) -> None:
    # O-18, L-07
    parts: dict[str, Any] = {
        "supervisors": {"words": Finds(CANARY), "vague": Always(unknown(Cause.ERROR))},
        "policies": {
            "words": {"input": {"forced": ["words"]}, "output": {"forced": ["words"]}},
            "vague": {"attach": {"models": ["other"]}, "input": {"forced": ["vague"]}},
        },
        "models": {"gpt": {"upstream": "main"}, "other": {"upstream": "main"}},
    }
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        assert (await proxy.chat(CANARY)).status_code == 400
        up.script(Answer(frames=sse(*chat_chunks("a ", CANARY))), Answer(json=chat_reply(CANARY)))
        for stream in (True, False):
            assert (await proxy.chat(stream=stream)).status_code == 200
        assert (await proxy.chat(model="other")).status_code == 503
        lines = (await proxy.client.get("/metrics")).text.splitlines()
        errors = [line for line in lines if "error" in line.partition("{")[0] and not line.startswith("#")]
        assert errors == []
        shown = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines}
        decided = 'guardrail_decisions_total{action="block",mode="enforce",policy="%s",reason="%s",stage="%s"}'
        assert shown[decided % ("words", "unsafe", "input")] == "1.0"
        assert shown[decided % ("words", "unsafe", "output")] == "2.0"  # the streamed one too
        assert shown[decided % ("vague", "unknown", "input")] == "1.0"
        assert shown['proxy_requests_total{code="503",route="/v1/chat/completions"}'] == "1.0"


async def test_the_status_that_is_counted_is_the_one_the_caller_saw(tmp_path: Path) -> None:  # L-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies={})) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("one", "two")), abort_at=2), Answer(status=429, json={"error": {}}))
        broken = await proxy.chat(stream=True)
        refused = await proxy.chat(stream=True)
        assert (broken.status_code, refused.status_code) == (200, 429)
        text = (await proxy.client.get("/metrics")).text
        for code in ("200", "429"):
            assert f'proxy_requests_total{{code="{code}",route="{ROUTE}"}} 1.0' in text
        assert [row["client"]["status"] for row in await proxy.records(2)] == [429, 200]


async def test_the_routes_of_probes_are_counted_by_their_names(tmp_path: Path) -> None:  # L-08
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for path in ("/livez", "/readyz", "/openapi.json", "/nope"):
            await proxy.client.get(path)
        text = (await proxy.client.get("/metrics")).text
    for code, route in (("200", "/livez"), ("200", "/readyz"), ("200", "/openapi.json"), ("404", "other")):
        assert f'proxy_requests_total{{code="{code}",route="{route}"}} 1.0' in text


async def test_only_listed_headers_reach_a_record(tmp_path: Path) -> None:  # O-24, L-05
    secret = "Xq7-header-canary"
    headers = {"authorization": f"Bearer {secret}", "x-api-key": secret, "cookie": secret, "x-other": secret}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for stream in (False, True):
            reply = await proxy.client.post(ROUTE, json=chat_body(stream=stream), headers=headers)
            assert secret not in str(reply.headers)
        assert secret not in json.dumps(await proxy.records(2))
        assert all(secret not in str(received.headers) for received in up.received)


async def test_the_record_of_a_judge_says_what_was_asked_of_whom(tmp_path: Path) -> None:  # L-02
    judge = {"judge": {"use": "judge", "model": "gpt"}}
    parts: dict[str, Any] = {"supervisors": judge, "policies": policy({"forced": ["judge"]})}
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, **parts)) as proxy:
        up.script(*[Answer(json=chat_reply("It looks fine to me."))] * 2)
        assert (await proxy.chat()).status_code == 503
        (row,) = (await proxy.records())[0]["verdicts"]
        assert (row["label"], row["cause"]) == ("unknown", "unparsable")
        assert (row["model_requested"], row["model_served"]) == ("gpt", "fake-model")
        assert len(row["prompt_sha256"]) == 64
        assert row["seconds"] > 0
        assert {"repaired", "tokens", "cost"} <= row.keys()


class Held:
    """A supervisor that counts how often it is opened and closed."""

    def __init__(self) -> None:
        self.opened = self.closed = 0

    async def __aenter__(self) -> None:
        self.opened += 1

    async def __aexit__(self, *_: object) -> None:
        self.closed += 1

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        return safe()


async def test_what_a_supervisor_holds_is_opened_once(tmp_path: Path) -> None:  # O-08, R-08
    held = Held()
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors={"words": held})) as proxy:
        for _ in range(20):
            assert (await proxy.chat()).status_code == 200
        assert (held.opened, held.closed) == (1, 0)
    assert (held.opened, held.closed) == (1, 1)


async def test_a_slow_supervisor_costs_its_time_and_no_more(tmp_path: Path) -> None:
    slow: Mapping[str, Supervisor] = {"words": Sleeps(HANGS_S)}
    rules = policy({"forced": ["words"], "timeout_s": 0.3})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow, policies=rules)) as proxy:
        async with asyncio.timeout(PATIENCE_S):
            reply = await proxy.chat()
        assert reply.status_code == 503
        assert 250 <= float(reply.headers["x-guardrail-overhead-ms"]) < 1000 * PATIENCE_S


async def test_no_answer_lets_a_page_of_another_origin_read_it(tmp_path: Path) -> None:
    headers = {"origin": "https://example.org", "access-control-request-method": "POST"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for method, path in (("OPTIONS", ROUTE), ("POST", ROUTE), ("GET", "/v1/models"), ("OPTIONS", "/v1/models")):
            reply = await proxy.client.request(method, path, json=chat_body(), headers=headers)
            assert [name for name in reply.headers if name.startswith("access-control-")] == []


async def test_metrics_and_health_name_no_address_key_or_text(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for text in ("a plain canary", CANARY):
            await proxy.chat(text)
        for path in ("/metrics", "/health", "/readyz", "/livez"):
            shown = (await proxy.client.get(path)).text
            for secret in (up.url, up.url.removeprefix("http://").removesuffix("/v1"), "canary", CANARY):
                assert secret not in shown


OFFLINE = """
import asyncio, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        raise RuntimeError(f"{event} {arguments}")

sys.addaudithook(refuse)
from pathlib import Path
from proxy.app import create_app
from proxy.cli import main
from proxy.config import load_config

assert main(["validate", sys.argv[1]]) == 0
assert main(["schema"]) == 0

async def start():
    async with create_app(load_config(Path(sys.argv[1]))).gateway.serving():
        print("serving")

asyncio.run(start())
"""


async def test_start_validate_and_schema_need_no_network(tmp_path: Path) -> None:  # O-02, R-07
    made = tree("http://model.example/v1", tmp_path, supervisors={"embedded": {"use": "guard", "card": "embedded"}})
    path = tmp_path / "c.json"
    path.write_text(json.dumps({**made, "policies": policy({"forced": ["embedded"]})}, default=str))
    ended = await run_python("-c", OFFLINE, str(path))
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "serving"


@pytest.mark.parametrize(
    ("part", "outcome"),
    [
        ({"refusal": "I cannot do that."}, "answered"),
        ({"refusal": f"no {CANARY}"}, "blocked_output"),
        ({"audio": {"id": "a", "data": "AAAA", "transcript": "fine"}}, "answered"),
        ({"audio": {"id": "a", "data": "AAAA", "transcript": CANARY}}, "blocked_output"),
        ({"audio": {"id": "a", "data": f"a {CANARY}", "transcript": "fine"}}, "blocked_output"),
    ],
)
async def test_refusals_and_transcripts_are_judged_and_delivered(
    tmp_path: Path, part: dict[str, Any], outcome: str
) -> None:  # W-12
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        whole = chat_reply()
        whole["choices"][0]["message"] = {"role": "assistant", "content": None, **part}
        chunk: dict[str, Any] = {
            "choices": [{"index": 0, "delta": {"role": "assistant", **part}, "finish_reason": None}]
        }
        end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        up.script(Answer(json=whole), Answer(frames=sse(chunk, end)))
        for stream in (False, True):
            text = (await proxy.chat(stream=stream)).text
            assert (CANARY in text, "fine" in text or "cannot do that" in text) == (False, outcome == "answered")
        assert [row["outcome"] for row in await proxy.records(2)] == [outcome] * 2


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("asked", [True, False])
async def test_usage_of_streams_is_for_those_who_asked(tmp_path: Path, judged: bool, asked: bool) -> None:  # W-04
    async with FakeUpstream() as up:
        config = guarded(up, tmp_path, **({} if judged else {"policies": {}}))
        config["upstreams"]["main"]["stream_usage"] = True
        async with serving(config) as proxy:
            fields: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
            reply = await proxy.chat(stream=True, **fields)
            assert up.received[0].json["stream_options"] == {"include_usage": True}
            assert content_of(reply) == "Hello there."
            assert (b'"usage"' in reply.content) is asked
            assert frames_of(reply)[-1] == "[DONE]"
            assert (await proxy.records())[0]["usage"]["prompt_tokens"] == 7
            metrics = (await proxy.client.get("/metrics")).text
            assert 'guardrail_tokens_total{direction="input",supervisor="upstream"} 7.0' in metrics


async def test_an_unknown_route_is_told_the_known_ones(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/v1/chat/completion", json=chat_body())
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (404, "unknown_route")
        named = error["message"].removeprefix("There is no such route; served are ").removesuffix(".").split(", ")
        assert {ROUTE, "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"} <= set(named)
        for route in named:  # whatever is named is served
            known = await proxy.client.post(route, json={})
            assert known.status_code in (400, 405), route


async def test_a_record_is_readable_within_a_second_of_the_reply(tmp_path: Path) -> None:  # W-37
    waits: list[float] = []
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for _ in range(5):  # 0.06 s is usual; a busy machine may need longer now and then
            reply = await proxy.chat()
            begun = asyncio.get_running_loop().time()
            async with asyncio.timeout(PATIENCE_S):
                where = f"/v1/decisions/{reply.headers['x-guardrail-id']}"
                while (await proxy.client.get(where)).status_code != 200:  # noqa: ASYNC110 - polls as a client would
                    await asyncio.sleep(0.005)
            waits.append(asyncio.get_running_loop().time() - begun)
    assert min(waits) < 1.0, waits


@pytest.mark.parametrize("stream", [False, True])
async def test_the_journal_says_how_often_the_model_server_was_asked(tmp_path: Path, stream: bool) -> None:  # §3.1
    loading = Answer(status=503, json={"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
    upstream: dict[str, Any] = {"breaker_failures": 2, "retries": 0}
    async with FakeUpstream() as up:
        upstreams = {"main": {"base_url": up.url, **upstream}}
        async with serving(guarded(up, tmp_path, upstreams=upstreams)) as proxy:
            bad, down = (Answer(status=status, json={"error": {"message": "no"}}) for status in (400, 502))
            cases: list[tuple[list[Answer], int]] = [([], 1), ([loading] * 2, 3), ([bad], 1), ([down], 1), ([down], 1)]
            for script, attempts in [*cases, ([], 0)]:  # in the end the breaker is open
                up.script(*script)
                await proxy.chat(stream=stream)
                assert (await proxy.records())[0]["upstream_call"]["attempts"] == attempts, script
