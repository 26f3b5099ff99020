"""What applications on the real OpenAI SDKs and on curl see (wire §4, §5, §13; E-01 to E-10)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from supervisors.testing import Fails, Finds
from supervisors.types import Supervisor
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, Serving, chat_body, guarded, policy, serving
from tests.timing import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SDKS = {"openai2": "openai>=2,<3", "openai3": "openai>=3,<4"}
SCRIPT = Path(__file__).with_name("openai_calls.py")
FINDS_HELLO: Mapping[str, Supervisor] = {"words": Finds("hello")}
NOTICE = "This request cannot be completed because of a content policy."
Python = Callable[[str, str], Path]
Call = Callable[[Serving, str], Any]


async def run(*command: str | Path) -> bytes:
    """Run a command without blocking the proxy's loop."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await child.communicate()
    assert child.returncode == 0, err.decode()
    return out


@pytest.fixture(params=SDKS)
def call(request: pytest.FixtureRequest, client_python: Python) -> Call:
    """Return the function that makes one call with an SDK and gives what the application sees."""
    python = client_python(request.param, SDKS[request.param])

    async def make(proxy: Serving, name: str) -> dict[str, Any]:
        results: list[dict[str, Any]] = json.loads(await run(python, SCRIPT, f"{proxy.url}/v1", name))
        (shown,) = results
        assert shown.pop("version").split(".")[0] == request.param[-1]
        return shown

    return make


async def test_a_normal_exchange(tmp_path: Path, call: Call) -> None:  # W-02, W-04, W-08, W-16
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        shown = await call(proxy, "whole")
        assert shown.pop("request_id")
        assert shown == {"content": "Hello there.", "refusal": None, "finish": "stop", "tokens": 10}
        assert await call(proxy, "streamed") == {"content": "Hello there.", "finish": "stop", "tokens": 10}
        helped = await call(proxy, "helper")
        assert (helped["content"], helped["finish"]) == ("Hello there.", "stop")
        assert up.received[0].json["messages"] == [{"role": "user", "content": "hello"}]


async def test_a_blocked_input(tmp_path: Path, call: Call) -> None:  # E-01, E-02
    words = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=words, supervisors=FINDS_HELLO)) as proxy:
        for name in ("whole", "streamed", "helper"):
            shown = await call(proxy, name)
            assert shown.pop("request_id")
            assert NOTICE in shown.pop("message")
            assert shown == {
                "error": "BadRequestError",
                "status_code": 400,
                "code": "content_filter",
                "type": "invalid_request_error",
                "param": "messages",
            }
        assert up.received == []


async def test_a_blocked_output(tmp_path: Path, call: Call) -> None:  # W-23, S-08, E-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        bad, bad_stream = Answer(json=chat_reply(f"a {CANARY}")), Answer(frames=sse(*chat_chunks("a ", CANARY)))
        up.script(bad, bad_stream, bad_stream, bad, bad)
        whole = await call(proxy, "whole")
        assert (whole["content"], whole["refusal"], whole["finish"], whole["tokens"]) == (
            NOTICE,
            NOTICE,
            "content_filter",
            10,
        )
        streamed = await call(proxy, "streamed")
        assert (streamed["finish"], streamed["content"].strip().endswith(NOTICE)) == ("content_filter", True)
        assert CANARY not in streamed["content"]
        helped = await call(proxy, "helper")
        assert helped["error"] == "ContentFilterFinishReasonError"  # when the whole completion is asked for
        assert (await call(proxy, "modelled"))["error"] == "ContentFilterFinishReasonError"
        parsed = await call(proxy, "parsed")
        assert parsed["error"] == "ContentFilterFinishReasonError"


async def test_structured_output_that_passes(tmp_path: Path, call: Call) -> None:  # W-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=chat_reply('{"answer": "fine"}')))
        assert await call(proxy, "modelled") == {"content": "fine"}
        assert up.received[0].json["response_format"]["json_schema"]["strict"] is True


async def test_a_supervisor_that_is_down(tmp_path: Path, call: Call) -> None:  # F-06
    broken: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("bug"))}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=broken)) as proxy:
        for name in ("whole", "streamed"):
            shown = await call(proxy, name)
            assert (shown["error"], shown["status_code"], shown["code"]) == (
                "InternalServerError",
                503,
                "guardrail_unavailable",
            )


async def test_an_upstream_error_before_the_first_byte(tmp_path: Path, call: Call) -> None:  # W-05, E-06
    error = {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for name in ("whole", "streamed"):
            up.script(Answer(status=429, json={"error": error}))
            shown = await call(proxy, name)
            assert (shown["error"], shown["status_code"], shown["code"]) == (
                "RateLimitError",
                429,
                "rate_limit_exceeded",
            )
            up.script(Answer(status=401, json={"error": error}))
            assert (await call(proxy, name))["error"] == "InternalServerError"


async def test_an_upstream_error_after_the_first_byte(tmp_path: Path, call: Call) -> None:  # W-06, E-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("All is well here, ", "really", " it is")), abort_at=3))
        shown = await call(proxy, "streamed")
        assert (shown["error"], shown["code"]) == ("APIError", "upstream_error")


async def test_leaving_in_the_middle_closes_the_upstream(tmp_path: Path, call: Call) -> None:  # O-10, R-03
    observed = policy(output={"forced": ["words"], "stream": {"mode": "observe"}})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=observed)) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
        assert await call(proxy, "leaving") == {"first": ""}
        assert (await up.wait_finished(0)).closed_at is not None
        assert (await proxy.wait_records())[0]["client"]["cancelled_phase"] == "streaming"


async def test_models_are_listed_and_found(tmp_path: Path, call: Call) -> None:  # W-01
    models = {name: {"upstream": "main"} for name in ("gpt", "vendor/gpt")}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, models=models)) as proxy:
        assert await call(proxy, "listed") == {"models": ["gpt", "vendor/gpt"], "one": "vendor/gpt"}


CURL = shutil.which("curl") or ""


@pytest.mark.skipif(not CURL, reason="curl is not installed")
async def test_curl_sees_the_same(tmp_path: Path) -> None:  # W-03, W-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        route = f"{proxy.url}/v1/chat/completions"

        async def curl(body: dict[str, Any], *options: str) -> str:
            raw = orjson.dumps(body).decode()
            return (
                await run(CURL, "-sS", "-i", *options, "-H", "content-type: application/json", "-d", raw, route)
            ).decode()

        good = await curl(chat_body())
        assert good.startswith("HTTP/1.1 200 OK")
        assert "x-guardrail-decision: pass" in good
        stream = await curl(chat_body(stream=True), "-N")
        assert stream.rstrip().endswith("data: [DONE]")
        assert "content-type: text/event-stream; charset=utf-8" in stream
        blocked = await curl(chat_body(CANARY, stream=True), "-N")
        assert blocked.startswith("HTTP/1.1 400 Bad Request")
        assert json.loads(blocked.split("\r\n\r\n")[-1])["error"]["code"] == "content_filter"
        expect = await curl(chat_body("x" * 3000), "-H", "expect: 100-continue")
        assert "HTTP/1.1 200 OK" in expect
