"""What a head may say about its body, and what a chunk may announce, with no connection at hand."""

from __future__ import annotations

import pytest

from supervisors.transport import TransportError
from supervisors.transport.framing import announces_more, check_framing


@pytest.mark.parametrize(
    ("headers", "sized"),
    [
        ((), False),
        ((("content-type", "x"),), False),
        ((("content-length", "100"),), True),
        ((("content-length", "0"),), True),
        ((("transfer-encoding", " Chunked "),), True),
    ],
)
def test_a_head_says_where_its_body_ends_or_does_not(headers: tuple[tuple[str, str], ...], sized: bool) -> None:
    assert check_framing(headers, 100) is sized


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "xchunked", "chunked, chunked", "", "identity"])
def test_a_coding_that_was_not_asked_for_is_refused(coding: str) -> None:
    with pytest.raises(TransportError) as caught:
        check_framing([("transfer-encoding", coding)], 100)
    assert caught.value.fault == "protocol"


def test_two_codings_are_refused_and_so_is_a_length_beyond_the_limit() -> None:
    with pytest.raises(TransportError) as caught:
        check_framing([("transfer-encoding", "chunked")] * 2, 100)
    assert caught.value.fault == "protocol"
    with pytest.raises(TransportError) as caught:
        check_framing([("content-length", "101")], 100)
    assert caught.value.fault == "too_large"
    assert check_framing([("content-length", "101")], 0)


@pytest.mark.parametrize(
    ("before", "body", "more"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n65\r\n", b"x", True),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n", b"x", False),
        (b"ffffffffffffffff\r\n", b"", True),
        (b"FFFF ;a=b\r\n", b"violet umbrella", True),
        (b"1\r\nx\r\n000065\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", b"x", False),  # no chunk at all
        (b"", b"fff\r\n", False),  # a chunk that was begun before
        (b"fff", b"", False),  # not yet a whole line
    ],
)
def test_a_chunk_beyond_the_limit_is_seen_where_it_begins(before: bytes, body: bytes, more: bool) -> None:
    assert announces_more(before + body, body, 100) is more


def test_a_chunk_that_is_complete_announces_nothing() -> None:
    assert not announces_more(b"fff\r\nx\r\n", b"x", 100)
