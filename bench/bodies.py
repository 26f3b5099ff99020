"""What is sent, and how the fake upstream is asked to behave. The text is made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

EXPECT: Final = "violet umbrella over"
"""Words of every whole reply of the fake upstream."""

BEHAVIOURS: Final[Mapping[str, str]] = {
    "fast": "",
    "wait50": "/w50000",
    "stream": "/n200/p10000",
    "flood": "/n1000/p1000",
    "first": "/w20000/n3/p2000",
    "judge": "/j1/w20000",
    "judge-fast": "/j1",
    "judge-slow": "/j1/w30000",
    "judge-last": "/j1/w60000",
}
"""Name of a model in the bench to the path options of `native/upstream.c`."""

STREAM_CHUNKS: Final = 200
FLOOD_CHUNKS: Final = 1000
FIRST_CHUNKS: Final = 3


def whole_body(model: str, size_bytes: int = 811) -> bytes:
    """Return a chat request of this size."""
    return _body(model, size_bytes, stream=False)


def stream_body(model: str, size_bytes: int = 811) -> bytes:
    """Return a chat request of this size that asks for a stream."""
    return _body(model, size_bytes, stream=True)


def _body(model: str, size_bytes: int, *, stream: bool) -> bytes:
    text = "violet umbrella "
    fields: dict[str, object] = {
        "model": model,
        "messages": [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": ""}],
        "temperature": 0.7,
        "max_tokens": 256,
    }
    if stream:
        fields["stream"] = True
    empty = json.dumps(fields, separators=(",", ":"))
    content = (text * (size_bytes // len(text) + 1))[: max(len(text), size_bytes - len(empty))]
    return empty.replace('"content":""', f'"content":"{content}"').encode()
