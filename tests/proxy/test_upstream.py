"""The proxy's client of model servers against a scripted one."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from proxy.upstream import Upstream
from proxy.upstream_errors import UpstreamStatusError
from proxy.upstream_settings import UpstreamSettings
from supervisors.errors import UpstreamError
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.timing import AT_ONCE_S, PATIENCE_S

CHAT = "/chat/completions"
BODY = b'{"model":"m","messages":[{"role":"user","content":"violet umbrella"}]}'
STREAM = b'{"model":"m","messages":[],"stream":true}'
KEY = "sk-violet-umbrella-1234"

Make = Callable[..., Upstream]


@pytest.fixture
async def up() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def make(up: FakeUpstream) -> AsyncIterator[Make]:
    made: list[Upstream] = []

    def build(**changes: Any) -> Upstream:
        settings: dict[str, Any] = {"base_url": up.url, "api_key": KEY, "timeout_s": 5.0} | changes
        made.append(Upstream(UpstreamSettings(**settings), seed=1))
        return made[-1]

    yield build
    for upstream in made:
        await upstream.aclose()


async def drain(upstream: Upstream, path: str, timeout_s: float) -> None:
    async with upstream.stream(path, STREAM, timeout_s=timeout_s) as reply:
        async for _ in reply.chunks:
            pass


async def fails(upstream: Upstream, *, stream: bool = False, path: str = CHAT, timeout_s: float = 5.0) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await (drain(upstream, path, timeout_s) if stream else upstream.complete(path, BODY, timeout_s=timeout_s))
    assert "umbrella" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    return caught.value


async def test_a_whole_reply_is_returned_byte_for_byte(up: FakeUpstream, make: Make) -> None:
    body = json.dumps(chat_reply(), indent=1).encode()
    up.script(Answer(body=body, headers={"content-type": "application/json", "x-ratelimit-remaining-tokens": "9"}))
    reply = await make().complete(CHAT, BODY)
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers == (("content-type", "application/json"), ("x-ratelimit-remaining-tokens", "9"))
    sent = up.received[0]
    assert (sent.path, sent.body) == ("/v1/chat/completions", BODY)
    assert sent.header("authorization") == f"Bearer {KEY}"
    assert sent.header("accept-encoding") == "identity"  # W-18


async def test_a_stream_is_returned_frame_by_frame_as_it_comes(up: FakeUpstream, make: Make) -> None:  # W-30
    frames = sse(*chat_chunks("violet", " umbrella"))
    up.script(Answer(frames=frames, hold_at=1))
    seen = b""
    async with make().stream(CHAT, STREAM) as reply:
        assert reply.status == 200
        assert dict(reply.headers)["content-type"].startswith("text/event-stream")
        async for chunk in reply.chunks:
            seen += chunk
            if seen == frames[0]:
                up.release()
    assert seen == b"".join(frames)
    assert up.received[0].header("accept") == "text/event-stream"


async def test_only_listed_headers_of_the_caller_are_passed_on(up: FakeUpstream, make: Make) -> None:  # W-17
    caller = (
        ("OpenAI-Beta", "assistants=v2"),
        ("anthropic-version", "2023-06-01"),
        ("authorization", "Bearer callers-own"),
        ("x-api-key", "callers-own"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "1.2.3.4"),
        ("user-agent", "caller/1"),
        ("x-trace", "7"),
    )
    await make().complete(CHAT, BODY, caller)
    await make(forward_headers=("X-Trace",), extra_headers=(("x-team", "red"),)).complete(CHAT, BODY, caller)
    first, second = [dict(received.headers) for received in up.received]
    assert (first["openai-beta"], first["user-agent"]) == ("assistants=v2", "guardrail-proxy")
    assert (second["x-trace"], second["x-team"], second["authorization"]) == ("7", "red", f"Bearer {KEY}")
    assert not {"anthropic-version", "x-api-key", "cookie", "x-forwarded-for", "x-trace"} & set(first)
    assert not {"openai-beta", "x-api-key"} & set(second)
    assert "callers-own" not in str(up.received)


async def test_anthropic_is_spoken_to_natively_on_its_own_route(up: FakeUpstream, make: Make) -> None:
    up.script(Answer(json={"type": "message"}))
    await make(vendor="anthropic").complete("/messages", BODY, (("Anthropic-Version", "2023-06-01"),))
    sent = up.received[0]
    assert (sent.path, sent.header("x-api-key"), sent.header("authorization")) == ("/v1/messages", KEY, None)
    assert sent.header("anthropic-version") == "2023-06-01"


# Failures (wire §4)


async def test_nobody_listening_is_502_after_the_retries(make: Make) -> None:
    async with FakeUpstream() as gone:
        upstream = make(base_url=gone.url, retries=1)
    for stream in (False, True):
        error = await fails(upstream, stream=stream)
        assert (error.status, error.code, error.kind) == (502, "upstream_error", "connect")
        assert type(error) is UpstreamError
        assert (error.attempts, error.reason, error.answered) == (2, "refused", None)


async def test_a_server_that_comes_up_between_attempts_is_reached(make: Make) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(make(base_url=f"http://127.0.0.1:{port}/v1", retries=50).complete(CHAT, BODY))
        await asyncio.sleep(0)  # the first attempt is under way
        async with FakeUpstream(port) as late:
            await late.wait_finished()
            assert (await task).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        Answer(abort_at=-1),
        Answer(body=b'{"a": 1}', headers={"content-type": "application/json"}, split=4, end_at=1),
        Answer(raw=b"violet umbrella\r\n\r\n"),
        Answer(status=302, headers={"location": "http://127.0.0.1:1/umbrella"}),
        Answer(body=b"<html>umbrella</html>", headers={"content-type": "text/html"}),
        Answer(body=b"", headers={"content-type": "application/json"}),
        Answer(status=204),
        Answer(status=401, json={"error": {"message": f"bad key {KEY}"}}),
        Answer(status=403, json={"error": {"message": f"bad key {KEY}"}}),
        Answer(status=407),
    ],
)
async def test_a_bad_reply_or_our_own_bad_credentials_are_502(up: FakeUpstream, make: Make, answer: Answer) -> None:
    up.script(answer, answer)
    upstream = make()
    for stream in (False, True):
        error = await fails(upstream, stream=stream)
        assert (error.status, error.code) == (502, "upstream_error")
    assert len(up.received) == 2, "none of these is tried again"


async def test_json_instead_of_a_stream_is_502(up: FakeUpstream, make: Make) -> None:  # E-06
    up.script(Answer(json=chat_reply()))
    assert (await fails(make(), stream=True)).status == 502


async def test_a_reply_larger_than_allowed_is_502(up: FakeUpstream, make: Make) -> None:
    up.script(Answer(body=b" " * 2000, headers={"content-type": "application/json"}))
    assert (await fails(make(max_reply_bytes=1000))).status == 502


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer", [Answer(hold_at=-1), Answer(status=500, body=b"x" * 99, split=1, hold_at=5)])
async def test_a_server_that_hangs_is_504_in_time(up: FakeUpstream, make: Make, answer: Answer, stream: bool) -> None:
    up.script(answer)
    begun = asyncio.get_running_loop().time()
    error = await fails(make(), stream=stream, timeout_s=0.1)
    assert (error.status, error.code, error.kind) == (504, "upstream_timeout", "timeout")
    assert asyncio.get_running_loop().time() - begun < AT_ONCE_S
    assert (await up.wait_finished()).closed_at is not None


async def test_the_upstreams_own_limit_holds_without_a_deadline(up: FakeUpstream, make: Make) -> None:
    up.script(Answer(hold_at=-1))
    with pytest.raises(UpstreamError) as caught:
        await make(timeout_s=0.1).complete(CHAT, BODY)
    assert caught.value.status == 504


async def test_a_stream_that_falls_silent_is_504_and_one_that_keeps_sending_is_not(
    up: FakeUpstream, make: Make
) -> None:
    frames = sse(*chat_chunks("a", "b", "c"))
    up.script(Answer(frames=frames, frame_delay_s=0.06), Answer(frames=frames, hold_at=2))
    slow = make(idle_s=PATIENCE_S, timeout_s=0.25)
    async with slow.stream(CHAT, STREAM) as reply:  # 0.36 s in all: idle time counts bytes, not the whole
        assert b"".join([chunk async for chunk in reply.chunks]) == b"".join(frames)
    assert (await fails(make(idle_s=0.2), stream=True, timeout_s=PATIENCE_S)).status == 504


async def test_a_whole_reply_may_be_silent_for_longer_than_a_stream(up: FakeUpstream, make: Make) -> None:
    up.script(Answer(json=chat_reply(), delay_s=0.3))
    assert (await make(idle_s=0.1).complete(CHAT, BODY)).status == 200


async def test_a_stream_that_breaks_off_is_502_after_what_came(up: FakeUpstream, make: Make) -> None:
    frames = sse(*chat_chunks("a", "b"))
    up.script(Answer(frames=frames, hold_at=1, abort_at=1))
    async with make().stream(CHAT, STREAM) as reply:
        assert await anext(reply.chunks) == frames[0]
        up.release()
        with pytest.raises(UpstreamError) as caught:
            await anext(reply.chunks)
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_the_server_keeps_its_status_and_is_rebuilt(
    up: FakeUpstream, make: Make, stream: bool
) -> None:  # LU-24, LU-25, X-10
    members = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096}
    message = f"the request exceeds the context, see http://127.0.0.1:1/x ({KEY})"
    up.script(Answer(status=400, json={"error": {"message": message, **members}}))
    error = await fails(make(), stream=stream)
    assert isinstance(error, UpstreamStatusError)
    assert (error.status, error.kind) == (400, "status")
    assert str(error) == "the request exceeds the context, see [url] ([key])"
    assert {error.error_type, error.code} == {"exceed_context_size_error"}
    assert error.param is None
    assert len(up.received) == 1


async def test_hints_for_a_retry_are_passed_on(up: FakeUpstream, make: Make) -> None:
    hints = {"retry-after": "7", "x-should-retry": "true", "x-ratelimit-limit-requests": "5", "set-cookie": "a=b"}
    up.script(Answer(status=429, json={"error": {"message": "slow down"}}, headers=hints))
    error = await fails(make())
    assert isinstance(error, UpstreamStatusError)
    assert dict(error.headers) == {"retry-after": "7", "x-should-retry": "true", "x-ratelimit-limit-requests": "5"}
    assert (error.status, error.error_type, error.code) == (429, "rate_limit_error", "upstream_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_is_loading_is_asked_until_it_is_ready(  # LU-22
    up: FakeUpstream, make: Make, stream: bool
) -> None:
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    up.script(*[Answer(status=503, json=loading)] * 3)
    upstream = make(retries=0)
    if stream:
        async with upstream.stream(CHAT, STREAM) as reply:
            assert b"[DONE]" in b"".join([chunk async for chunk in reply.chunks])
            assert reply.attempts == 4
    else:
        whole = await upstream.complete(CHAT, BODY)
        assert (whole.status, whole.attempts) == (200, 4)
    assert len(up.received) == 4


async def test_a_server_that_is_loading_past_the_deadline_is_503(up: FakeUpstream, make: Make) -> None:  # LU-22
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    up.script(*[Answer(status=503, json=loading)] * 50)
    error = await fails(make(), timeout_s=2.0)
    assert (error.status, error.code) == (503, "unavailable_error")
    assert isinstance(error, UpstreamStatusError)


async def test_another_503_or_500_is_not_tried_again(up: FakeUpstream, make: Make) -> None:  # LU-26
    up.script(Answer(status=503, json={"error": {"message": "busy"}}), Answer(status=500, json={}))
    upstream = make()
    assert [(await fails(upstream)).status for _ in range(2)] == [503, 500]
    assert len(up.received) == 2


async def test_a_kept_connection_that_had_been_closed_is_replaced(up: FakeUpstream, make: Make) -> None:
    upstream = make(retries=0)
    up.script(Answer(), Answer(abort_at=-1))
    await upstream.complete(CHAT, BODY)
    assert (await upstream.complete(CHAT, BODY)).status == 200


# The caller leaves (O-10)


@pytest.mark.parametrize("hold_at", [-1, 0, 2])
@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_closes_the_upstream_at_once(up: FakeUpstream, make: Make, stream: bool, hold_at: int) -> None:
    up.script(Answer(frames=sse(*chat_chunks("a", "b", "c")), hold_at=hold_at))
    upstream = make()
    call = fails(upstream, stream=True) if stream else upstream.complete(CHAT, BODY)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call)
        await up.wait_received()
        task.cancel()
        left = asyncio.get_running_loop().time()
    received = await up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < AT_ONCE_S


# Other vendors


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # litellm's own imports
async def test_another_vendor_is_answered_in_openai_form(up: FakeUpstream, make: Make) -> None:
    upstream = make(vendor="hosted_vllm", timeout_s=30.0)
    whole = json.loads((await upstream.complete(CHAT, BODY)).body)
    assert whole["choices"][0]["message"]["content"] == "Hello there."
    async with upstream.stream(CHAT, BODY) as reply:
        frames = [chunk async for chunk in reply.chunks]
    assert dict(reply.headers)["content-type"].startswith("text/event-stream")
    assert frames[-1] == b"data: [DONE]\n\n"
    chunks = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "Hello there."


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # litellm's own imports
async def test_another_vendor_is_sent_the_fixed_headers(up: FakeUpstream, make: Make) -> None:
    upstream = make(vendor="hosted_vllm", timeout_s=30.0, extra_headers=(("x-tenant", "violet"),))
    await upstream.complete("/chat/completions", BODY)
    assert dict(up.received[-1].headers)["x-tenant"] == "violet"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # litellm's own imports
async def test_errors_of_another_vendor_are_those_of_the_table(up: FakeUpstream, make: Make) -> None:
    upstream = make(vendor="hosted_vllm", timeout_s=30.0)
    for status, expected in ((401, 502), (400, 400), (429, 429), (500, 500)):
        up.script(Answer(status=status, json={"error": {"message": f"umbrella {KEY}"}}))
        error = await fails(upstream, timeout_s=30.0)
        assert error.status == expected
    up.script(Answer(status=400, json={}))
    with pytest.raises(UpstreamError) as caught:  # before the stream begins (W-05)
        await upstream.stream(CHAT, BODY).__aenter__()
    assert caught.value.status == 400


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # litellm's own imports
async def test_embeddings_and_completions_of_another_vendor_are_served(make: Make) -> None:
    upstream = make(vendor="hosted_vllm", timeout_s=30.0)
    embedded = json.loads((await upstream.complete("/embeddings", b'{"model":"m","input":["violet"]}')).body)
    assert embedded["data"][0]["embedding"] == [0.25, -0.5]
    completed = json.loads((await upstream.complete("/completions", b'{"model":"m","prompt":"violet"}')).body)
    assert completed["choices"][0]["text"]


async def test_a_route_that_a_vendor_does_not_have_is_404(make: Make) -> None:
    error = await fails(make(vendor="hosted_vllm"), path="/responses")
    assert (error.status, error.code) == (404, "unknown_route")


async def test_a_secret_header_is_not_in_an_error(up: FakeUpstream, make: Make) -> None:
    up.script(Answer(status=400, json={"error": {"message": "no access for violet-7"}}))
    upstream = make(api_key=None, extra_headers=(("api-key", "violet-7"),), secrets=("violet-7",))
    assert "violet" not in str(await fails(upstream))
