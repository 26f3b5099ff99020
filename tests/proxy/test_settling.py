"""A reason to stop that is none, an end that nothing follows, and an upstream that never closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from proxy.beside import BEHIND_S
from proxy.call import Progress
from proxy.relay import Judging, Relay
from proxy.settling import DOUBTED_S, Finishes
from proxy.stream import Gate
from proxy.translating import ChatBacked
from proxy.wire.adapter import Chunk, Piece
from proxy.wire.chat import CHAT
from supervisors.testing import Finds, context
from tests.proxy.sink import Sink
from tests.proxy.test_relay import CANARY, chunk, make_call
from tests.timing import PATIENCE_S

MODES = ["hold", "window", "sentence", "observe"]


def says(text: str, finish: str | None = None) -> Chunk:
    return Chunk(b"", 0, (Piece("/content", "text", text, ("delta", "content")),) if text else (), finish)


def gate_of(*chunks: Chunk) -> Gate:
    frames = CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {})
    gate = Gate(make_call(Finds(CANARY), {}, stream={"mode": "hold"}).output, frames, 0, 1)
    for one in chunks:
        gate.push(one)
    return gate


def test_a_finish_is_due_after_a_moment_and_one_that_text_follows_after_a_longer_one() -> None:
    finishes, gate = Finishes(), gate_of(says("my sun", "stop"))
    finishes.note(says("my sun", "stop"), gate, before=False, now=10.0)
    finishes.note(says(""), gate, before=True, now=10.5)
    assert (finishes.wait_s(10.5), finishes.due(10.9), finishes.due(10.0 + BEHIND_S)) == (BEHIND_S - 0.5, [], [0])
    assert finishes.wait_s(12.0) is None
    finishes.note(says("", "stop"), gate, before=True, now=12.0)
    finishes.note(says("more"), gate, before=True, now=12.25)
    finishes.note(says("", "stop"), gate, before=True, now=12.5)
    assert finishes.wait_s(12.25) == DOUBTED_S
    finishes.note(says("and more"), gate, before=True, now=13.0)
    assert (finishes.due(12.25 + DOUBTED_S), finishes.due(13.0 + DOUBTED_S)) == ([], [0])


@pytest.mark.parametrize("reason", ["", 0, False, "null"], ids=repr)
@pytest.mark.parametrize("mode", ["hold", "window", "sentence"])
async def test_a_reason_with_every_chunk_is_no_finish(mode: str, reason: object) -> None:  # S-01
    async def slow() -> AsyncIterator[bytes]:
        for text in ("see ", "violet "):
            yield said(text, reason)
        await asyncio.sleep(BEHIND_S * 1.2)
        yield said("umbrella now", reason)
        yield said("", "stop")
        yield b"data: [DONE]\n\n"

    sink, progress = Sink(), Progress()
    async with asyncio.timeout(PATIENCE_S):
        await relayed(mode, progress, sink).run(slow())
    assert b"violet" not in sink.sent
    assert progress.outcome == "blocked_output"


def said(text: str, reason: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": reason}
    return b"data: " + orjson.dumps({"id": "id", "object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"


def relayed(mode: str, progress: Progress, sink: Sink) -> Relay:
    call = make_call(Finds(CANARY), {}, stream={"mode": mode})
    judging = Judging(call.output, lambda _: context("unused"), "full")
    return Relay(call, progress, judging, CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), sink)


@pytest.mark.parametrize("pings", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_the_end_of_a_stream_leaves_though_the_model_server_stays(mode: str, *, pings: bool) -> None:
    sink, progress, closed = Sink(), Progress(), asyncio.Event()
    frames = [chunk({"content": "my sun"}), chunk({}, "stop"), b"data: [DONE]\n\n"]

    async def endless() -> AsyncIterator[bytes]:
        try:
            for frame in frames:
                yield frame
            while True:
                await asyncio.sleep(0.02 if pings else PATIENCE_S * 2)
                yield b": ping\n\n"
        finally:
            closed.set()

    upstream = endless()
    async with asyncio.timeout(PATIENCE_S):
        await relayed(mode, progress, sink).run(upstream)
    assert sink.sent == b"".join(frames)
    assert (progress.outcome, progress.terminator, progress.upstream_error) == ("answered", "done", None)


class Chat:
    """A chat model that says these frames, pausing between them, and then stays."""

    def __init__(self, *frames: bytes, pause_s: float = 0.0) -> None:
        self._frames = frames
        self._pause_s = pause_s
        self.sent = 0

    async def complete(self, path: str, body: bytes, headers: object) -> None:
        raise AssertionError

    def stream(self, path: str, body: bytes, headers: object) -> Chat:
        return self

    async def __aenter__(self) -> Chat:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    headers = ()
    attempts = 1

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        return self._say()

    async def _say(self) -> AsyncIterator[bytes]:
        for frame in self._frames:
            self.sent += 1
            yield frame
            await asyncio.sleep(self._pause_s)
        while True:
            await asyncio.sleep(0.02)
            yield b": ping\n\n"


@pytest.mark.parametrize(
    "frames",
    [
        [chunk({"content": "my sun"}), chunk({}, "stop")],
        [chunk({"content": "my sun"}, "stop")],
        [chunk({"content": "my "}, "stop"), chunk({"content": "sun"}, "stop")],
    ],
)
async def test_a_translated_message_ends_though_the_chat_stream_does_not(frames: list[bytes]) -> None:  # W-31
    model = ChatBacked(Chat(*frames), patience_s=0.2)  # type: ignore[arg-type]
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    async with asyncio.timeout(PATIENCE_S), model.stream("/messages", body, ()) as reply:
        said = b"".join([part async for part in reply.chunks])
    assert said.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert b'"stop_reason":"end_turn"' in said


@pytest.mark.parametrize("part", [b": pi", b"\n", b'data: {"id":', b": ping\n"])
async def test_parts_of_frames_keep_no_translated_message_from_its_end(part: bytes) -> None:  # W-31
    model = ChatBacked(Chat(said("my sun", "stop"), *[part] * 400, pause_s=0.005), patience_s=0.05)  # type: ignore[arg-type]
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    async with asyncio.timeout(PATIENCE_S), model.stream("/messages", body, ()) as reply:
        said_so = b"".join([part async for part in reply.chunks])
    assert said_so.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert b'"stop_reason":"end_turn"' in said_so


async def test_what_is_behind_the_end_is_read_up_to_a_bound() -> None:
    read = 0

    async def flood() -> AsyncIterator[bytes]:
        nonlocal read
        for frame in (chunk({"content": "my sun"}), chunk({}, "stop"), b"data: [DONE]\n\n"):
            yield frame
        for _ in range(10_000):
            read += 1024
            yield b"\n" * 1024

    sink, progress = Sink(), Progress()
    await relayed("window", progress, sink).run(flood())
    assert sink.sent.endswith(b"[DONE]\n\n")
    assert read < 128 * 1024


async def test_so_is_what_is_behind_the_end_of_a_translated_one() -> None:
    chat = Chat(said("my sun", "stop"), b"data: [DONE]\n\n", *[b"\n" * 1024] * 10_000)
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    async with asyncio.timeout(PATIENCE_S), ChatBacked(chat).stream("/messages", body, ()) as reply:  # type: ignore[arg-type]
        told = b"".join([part async for part in reply.chunks])
    assert told.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert chat.sent < 128


async def test_a_translated_message_loses_nothing_to_a_pause() -> None:  # W-31
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
    frames = [said("my ", "stop"), said("sun", "stop"), usage, b"data: [DONE]\n\n"]
    model = ChatBacked(Chat(*frames, pause_s=0.3), patience_s=0.1)  # type: ignore[arg-type]
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    async with asyncio.timeout(PATIENCE_S), model.stream("/messages", body, ()) as reply:
        told = b"".join([part async for part in reply.chunks])
    assert b'"text":"sun"' in told
    assert b'"output_tokens":3' in told
    assert told.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


@pytest.mark.parametrize("silent", [True, False])
async def test_silence_behind_a_finish_and_half_a_frame_end_no_translated_message(*, silent: bool) -> None:  # W-31
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
    late = [said(" and moon", None), usage[:30], usage[30:]] if silent else [usage[:30], *[b" "] * 20, usage[30:]]
    frames = [said("my sun", "stop"), *late, b"data: [DONE]\n\n"]
    chat = Chat(*frames, pause_s=0.3 if silent else 0.02)
    model = ChatBacked(chat, patience_s=0.1 if silent else 0.35)  # type: ignore[arg-type]
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    async with asyncio.timeout(PATIENCE_S), model.stream("/messages", body, ()) as reply:
        told = b"".join([part async for part in reply.chunks])
    assert (b" and moon" in told) == silent
    assert b'"output_tokens":3' in told
    assert told.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


@pytest.mark.parametrize("complete", [True, False])
def test_an_error_behind_the_end_is_none_of_the_reply(*, complete: bool) -> None:  # O-10
    progress = Progress()
    progress.complete = complete
    progress.note_error(500)
    assert progress.outcome == ("answered" if complete else "unavailable")
