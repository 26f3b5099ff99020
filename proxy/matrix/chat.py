"""Places of `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, `/v1/moderations` and the check. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from proxy.matrix.cells import ALL, PLAIN, TEXT, TURNS, WHOLE, Body, Place
from proxy.matrix.texts import CONTENTS, ENCODED, FIELD_ROWS, HALVES, HISTORY_ROWS, ROLES, SPOKEN_ROWS, USER_ROWS, Row
from proxy.misrouted import CHECK_ROUTE
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.moderations import MODERATIONS
from supervisors.types import Kind, Role

_FILLER: Final[Sequence[Body]] = (
    {"role": "user", "content": PLAIN},
    {"role": "assistant", "content": PLAIN},
    {"role": "user", "content": PLAIN},
)
_TOKENS: Final = [15339, 1917]


def asked(*messages: Body) -> Body:
    """Return the body of a conversation; a harmless one when no message is given."""
    return {"messages": list(messages or _FILLER)}


def place_turn(turn: str, message: Body) -> list[Body]:
    """Return a conversation with a message at its beginning, in its middle or at its end."""
    at = {"first": 0, "middle": 2, "last": len(_FILLER)}[turn]
    return [*_FILLER[:at], message, *_FILLER[at:]]


def _messages() -> Iterator[tuple[Role, Kind, str, Body]]:
    for role in ROLES:
        kind: Kind = "tool_result" if role in ("tool", "function") else "text"
        for shape, content in CONTENTS:
            yield role, kind, shape, {"content": content}
    rows: Mapping[Role, Sequence[Row]] = {"user": USER_ROWS, "assistant": HISTORY_ROWS}
    for role, found in rows.items():
        for kind, shape, members in found:
            yield role, kind, shape, members


def chat_inputs() -> Iterator[Place]:
    """Yield every place of a chat request: each role and turn, and the fields beside the messages."""
    for role, kind, shape, members in _messages():
        for turn in TURNS:
            message = {"role": role, "tool_call_id": "call_1", **members}
            yield Place(CHAT.route, "input", role, turn, kind, shape, asked(*place_turn(turn, message)))
    for role in ROLES:
        kind = "tool_result" if role in ("tool", "function") else "text"
        halves = [{"role": role, "content": half} for half in HALVES]
        body = asked(*_FILLER[:2], *halves)
        yield Place(CHAT.route, "input", role, "last", kind, "two messages", body)
    for kind, shape, fields in FIELD_ROWS:
        yield Place(CHAT.route, "input", "user", "-", kind, shape, {**asked(), **fields})


def message_of(members: Body) -> Body:
    """Return an assistant's message of a reply."""
    return {"role": "assistant", "content": None, **members}


def chat_reply(*messages: Body) -> Body:
    """Return a whole chat completion; a harmless one when no message is given."""
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index, message in enumerate(messages or [message_of({"content": PLAIN})])
    ]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "scripted"}
    return {**head, "choices": choices, "usage": usage}


def spoken() -> Iterator[tuple[Kind, str, Body]]:
    """Yield what a reply's message can hold."""
    yield "text", "string", {"content": TEXT}
    yield from SPOKEN_ROWS
    yield "media", "sound", {"content": None, "audio": {"id": "audio_1", "data": ENCODED}}
    yield "other", "unknown tree", {"content": PLAIN, "novelty": {"deep": [TEXT]}}


def chat_outputs() -> Iterator[Place]:
    """Yield every place of a chat reply, in the first and in the second of two choices."""
    for kind, shape, members in spoken():
        for choice in (0, 1):
            messages = [message_of({"content": PLAIN}), message_of(members)]
            reply = chat_reply(*(messages if choice else reversed(messages)))
            body = {**asked(), "n": 2}
            yield Place(CHAT.route, "output", "assistant", "last", kind, shape, body, reply, choice, ALL)
    stray = chat_reply()
    stray["novelty"] = TEXT
    yield Place(CHAT.route, "output", "assistant", "last", "other", "beside the choices", asked(), stray, 0, ALL)


def completion_inputs() -> Iterator[Place]:
    """Yield every place of a legacy completion's request."""
    rows: Sequence[tuple[Kind, str, str, Body]] = (
        ("text", "first", "string", {"prompt": TEXT}),
        ("text", "first", "list", {"prompt": [TEXT, PLAIN]}),
        ("text", "last", "list", {"prompt": [PLAIN, TEXT]}),
        ("text", "-", "split list", {"prompt": list(HALVES)}),
        ("media", "first", "tokens", {"prompt": _TOKENS}),
        ("media", "last", "token lists", {"prompt": [_TOKENS, _TOKENS]}),
        ("suffix", "-", "suffix", {"prompt": PLAIN, "suffix": TEXT}),
        ("other", "-", "unknown string", {"prompt": PLAIN, "novelty": TEXT}),
        ("tool_def", "-", "response_format", {"prompt": PLAIN, "response_format": {"type": "grammar", "value": TEXT}}),
        ("media", "-", "prompt_embeds", {"prompt": PLAIN, "prompt_embeds": ENCODED}),
    )
    for kind, turn, shape, body in rows:
        yield Place(COMPLETIONS.route, "input", "user", turn, kind, shape, body)


def completion_reply(*texts: str, **members: object) -> Body:
    """Return a whole legacy completion."""
    choices = [
        {"index": index, "text": text, "logprobs": None, "finish_reason": "stop", **members}
        for index, text in enumerate(texts or [PLAIN])
    ]
    return {**chat_reply(), "object": "text_completion", "choices": choices}


def completion_outputs() -> Iterator[Place]:
    """Yield every place of a legacy completion's reply."""
    body: Body = {"prompt": PLAIN, "n": 2}
    for choice in (0, 1):
        reply = completion_reply(*((PLAIN, TEXT) if choice else (TEXT, PLAIN)))
        yield Place(COMPLETIONS.route, "output", "assistant", "last", "text", "string", body, reply, choice, ALL)
    odd: Sequence[tuple[Kind, str]] = (("reasoning", "reasoning_content"), ("other", "novelty"))
    for kind, name in odd:
        reply = completion_reply(PLAIN, **{name: TEXT})
        yield Place(COMPLETIONS.route, "output", "assistant", "last", kind, name, body, reply, 0, ALL)


def embedding_inputs() -> Iterator[Place]:
    """Yield every place of an embedding request."""
    rows: Sequence[tuple[Kind, str, str, object]] = (
        ("text", "first", "string", TEXT),
        ("text", "first", "list", [TEXT, PLAIN]),
        ("text", "last", "list", [PLAIN, TEXT]),
        ("media", "first", "tokens", _TOKENS),
        ("media", "last", "token lists", [_TOKENS, _TOKENS]),
    )
    for kind, turn, shape, value in rows:
        yield Place(EMBEDDINGS.route, "input", "user", turn, kind, shape, {"input": value}, deliveries=WHOLE)
    body = {"input": PLAIN, "novelty": TEXT}
    yield Place(EMBEDDINGS.route, "input", "user", "-", "other", "unknown string", body, deliveries=WHOLE)


def moderation_inputs() -> Iterator[Place]:
    """Yield every place of a moderation request."""
    parts = [{"type": "text", "text": PLAIN}, {"type": "text", "text": TEXT}]
    image = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}}]
    rows: Sequence[tuple[Kind, str, str, object]] = (
        ("text", "first", "string", TEXT),
        ("text", "last", "list", [PLAIN, TEXT]),
        ("text", "last", "parts", parts),
        ("media", "last", "image", image),
    )
    for kind, turn, shape, value in rows:
        yield Place(MODERATIONS.route, "input", "user", turn, kind, shape, {"input": value}, deliveries=WHOLE)


def check_places() -> Iterator[Place]:
    """Yield the places of a check: those of chat, judged without a model."""
    for role, kind, shape, members in _messages():
        body = {"stage": "input", **asked(*place_turn("last", {"role": role, **members}))}
        yield Place(CHECK_ROUTE, "input", role, "last", kind, shape, body, deliveries=WHOLE)
    for kind, shape, members in spoken():
        for choice in (0, 1):
            messages = [message_of({"content": PLAIN}), message_of(members)]
            reply = messages if choice else messages[::-1]
            body = {"stage": "output", **asked(), "reply": reply}
            yield Place(CHECK_ROUTE, "output", "assistant", "last", kind, shape, body, None, choice, WHOLE)
