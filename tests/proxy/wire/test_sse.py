"""The parser of event streams gives the same frames however the network cuts the bytes (operations R-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.wire.sse import Frame, FrameTooLarge, SseParser, data_frame

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


def parse(parts: Sequence[bytes], limit: int = 8 * 2**20) -> list[Frame]:
    parser = SseParser(limit)
    return [frame for part in parts for frame in parser.feed(part)] + parser.close()


def events(parts: Sequence[bytes]) -> list[tuple[bytes, str]]:
    return [(frame.data, frame.event) for frame in parse(parts)]


def reference(stream: bytes) -> list[tuple[bytes, str]]:
    """Interpret a whole stream as the HTML standard says, but keep what its end cut off."""
    lines = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found: list[tuple[bytes, str]] = []
    block: list[bytes] = []
    for line in [*lines, b""]:
        if line:
            block.append(line)
            continue
        if block:
            fields = [entry.partition(b":") for entry in block]
            values = [(name, value.removeprefix(b" ")) for name, _, value in fields]
            data = b"\n".join([value for name, value in values if name == b"data"])
            names = [value.decode("utf-8", "replace") for name, value in values if name == b"event"]
            found.append((data, names[-1] if names else ""))
        block = []
    return found


STREAMS = {
    "plain": b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n',
    "crlf": b'data: {"a":1}\r\n\r\ndata: {"b":2}\r\n\r\n',
    "cr": b'data: {"a":1}\r\rdata: {"b":2}\r\r',
    "mixed": b'data: {"a":1}\r\n\ndata: 2\n\r\ndata: 3\r\n\rdata: 4\n\n',
    "no space": b"data:1\n\ndata:  2\n\n",
    "many lines": b"data: {\ndata: }\ndata:\n\n",
    "comment": b": hello\n\ndata: 1\n\n:\n\n: two\ndata: 2\n\n",
    "names": b"event: one\ndata: 1\n\nevent: a\nevent: b\nid: 7\nretry: 10\ndata: 2\n\nevent: only\n\n",
    "bom": b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n",
    "bom later": b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n",
    "half a bom": b"\xef\xbbdata: 1\n\n",
    "open end": b"data: 1\n\ndata: 2",
    "open end with a line": b"data: 1\n\ndata: 2\n",
    "open end with cr": b"data: 1\n\ndata: 2\r",
    "open end with crlf": b"data: 1\r\n\r\ndata: 2\r\n",
    "blank lines": b"\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n\n",
    "crlf blanks": b"\r\n\r\n\r\ndata: 1\r\n\r\n\r\n\r\n",
    "field without colon": b"data\n\ndata: 1\n\n",
    "unknown field": b"other: x\ndata: 1\n\n",
    "empty": b"",
    "utf-8": "data: é\U0001f600\n\n".encode(),
    "cr in data": b'data: "a\\r"\n\n',
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_split_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    expected = [event for event in reference(stream) if event != (b"", "")]
    whole = [event for event in events([stream]) if event != (b"", "")]
    assert whole == expected
    for at in range(len(stream) + 1):
        assert [event for event in events([stream[:at], stream[at:]]) if event != (b"", "")] == expected, at
    assert [event for event in events([bytes([byte]) for byte in stream]) if event != (b"", "")] == expected


LINES = st.sampled_from(
    [b"data: 1", b"data:", b"data", b"event: e", b": c", b"id: 1", b"", b"", b"x", b"\xef\xbb\xbf", b"data: a:b"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=400, deadline=None, phases=QUICK)
@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=14), cuts=st.lists(st.integers(1, 9), max_size=30))
def test_random_streams_in_random_parts(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join([line + end for line, end in lines])
    parts: list[bytes] = []
    position = 0
    for cut in [*cuts, len(stream)]:
        parts.append(stream[position : position + cut])
        position += cut
    expected = [event for event in reference(stream) if event != (b"", "")]
    assert [event for event in events(parts) if event != (b"", "")] == expected


def test_a_frame_of_a_megabyte_in_small_parts() -> None:
    frame = data_frame({"text": "x" * 1_000_000})
    parts = [frame[i : i + 4096] for i in range(0, len(frame), 4096)]
    assert [found.raw for found in parse(parts)] == [frame]


@pytest.mark.parametrize("end", [b"", b"\r", b"\n"])
def test_a_frame_beyond_the_limit_is_refused(end: bytes) -> None:
    with pytest.raises(FrameTooLarge):
        parse([b"data: ", *[b"x" * 50 + end for _ in range(3)]] if not end else [b"data: x" * 20 + end], limit=100)


def test_the_raw_bytes_of_simple_frames_are_kept() -> None:  # S-11
    stream = STREAMS["plain"]
    assert b"".join([frame.raw for frame in parse([stream])]) == stream
