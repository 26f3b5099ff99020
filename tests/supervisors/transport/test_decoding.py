"""W-18: identity is asked for, and what comes compressed all the same is decoded within limits."""

from __future__ import annotations

import gzip
import zlib

import pytest

from supervisors.transport import HttpClient, HttpRequest, TransportError, TransportLimits
from tests.e2e.fake_upstream import Answer, FakeUpstream

TEXT = b"violet umbrella " * 1000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def get(up: FakeUpstream) -> HttpRequest:
    return HttpRequest("GET", f"{up.url}/models", (("Accept-Encoding", "br"),), timeout_s=5.0)


def packed(encoding: str, data: bytes, split: int | None = None) -> Answer:
    return Answer(body=data, headers={"content-encoding": encoding}, split=split)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZIP", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
    ],
)
@pytest.mark.parametrize("split", [None, 1])
async def test_compressed_replies_are_decoded(
    up: FakeUpstream, client: HttpClient, encoding: str, data: bytes, split: int | None
) -> None:
    data_split = None if split and len(data) > 5000 else split
    up.script(packed(encoding, data, data_split), packed(encoding, data, data_split))
    reply = await client.send(get(up))
    assert reply.body == TEXT
    async with client.stream(get(up)) as stream:
        assert b"".join([chunk async for chunk in stream]) == TEXT
    assert (stream.header("content-encoding") or "identity") == "identity"
    assert up.received[0].header("accept-encoding") == "identity"
    assert client.idle_connections == 1


async def test_headers_of_the_encoding_are_gone_after_decoding(up: FakeUpstream, client: HttpClient) -> None:
    up.script(packed("gzip", gzip.compress(TEXT, mtime=0)))
    reply = await client.send(get(up))
    assert reply.header("content-length") is None
    assert reply.header("content-encoding") is None


@pytest.mark.parametrize(
    ("encoding", "data", "fault"),
    [
        ("br", b"x", "protocol"),
        ("zstd", b"x", "protocol"),
        ("gzip, gzip", gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0), "protocol"),
        ("gzip", b"not packed at all", "protocol"),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-20], "truncated"),
        ("gzip", gzip.compress(bytes(2**22), mtime=0), "too_large"),
        ("gzip", gzip.compress(bytes(900_000), mtime=0), "too_large"),
    ],
)
async def test_what_cannot_be_decoded_within_limits_is_a_fault(
    up: FakeUpstream, encoding: str, data: bytes, fault: str
) -> None:
    up.script(packed(encoding, data))
    async with HttpClient(TransportLimits(max_reply_bytes=800_000)) as client:
        with pytest.raises(TransportError) as caught:
            await client.send(get(up))
        assert caught.value.fault == fault
        assert client.idle_connections == 0


async def test_a_stream_that_inflates_without_measure_is_cut_off(up: FakeUpstream, client: HttpClient) -> None:
    up.script(packed("gzip", gzip.compress(bytes(2**26))))
    with pytest.raises(TransportError) as caught:
        async with client.stream(get(up)) as stream:
            await anext(stream)
    assert caught.value.fault == "too_large"


async def test_a_stream_in_an_encoding_nobody_asked_for_is_refused_at_its_head(
    up: FakeUpstream, client: HttpClient
) -> None:
    up.script(packed("br", b"x"))
    with pytest.raises(TransportError) as caught:
        await client.stream(get(up)).open()
    assert caught.value.fault == "protocol"
    assert (await client.send(get(up))).status == 200  # its slot was given back
