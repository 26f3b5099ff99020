"""Places of `/v1/messages`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from proxy.matrix.cells import ALL, PLAIN, TEXT, TURNS, Body, Place
from proxy.matrix.chat import chat_reply, message_of
from proxy.matrix.texts import ENCODED, HALVES, SPOKEN_ROWS
from proxy.wire.messages import MESSAGES
from supervisors.types import Kind, Role

Row = tuple[Role, Kind, str, Body]
"""Role, kind, shape, and the block."""

_FILLER: Final[Sequence[Body]] = (
    {"role": "user", "content": PLAIN},
    {"role": "assistant", "content": [{"type": "text", "text": PLAIN}]},
    {"role": "user", "content": PLAIN},
)
_TRANSLATABLE: Final = frozenset({"reasoning_content", "arguments", "called name"})


def _result(content: object) -> Body:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}


def _document(**source: object) -> Body:
    return {"type": "document", "source": source}


_USER: Final[Sequence[Row]] = (
    ("tool", "tool_result", "tool result", _result(TEXT)),
    ("tool", "tool_result", "tool result blocks", _result([{"type": "text", "text": TEXT}])),
    ("user", "text", "document", _document(type="text", media_type="text/plain", data=TEXT)),
    ("user", "text", "text file", _document(type="base64", media_type="text/csv", data=ENCODED)),
    ("user", "media", "PDF", _document(type="base64", media_type="application/pdf", data=ENCODED)),
    (
        "user",
        "name",
        "document title",
        {**_document(type="text", media_type="text/plain", data=PLAIN), "title": TEXT},
    ),
    (
        "user",
        "media",
        "image",
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
    ),
    (
        "user",
        "url",
        "link of an image",
        {"type": "image", "source": {"type": "url", "url": f"https://x.example/{TEXT}"}},
    ),
    (
        "tool",
        "tool_result",
        "search result",
        {"type": "search_result", "source": "x", "title": "t", "content": [{"type": "text", "text": TEXT}]},
    ),
    ("user", "other", "unknown block", {"type": "novelty", "deep": [{"a": TEXT}]}),
)
_SPOKEN: Final[Sequence[Row]] = (
    ("assistant", "text", "text", {"type": "text", "text": TEXT}),
    ("assistant", "reasoning", "thinking", {"type": "thinking", "thinking": TEXT, "signature": "c2lnbmVk"}),
    ("assistant", "opaque", "redacted thinking", {"type": "redacted_thinking", "data": ENCODED}),
    ("assistant", "tool_args", "tool input", {"type": "tool_use", "id": "toolu_1", "name": "x", "input": {"a": TEXT}}),
    (
        "assistant",
        "tool_args",
        "tool input key",
        {"type": "tool_use", "id": "toolu_1", "name": "x", "input": {TEXT: 1}},
    ),
    ("assistant", "name", "tool name", {"type": "tool_use", "id": "toolu_1", "name": TEXT, "input": {}}),
    (
        "assistant",
        "tool_args",
        "server tool",
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": TEXT}},
    ),
    (
        "assistant",
        "tool_result",
        "pages found",
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": "https://x.example", "title": TEXT}],
        },
    ),
    (
        "assistant",
        "annotation",
        "citation",
        {
            "type": "text",
            "text": PLAIN,
            "citations": [{"type": "char_location", "cited_text": TEXT, "document_index": 0}],
        },
    ),
    ("assistant", "other", "unknown block", {"type": "novelty", "deep": [{"a": TEXT}]}),
)
_FIELDS: Final[Sequence[Row]] = (
    ("system", "text", "system string", {"system": TEXT}),
    ("system", "text", "system blocks", {"system": [{"type": "text", "text": TEXT}]}),
    ("user", "tool_def", "tool description", {"tools": [{"name": "x", "description": TEXT, "input_schema": {}}]}),
    ("user", "tool_def", "tool name", {"tools": [{"name": TEXT, "input_schema": {"type": "object"}}]}),
    ("user", "name", "tool_choice", {"tool_choice": {"type": "tool", "name": TEXT}}),
    ("user", "other", "unknown string", {"novelty": TEXT}),
)


def asked(*messages: Body) -> Body:
    """Return the body of a conversation; a harmless one when no message is given."""
    return {"max_tokens": 64, "messages": list(messages or _FILLER)}


def _conversation(turn: str, message: Body) -> Body:
    at = {"first": 0, "middle": 2, "last": len(_FILLER)}[turn]
    return asked(*_FILLER[:at], message, *_FILLER[at:])


def _contents() -> Iterator[tuple[Role, Kind, str, Body]]:
    speakers: Sequence[Role] = ("user", "assistant")
    for role in speakers:
        yield role, "text", "string", {"role": role, "content": TEXT}
        halves = [{"type": "text", "text": half} for half in HALVES]
        yield role, "text", "two blocks", {"role": role, "content": halves}
    for role, kind, shape, block in _USER:
        yield role, kind, shape, {"role": "user", "content": [{"type": "text", "text": PLAIN}, block]}
    for role, kind, shape, block in _SPOKEN:
        yield role, kind, shape, {"role": "assistant", "content": [block]}


def message_inputs() -> Iterator[Place]:
    """Yield every place of a request."""
    for role, kind, shape, message in _contents():
        for turn in TURNS:
            yield Place(MESSAGES.route, "input", role, turn, kind, shape, _conversation(turn, message))
    for role, kind, shape, fields in _FIELDS:
        yield Place(MESSAGES.route, "input", role, "-", kind, shape, {**asked(), **fields})


def message_reply(*blocks: Body) -> Body:
    """Return a whole message; a harmless one when no block is given."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": list(blocks) or [{"type": "text", "text": PLAIN}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


def message_outputs() -> Iterator[Place]:
    """Yield every place of a reply of a server that speaks Anthropic Messages itself."""
    plain = {"type": "text", "text": PLAIN}
    for _, kind, shape, block in _SPOKEN:
        for order, reply in (("first block", message_reply(block, plain)), ("last block", message_reply(plain, block))):
            name = f"{shape}, {order}"
            yield Place(MESSAGES.route, "output", "assistant", "last", kind, name, asked(), reply, 0, ALL)


def translated_outputs() -> Iterator[Place]:
    """Yield every place of a reply that a chat model gives and the proxy puts into Anthropic's form."""
    reply = chat_reply(message_of({"content": TEXT}))
    place = Place(MESSAGES.route, "output", "assistant", "last", "text", "translated string", asked(), reply, 0, ALL)
    yield place
    for kind, shape, members in SPOKEN_ROWS:
        if shape in _TRANSLATABLE:
            yield replace(place, kind=kind, shape=f"translated {shape}", reply=chat_reply(message_of(members)))
