"""Texts in parts, however deep, are of one kind; what stands between them is not (G-01, G-03)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.chat import CHAT
from proxy.wire.messages import MESSAGES
from proxy.wire.nested import walk_parts
from proxy.wire.responses import RESPONSES
from supervisors.types import Kind
from supervisors.views import join_segments

PARTS: list[Any] = [{"type": "text", "text": "see "}, {"type": "note", "text": [{"type": "text", "text": "all"}]}]


def test_texts_and_other_members_are_told_apart() -> None:
    found = list(walk_parts([{"index": 3, "type": "thinking", "thinking": PARTS}, "so", ["it", {"id": "x"}]], "text"))
    assert [(leaf.at, leaf.kind, leaf.value) for leaf in found] == [
        ((0, "index"), None, 3),
        ((0, "thinking", 0, "text"), "reasoning", "see "),
        ((0, "thinking", 1, "type"), None, "note"),
        ((0, "thinking", 1, "text", 0, "text"), "reasoning", "all"),
        ((1,), "text", "so"),
        ((2, 0), "text", "it"),
        ((2, 1, "id"), None, "x"),
    ]
    assert found[1].path == ("3", "thinking", "0~", "text")
    assert [leaf.numbered for leaf in found] == [True] * 4 + [False, False, True]


def kinds(segments: Any) -> list[tuple[str, Kind, str]]:
    return [(one.path, one.kind, one.text) for one in segments[0]]


def test_whole_replies_read_parts_of_parts_as_one_text() -> None:  # M-14
    message = {"content": [{"type": "thinking", "thinking": PARTS}], "reasoning_details": PARTS[:1]}
    reply: dict[str, Any] = {"choices": [{"index": 0, "message": message}]}
    at = "/choices/0/message"
    assert kinds(CHAT.reply_segments(reply, 1, {})) == [
        (f"{at}/content/0/thinking/0/text", "reasoning", "see "),
        (f"{at}/content/0/thinking/1/type", "other", "note"),
        (f"{at}/content/0/thinking/1/text/0/text", "reasoning", "all"),
        (f"{at}/reasoning_details/0/text", "reasoning", "see "),
    ]
    block: dict[str, Any] = {"content": [{"type": "thinking", "thinking": PARTS[:1]}]}
    assert kinds(MESSAGES.reply_segments(block, 1, {})) == [("/content/0/thinking/0/text", "reasoning", "see ")]
    item = {"type": "message", "content": [{"type": "output_text", "text": PARTS[:1]}]}
    assert kinds(RESPONSES.reply_segments({"output": [item]}, 1, {})) == [
        ("/output/0/content/0/text/0/text", "text", "see ")
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"parts": [{"text": "see "}, {"text": "all"}]},
        [{"type": "markdown", "markdown": "see "}, {"type": "text", "text": {"value": "all"}}],
        {"blocks": ["see ", {"items": ["all"]}]},
    ],
)
def test_parts_under_any_usual_name_are_running_text(value: Any) -> None:
    found = [leaf for leaf in walk_parts(value, "text") if leaf.kind is not None]
    assert [(leaf.kind, leaf.value) for leaf in found] == [("text", "see "), ("text", "all")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"prediction": {"type": "content", "content": PARTS[:1] * 2}}, "prediction"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": [{"text": PARTS[:1] * 2}]}]}, "tool_result"),
        ({"messages": [{"role": "user", "content": [{"type": "poem", "poem": "see "}] * 2}]}, "text"),
        ({"messages": [{"role": "assistant", "thinking_blocks": [{"thinking": "see "}] * 2}]}, "reasoning"),
    ],
)
def test_requests_read_parts_of_every_running_text_as_one(body: Any, kind: Kind) -> None:  # G-03
    segments = CHAT.request_segments({"messages": [{"role": "user", "content": "Hello."}], **body})
    assert "see see " in [view.text for view in join_segments([one for one in segments if one.text != "Hello."])]
    assert [one.kind for one in segments if one.text == "see "] == [kind] * 2


def test_what_stands_where_a_message_may_is_one_text_with_it() -> None:  # G-03
    choice = {"index": 0, "delta": {"content": "see "}, "message": {"content": "a"}, "text": "ll"}
    (segments,) = CHAT.reply_segments({"choices": [choice]}, 1, {}).values()
    assert [one.kind for one in segments] == ["text"] * 3
    assert "see all" in [view.text for view in join_segments(segments)]
