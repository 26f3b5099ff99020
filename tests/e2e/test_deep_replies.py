"""A reply nested deeper than anybody goes is the model server's failure, in the record as for the caller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, sse
from tests.e2e.serving import guarded, serving

DEEP = '{"a":' * 400 + "1" + "}" * 400
CHOICE = '{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}'
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("member", ["usage", "x_vendor", "logprobs"])
async def test_a_whole_reply(tmp_path: Path, member: str) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(body=f'{{"choices":[{CHOICE}],"{member}":{DEEP}}}'.encode(), headers=JSON))
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        (record,) = await proxy.records()
        assert (record["outcome"], record["upstream_call"]["error_kind"]) == ("upstream_error", "protocol")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "told"), [(404, 404), (401, 502)])
async def test_the_status_of_an_error_is_in_the_record(tmp_path: Path, status: int, told: int, stream: bool) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(status=status, body=b"umbrella"))
        assert (await proxy.chat(stream=stream)).status_code == told
        (record,) = await proxy.records()
        assert (record["upstream_call"]["status"], record["upstream_call"]["error_kind"]) == (status, "status")


@pytest.mark.parametrize("before", [0, 1])
async def test_a_stream(tmp_path: Path, before: int) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        frames = sse(*chat_chunks("All is well. And so on and on. ", "Good."))
        deep = f'data: {{"choices":[{{"index":0,"delta":{{"x":{DEEP}}}}}]}}\n\n'.encode()
        up.script(Answer(frames=[*frames[: before * 3], deep, *frames], headers={"content-type": "text/event-stream"}))
        reply = await proxy.chat(stream=True)
        assert b'"a":' not in reply.content
        assert (reply.status_code == 502) if before == 0 else reply.text.rstrip().endswith("}")
        assert "[DONE]" not in reply.text
        (record,) = await proxy.records()
        assert (record["outcome"], record["upstream_call"]["error_kind"]) == ("upstream_error", "protocol")


@pytest.mark.parametrize(
    "frames", [[b": hello\n\n"], [b"data: [DONE]\n\n"], [b': x\n\ndata: {"choices":[],"usage":{}}\n\n']]
)
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
async def test_a_stream_without_a_choice_is_no_answer(tmp_path: Path, frames: list[bytes], route: str) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=frames, headers={"content-type": "text/event-stream"}))
        body = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": "hello"}], "prompt": "hello"}
        reply = await proxy.client.post(route, json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        (record,) = await proxy.records()
        assert (record["outcome"], record["upstream_call"]["error_kind"]) == ("upstream_error", "protocol")
