import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.direct import DIRECT, Direct, JoiningTransport, take_direct
from supervisors.transport.batch import WriteBatch

T = TypeVar("T")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that notes every write and the close."""

    def __init__(self) -> None:
        super().__init__({"peername": "nobody"})
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.written.append(b"(closed)")

    def is_closing(self) -> bool:
        return b"(closed)" in self.written


def joined() -> tuple[Wire, JoiningTransport]:
    wire = Wire()
    return wire, JoiningTransport(wire, WriteBatch(asyncio.get_running_loop()))


class StillClock(asyncio.SelectorEventLoop):
    """A loop whose clock stands still, as that of uvloop does within a turn."""

    def time(self) -> float:
        return 1.0


async def serve_busily() -> tuple[Wire, list[list[bytes]]]:
    """Write more answers in one tick than leave at once; return the wire and what was on it before and after."""
    wire, joiner = joined()
    seen: list[list[bytes]] = []
    for number in range(6):
        joiner.write_whole(b"%d" % number)
    seen.append(list(wire.written))
    await asyncio.sleep(0)
    seen.append(list(wire.written))
    return wire, seen


async def write_then(end: Callable[[Wire, JoiningTransport], None]) -> list[bytes]:
    """Write more answers in one tick than leave at once, end the connection one way or another, return what left."""
    wire, joiner = joined()
    for number in range(5):
        joiner.write_whole(b"%d" % number)
    end(wire, joiner)
    await asyncio.sleep(0)
    return wire.written


def in_still_time(run: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=StillClock) as runner:
        return runner.run(run())


def test_under_load_the_answers_of_a_turn_leave_together_and_in_order() -> None:  # PF-07
    _, (before, after) = in_still_time(serve_busily)
    assert before == [b"0", b"1", b"2"]
    assert after == [b"0", b"1", b"2", b"345"]


def test_a_close_under_load_sends_what_waits_first() -> None:
    assert in_still_time(lambda: write_then(lambda _, joiner: joiner.close())) == [b"0", b"1", b"2", b"34", b"(closed)"]


def test_nothing_is_written_to_a_connection_that_closed_meanwhile() -> None:
    assert in_still_time(lambda: write_then(lambda wire, _: wire.close())) == [b"0", b"1", b"2", b"(closed)"]


def test_much_is_not_held_back_even_under_load() -> None:
    async def write_much() -> list[int]:
        wire, joiner = joined()
        for _ in range(7):
            joiner.write_whole(bytes(40_000))
        return [len(part) for part in wire.written]

    assert in_still_time(write_much) == [40_000, 40_000, 40_000, 120_000]


async def test_head_and_first_body_leave_in_one_write() -> None:  # PF-07
    wire, joiner = joined()
    joiner.write(HEAD)
    joiner.write(b"ok")
    joiner.write(b"more")
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"ok", b"more"]


async def test_a_head_without_a_body_leaves_at_the_end_of_the_turn() -> None:
    wire, joiner = joined()
    joiner.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]


async def test_an_empty_body_sends_the_head() -> None:
    wire, joiner = joined()
    joiner.write(HEAD)
    joiner.write(b"")
    assert wire.written == [HEAD]


async def test_a_close_sends_the_head_first() -> None:
    wire, joiner = joined()
    joiner.write(HEAD)
    joiner.close()
    assert wire.written == [HEAD, b"(closed)"]


async def test_an_interim_reply_leaves_at_once() -> None:
    wire, joiner = joined()
    joiner.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert wire.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]


async def test_everything_else_is_the_transport_s_own() -> None:
    _, joiner = joined()
    assert joiner.get_extra_info("peername") == "nobody"


class Served:
    """A request that uvicorn has begun to serve, without a server around it."""

    def __init__(self, *, keep_alive: bool = True) -> None:
        self.wire = Wire()
        self.responses = 0
        self.cycle = RequestResponseCycle(
            scope=cast("Any", {"type": "http", "method": "POST"}),
            transport=self.wire,
            flow=FlowControl(self.wire),
            logger=logging.getLogger("test"),
            access_logger=logging.getLogger("test"),
            access_log=False,
            default_headers=[(b"date", b"today")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=self.count,
        )
        self.direct = Direct(self.cycle, JoiningTransport(self.wire, WriteBatch(asyncio.get_running_loop())))

    def count(self) -> None:
        self.responses += 1


async def test_a_whole_answer_is_one_write_with_its_length() -> None:
    served = Served()
    await served.direct.reply(200, [(b"content-type", b"application/json")], b"{}")
    head = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
    assert served.wire.written == [head + b"{}"]
    assert served.responses == 1
    assert served.cycle.response_complete


async def test_a_connection_that_is_not_kept_says_so_and_closes() -> None:
    served = Served(keep_alive=False)
    await served.direct.reply(503, [], b"")
    head, closed = served.wire.written
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nconnection: close\r\n" in head
    assert closed == b"(closed)"


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb"])
async def test_a_header_that_would_split_the_answer_is_refused(value: bytes) -> None:
    served = Served()
    with pytest.raises(RuntimeError, match="line break"):
        await served.direct.reply(200, [(b"x-guardrail-policy", value)], b"{}")
    assert served.wire.written == []


async def test_nothing_is_sent_twice_or_to_a_caller_that_left() -> None:
    served = Served()
    await served.direct.reply(200, [], b"1")
    with pytest.raises(RuntimeError, match="begun already"):
        await served.direct.reply(200, [], b"2")
    gone = Served()
    gone.cycle.disconnected = True
    await gone.direct.reply(200, [], b"1")
    assert gone.wire.written == []


async def test_a_stream_leaves_in_chunks_its_head_with_the_first() -> None:  # PF-07
    served = Served()
    await served.direct.start(200, [(b"content-type", b"text/event-stream")])
    await served.direct.write(b"data: 1\n\n")
    await served.direct.write(b"")
    await served.direct.write(b"data: [DONE]\n\n")
    assert not served.cycle.response_complete
    await served.direct.end()
    head = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    assert served.wire.written == [head + b"9\r\ndata: 1\n\n\r\n", b"e\r\ndata: [DONE]\n\n\r\n", b"0\r\n\r\n"]
    assert served.responses == 1
    assert served.cycle.response_complete


async def test_a_stream_to_a_caller_that_left_sends_nothing_more() -> None:
    served = Served()
    await served.direct.start(200, [])
    await asyncio.sleep(0)
    before = list(served.wire.written)
    served.cycle.disconnected = True
    await served.direct.write(b"data: 1\n\n")
    await served.direct.end()
    assert served.wire.written == before
    assert served.responses == 0


async def test_a_slow_caller_is_waited_for() -> None:
    served = Served()
    await served.direct.start(200, [])
    served.cycle.flow.pause_writing()
    writing = asyncio.ensure_future(served.direct.write(b"data: 1\n\n"))
    await asyncio.sleep(0)
    assert not writing.done()
    served.cycle.flow.resume_writing()
    await writing
    assert served.wire.written[-1].endswith(b"data: 1\n\n\r\n")


async def test_a_body_is_taken_only_once_it_is_whole() -> None:
    served = Served()
    served.cycle.body += b"violet "
    assert served.direct.take_body() is None
    served.cycle.body += b"umbrella"
    served.cycle.more_body = False
    assert served.direct.take_body() == b"violet umbrella"
    scope = {"extensions": {DIRECT: served.direct}}
    assert take_direct(scope) is served.direct
    assert scope == {"extensions": {}}  # left in, the request would be a cycle of objects
    assert take_direct({}) is None
