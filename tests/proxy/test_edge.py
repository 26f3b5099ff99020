import asyncio
import logging
from typing import Any, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.edge import DIRECT, Direct, HeadJoiner, take_direct

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


def joined() -> tuple[Wire, HeadJoiner]:
    wire = Wire()
    return wire, HeadJoiner(wire, asyncio.get_running_loop())


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
        self.direct = Direct(self.cycle, self.wire)

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


async def test_a_body_is_taken_only_once_it_is_whole() -> None:
    served = Served()
    served.cycle.body += b"violet "
    assert served.direct.take_body() is None
    served.cycle.body += b"umbrella"
    served.cycle.more_body = False
    assert served.direct.take_body() == b"violet umbrella"
    assert take_direct({"extensions": {DIRECT: served.direct}}) is served.direct
    assert take_direct({}) is None
