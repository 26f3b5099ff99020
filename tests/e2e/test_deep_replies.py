"""A reply nested deeper than anybody goes is the model server's failure, in the record as for the caller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, sse
from tests.e2e.serving import guarded, policy, serving

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


HTML: dict[str, str] = {"content-type": "text/html"}
SHORT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        (Answer(body=b"<html>", headers=HTML), 200, "protocol"),
        (Answer(body=b"", headers=JSON), 200, "protocol"),
        (Answer(body=b"{}", headers=JSON | {"content-encoding": "br"}), 200, "protocol"),
        (Answer(status=302, body=b"x"), 302, "protocol"),
        (Answer(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n"), 200, "protocol"),
        (Answer(raw=b"HTTP/1.1 099 x\r\ncontent-length: 0\r\n\r\n"), None, "protocol"),
        (Answer(raw=b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), None, "protocol"),
    ],
)
async def test_a_reply_that_cannot_be_used_is_told_at_once_with_its_status(
    tmp_path: Path, answer: Answer, status: int | None, kind: str, stream: bool
) -> None:  # O-11, wire §4
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(answer)
        reply = await proxy.chat(stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        (record,) = await proxy.records()
        assert (record["upstream_call"]["status"], record["upstream_call"]["error_kind"]) == (status, kind)


async def test_a_whole_reply_that_breaks_off_has_its_status(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(raw=SHORT))
        assert (await proxy.chat()).status_code == 502
        (record,) = await proxy.records()
        assert (record["upstream_call"]["status"], record["upstream_call"]["error_kind"]) == (200, "connect")


async def test_an_error_that_says_200_is_no_answer_even_where_nobody_judges_it(tmp_path: Path) -> None:  # E-05
    unjudged = policy({"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=unjudged)) as proxy:
        up.script(Answer(body=b'{"error":{"message":"no credits","code":402}}', headers=JSON))
        reply = await proxy.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")


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
