import asyncio

from proxy.edge import HeadJoiner

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
