"""Read what a model server answered: completions of both shapes, log-probabilities, usage, error words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

import orjson

from supervisors.errors import ReplyError
from supervisors.signals import BLOCKING_REASONS, is_filtered
from supervisors.transport import HttpReply
from supervisors.types import ChatReply, TokenAlternatives, Tokens

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_IDENTIFIER = re.compile(r"(sk|pk|org|proj|key|req|user)[-_]", re.IGNORECASE)

Json = Mapping[str, Any]


def read_json(reply: HttpReply) -> object:
    """Parse the body of a reply that promises JSON.

    Raises:
        ReplyError: empty, another content type, not JSON, or an object has a key twice: who says both safe and unsafe
            has said neither.
    """
    if not reply.body.strip():
        msg = "the reply is empty; JSON was expected"
        raise ReplyError(msg, detail="empty")
    if "json" not in (reply.header("content-type") or "").lower():
        msg = "the reply does not have a JSON content type"
        raise ReplyError(msg, detail="content_type")
    try:
        value: object = orjson.loads(reply.body)
        json.loads(reply.body, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError):
        msg = "the reply is not valid JSON"
        raise ReplyError(msg) from None  # the decoder's message quotes the reply
    return value


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        msg = "the reply has an object with the same key twice"
        raise ReplyError(msg, detail="duplicate_key")


def parse_chat_reply(body: object) -> ChatReply:
    """Turn a parsed completion, chat or legacy, into a `ChatReply`.

    Raises:
        ReplyError: no choice, or members of the wrong type.
    """
    whole = _to_object(body, "the reply")
    choices = whole.get("choices")
    if not isinstance(choices, list) or not choices:
        msg = "the reply has no choices"
        raise ReplyError(msg, detail="no_choices")
    choice = _to_object(cast("list[object]", choices)[0], "the first choice")
    message = choice.get("message")
    content: object
    if message is None and "text" in choice:
        content, refusal = choice["text"], None
    else:
        fields = _to_object(message, "the message")
        content, refusal = fields.get("content"), fields.get("refusal")
    usage = whole.get("usage")
    return ChatReply(
        text=_to_text(content),
        finish_reason=_to_finish(choice),
        refusal=_to_str(refusal) or None,
        model=_to_str(whole.get("model")),
        tokens=_to_tokens(usage),
        cost=_to_cost(usage),
        logprobs=_to_logprobs(choice.get("logprobs")),
    )


def error_word(body: bytes | object) -> str | None:
    """Return the machine word of an error body: ``error.code``, or ``error.type`` where the code is a number.

    Args:
        body: raw or parsed; anything else than the known shapes has no word.
    """
    try:
        parsed: object = orjson.loads(body) if isinstance(body, bytes) else body
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict):
        return None
    error = cast("Json", parsed).get("error")
    if not isinstance(error, dict):
        return None
    fields = cast("Json", error)
    for word in (fields.get("code"), fields.get("type")):
        if isinstance(word, str) and _WORD.fullmatch(word) and not _IDENTIFIER.match(word):
            return word
    return None


def refusal_word(body: bytes) -> str | None:
    """Return the machine word of a refused request; ``content_filter`` whichever way a provider's filter says it."""
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return "content_filter" if is_filtered(parsed) else error_word(parsed)


def _to_finish(choice: Json) -> str | None:
    """Return the finish reason; ``content_filter`` for every word that says so, and for a model that declined."""
    reason = _to_str(choice.get("finish_reason"))
    words = (reason, _to_str(choice.get("native_finish_reason")))
    stopped = any(word is not None and word.casefold() in (*BLOCKING_REASONS, "refusal") for word in words)
    return "content_filter" if stopped else reason


def _to_object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        msg = f"{name} is not a JSON object"
        raise ReplyError(msg, detail="bad_shape")
    return cast("Json", value)


def _to_text(content: object) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):  # some servers answer in parts
        parts = [_to_object(part, "a content part") for part in cast("list[object]", content)]
        return "".join([part["text"] for part in parts if isinstance(part.get("text"), str)])
    msg = "the content is neither text nor null"
    raise ReplyError(msg, detail="bad_shape")


def _to_str(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _to_tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    counts = cast("Json", usage)
    sent, received = counts.get("prompt_tokens"), counts.get("completion_tokens", 0)
    return Tokens(sent, received) if _is_count(sent) and _is_count(received) else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _to_cost(usage: object) -> float | None:
    """Return dollars where the server itself reports them (``usage.cost``)."""
    cost: object = cast("Json", usage).get("cost") if isinstance(usage, dict) else None
    return float(cost) if _is_number(cost) and cost >= 0 else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _to_logprobs(logprobs: object) -> tuple[TokenAlternatives, ...] | None:
    """Read both shapes; None where there are none or they are unreadable (a score is then absent, never wrong)."""
    if not isinstance(logprobs, dict):
        return None
    fields = cast("Json", logprobs)
    if isinstance(fields.get("content"), list):
        return _positions([_read_position(entry) for entry in fields["content"]])
    tokens, chosen, top = fields.get("tokens"), fields.get("token_logprobs"), fields.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(chosen, list):
        return None
    names, values = cast("list[object]", tokens), cast("list[object]", chosen)
    tops = cast("list[object]", top) if isinstance(top, list) else [None] * len(names)
    if not len(names) == len(values) == len(tops):
        return None
    return _positions([_read_legacy(*entry) for entry in zip(names, values, tops, strict=True)])


def _positions(read: Sequence[TokenAlternatives | None]) -> tuple[TokenAlternatives, ...] | None:
    found = tuple([position for position in read if position is not None])
    return found if found and len(found) == len(read) else None


def _read_position(entry: object) -> TokenAlternatives | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("Json", entry)
    top = fields.get("top_logprobs")
    alternatives = cast("list[object]", top) if isinstance(top, list) else []
    found = [cast("Json", each) for each in alternatives if isinstance(each, dict)]
    pairs = [(each.get("token"), each.get("logprob")) for each in found]
    return _to_position(fields.get("token"), fields.get("logprob"), pairs)


def _read_legacy(token: object, logprob: object, top: object) -> TokenAlternatives | None:
    pairs = list(cast("Json", top).items()) if isinstance(top, dict) else []
    return _to_position(token, logprob, pairs)


def _to_position(token: object, logprob: object, pairs: Sequence[tuple[object, object]]) -> TokenAlternatives | None:
    if not isinstance(token, str):
        return None
    found = [(name, float(value)) for name, value in pairs if isinstance(name, str) and _is_number(value)]
    if token not in [name for name, _ in found] and _is_number(logprob):
        found.insert(0, (token, float(logprob)))
    return TokenAlternatives(token, tuple(found)) if found else None
