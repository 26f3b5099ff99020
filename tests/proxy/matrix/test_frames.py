"""The streams of the matrix say what its whole replies say: what they grow is read back by the proxy's own readers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from proxy.matrix import chat, messages, responses
from proxy.matrix.cells import TEXT, Body, Place
from proxy.matrix.frames import chat_frames, completion_frames, cut, message_frames, response_frames
from proxy.matrix.texts import ENCODED, ESCAPED
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES
from proxy.wire.sse import SseParser

FRAMERS = {CHAT: chat_frames, COMPLETIONS: completion_frames, RESPONSES: response_frames, MESSAGES: message_frames}


def grown(adapter: Adapter, frames: Iterable[bytes], body: Body) -> dict[str, str]:
    """Return all text that the proxy reads out of a stream, by choice and field."""
    reader = adapter.open_frames(adapter.new_head("x", 0, "m"), body)
    found: dict[str, str] = {}
    for frame in SseParser().feed(b"".join(frames)):
        for chunk in reader.read(frame):
            for piece in chunk.pieces:
                if not piece.repeats:
                    name = f"{chunk.choice}{piece.field}"
                    found[name] = found.get(name, "") + piece.text
    return found


def test_a_text_is_cut_into_pieces() -> None:
    assert cut("abcde", 2) == ["ab", "cd", "e"]
    assert cut("abc", None) == ["abc"]
    assert cut("", 2) == [""]


@pytest.mark.parametrize("adapter", FRAMERS)
@pytest.mark.parametrize("size", [None, 4])
def test_a_stream_grows_the_text_of_its_place(adapter: Adapter, size: int | None) -> None:
    places: dict[str, Iterable[Place]] = {
        CHAT.route: chat.chat_outputs(),
        COMPLETIONS.route: chat.completion_outputs(),
        RESPONSES.route: responses.response_outputs(),
        MESSAGES.route: messages.message_outputs(),
    }
    for place in places[adapter.route]:
        assert place.reply is not None
        texts = grown(adapter, FRAMERS[adapter](place.reply, size), place.body).values()
        said = ENCODED if place.kind in ("media", "opaque") else ESCAPED if "escaped" in place.shape else TEXT
        assert any(said in text for text in texts), place
