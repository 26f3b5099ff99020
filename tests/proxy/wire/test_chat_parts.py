"""Numbered parts of a stream are judged as they come and each by its number (G-06, S-01)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.chat import CHAT
from proxy.wire.sse import SseParser
from tests.proxy.test_readings import MODES, chat, relay
from tests.proxy.wire.test_completeness import QUICK


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


def unnumbered(*texts: str | list[str]) -> list[Any]:
    """Return deltas of the content: strings, and lists of parts without numbers."""
    return [
        {"delta": {"content": text if isinstance(text, str) else [{"type": "text", "text": one} for one in text]}}
        for text in texts
    ]


APART: Sequence[tuple[str | list[str], ...]] = (
    (["umbrella"], ["stand"]),
    (["umbrella"], "stand"),
    ("sun", ["umbrella"], "stand"),
    ("sun", ["umbrella", "stand"]),
    (["so ", "sun", "umbrella"], ["stand"]),
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("texts", APART)
def test_a_part_without_a_number_is_redacted_as_in_a_whole_reply(  # G-06, S-01
    texts: Sequence[str | list[str]], mode: str
) -> None:
    frames = chat(*unnumbered(*texts))
    assert b"umbrella" not in relay(CHAT, frames, stream={"mode": mode, "window_chars": 1})
    sent = relay(CHAT, frames, on_unsafe="redact", stream={"mode": mode, "window_chars": 1})
    assert b"[REDACTED:" in sent
    assert b"umbrella" not in sent
    assert b"stand" in sent


@pytest.mark.parametrize("mode", MODES)
def test_a_numbered_part_before_plain_text_is_judged_alone(mode: str) -> None:  # G-06
    frames = chat(*parts((0, "umbrella"), (None, "stand")))
    assert b'"umbrella"' not in relay(CHAT, frames, on_unsafe="redact", stream={"mode": mode, "window_chars": 1})


def _texts(parts: Sequence[Any]) -> list[str]:
    return [str(part["text"]) for part in parts]


def told(deltas: Sequence[Any]) -> set[str]:
    """Return what clients read of deltas: joined, joined without the strings or the parts, and part by part."""
    contents = [delta.get("content") or "" for delta in deltas]
    strings = ["" if isinstance(one, list) else str(one) for one in contents]
    shown: list[list[str]] = [[] if isinstance(one, str) else _texts(one) for one in contents]
    come = [text for one, own in zip(strings, shown, strict=True) for text in ([one] if one else own)]
    parts = [text for own in shown for text in own]
    return {"".join(come), "".join(strings), "".join(parts), *parts}


TEXT = st.sampled_from(["umbrella", "umb", "rella", "k", "so ", " "])


@settings(max_examples=150, deadline=None, phases=QUICK)
@given(
    texts=st.lists(st.one_of(TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=8),
    mode=st.sampled_from(MODES),
    action=st.sampled_from(["block", "redact"]),
)
def test_strings_and_parts_in_any_order_are_read_joined_and_one_by_one(
    texts: Sequence[str | list[str]], mode: str, action: str
) -> None:  # G-06, S-01
    frames = chat(*unnumbered(*texts))
    sent = relay(CHAT, frames, on_unsafe=action, stream={"mode": mode, "window_chars": 1})
    said = told([choice["delta"] for choice in unnumbered(*texts)])
    found = [orjson.loads(frame.data) for frame in SseParser().feed(sent) if frame.data not in (b"", b"[DONE]")]
    left = told([frame["choices"][0]["delta"] for frame in found])
    assert left.isdisjoint([one for one in said if re.search(r"\bumbrella\b", one)])
    if not any("umbrella" in one.replace(" ", "") for one in said):  # rules read spread letters, too
        assert sent == b"".join(frames)
