"""Numbered parts of a stream are judged as they come and each by its number (G-06, S-01)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.chat import CHAT
from tests.proxy.test_readings import MODES, chat, relay


def parts(*texts: tuple[int | None, str], key: str = "content") -> list[Any]:
    """Return deltas with one part each; without a number the text stands alone."""
    return [
        {"delta": {key: text if number is None else [{"type": "text", "index": number, "text": text}]}}
        for number, text in texts
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "texts",
    [
        [(0, "my "), (1, "umb"), (2, "rella")],
        [(0, "my umb"), (1, "never"), (0, "rella")],
        [(0, "my umb"), (None, "never"), (0, "rella")],
        [(0, "my umb"), (1, "x"), (0, "rel"), (1, "y"), (0, "la")],
        [(0, "two"), (1, " "), (0, "umbrella")],
        [(0, "umbrella"), (1, "stand")],
        [(None, "my umb"), (0, "rella")],
    ],
)
def test_a_word_is_found_as_parts_come_and_by_number(texts: list[tuple[int | None, str]], mode: str) -> None:
    for key in ("content", "reasoning_details") if all(n is not None for n, _ in texts) else ("content",):
        sent = relay(CHAT, chat(*parts(*texts, key=key)), stream={"mode": mode, "window_chars": 1})
        assert b"rella" not in sent
        assert b'"la"' not in sent


def test_parts_that_come_in_turns_leave_as_they_came() -> None:
    frames = chat(*parts((0, "all "), (1, "is "), (0, "well "), (1, "now "), (None, "and "), (0, "on")))
    assert relay(CHAT, frames) == b"".join(frames)
    assert relay(CHAT, frames, on_unsafe="redact", stream={"window_chars": 1}) == b"".join(frames)


def test_a_redaction_reaches_the_text_of_parts() -> None:  # G-35
    frames = chat(*parts((0, "my umb"), (0, "rella "), (1, "is blue")))
    sent = relay(CHAT, frames, on_unsafe="redact")
    assert b"[REDACTED:" in sent
    assert b"umb" not in sent
    assert b"is blue" in sent
