"""One call of one backend: the body, the way there, and what each failure means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from supervisors.chat.replies import error_word, parse_chat_reply, read_json, refusal_word
from supervisors.chat.vendors import Route, VendorCall, complete_with_vendor
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, GuardrailError, ReplyError
from supervisors.transport import Headers, HttpClient, HttpReply, HttpRequest, TransportError
from supervisors.types import ChatReply, ChatRequest, Endpoint

_LEVELS: Mapping[object, int] = {"json_schema": 0, "json_object": 1}
_PLAIN = 2
_FORMAT_REFUSALS = frozenset({400, 422, 500, 501})
_NOT_THE_FORMAT = frozenset(
    {"exceed_context_size_error", "context_length_exceeded", "string_above_max_length", "content_filter"}
)
"""Words of a 400 that a simpler `response_format` would not cure."""


class Transient(ChatUnavailable):
    """A failure that another attempt may cure.

    Args:
        message: scrubbed.
        status: HTTP status if one was received.
        code: machine word.
        wait_s: what the backend asked us to wait, None if it did not say.
    """

    def __init__(
        self, message: str, *, status: int | None = None, code: str | None = None, wait_s: float | None = None
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.wait_s = wait_s


@dataclass(slots=True)
class Progress:
    """One call under way, over its attempts.

    Args:
        until: loop time by which it must be over.
        max_reply_bytes: largest reply.
        attempts: HTTP requests made so far.
    """

    until: float
    max_reply_bytes: int
    attempts: int = 0

    def begin_attempt(self) -> float:
        """Count an attempt and return its seconds.

        Raises:
            ChatTimeout: none are left.
        """
        remaining_s = self.until - asyncio.get_running_loop().time()
        if remaining_s <= 0:
            raise _timeout()
        self.attempts += 1
        return remaining_s


@dataclass(slots=True)
class Formats:
    """Which forms of `response_format` a backend accepts: json_schema, json_object, plain text (LU-23).

    Args:
        floor: first form worth trying.
        accepted: forms it has accepted; a 500 to one of them has another reason.
    """

    floor: int = 0
    accepted: set[int] = field(default_factory=set[int])

    def to_try(self, wanted: Mapping[str, Any] | None) -> list[tuple[int, Mapping[str, Any] | None]]:
        """Return the forms to try in order, each with its level."""
        if wanted is None:
            return [(_PLAIN, None)]
        level = _LEVELS.get(wanted.get("type"))
        if level is None:  # a form of the backend's own has no simpler one
            return [(_PLAIN, wanted)]
        chain = (
            [(0, wanted), (1, {"type": "json_object"}), (_PLAIN, None)] if level == 0 else [(1, wanted), (_PLAIN, None)]
        )
        return [entry for entry in chain if entry[0] >= self.floor]

    def blames(self, level: int, error: ChatError) -> bool:
        """Say whether a failure may be due to the form."""
        possible = error.status in _FORMAT_REFUSALS and error.code not in _NOT_THE_FORMAT
        return possible and level < _PLAIN and level not in self.accepted


async def call_model(
    client: HttpClient, target: Endpoint, request: ChatRequest, formats: Formats, progress: Progress
) -> ChatReply:
    """Ask once, or once for each form of `response_format` until one is accepted.

    Raises:
        ChatError: `Transient` if another attempt may help.
        ReplyError: an answer came that is not the promised JSON.
    """
    forms = formats.to_try(request.response_format)
    for position, (level, form) in enumerate(forms):
        try:
            reply = await _ask_in_form(client, target, request, form, progress)
        except ChatError as error:
            last = position == len(forms) - 1
            if not last and formats.blames(level, error):
                continue
            if last and position and isinstance(error, Transient):  # it was asked often enough
                raise ChatUnavailable(str(error), status=error.status, code=error.code) from None
            raise
        if request.response_format is not None:
            formats.accepted.add(level)
            formats.floor = max(formats.floor, level) if position else formats.floor
        return reply
    raise AssertionError


async def post_json(
    client: HttpClient, url: str, body: object, headers: Mapping[str, str], progress: Progress
) -> tuple[int, object]:
    """POST a JSON body and return status and parsed reply.

    Raises:
        ChatError: no answer, redirect, 408, 429, 5xx, or another 4xx whose body is not JSON.
        ReplyError: a success whose body is not the promised JSON.
    """
    names = {name.lower() for name in headers}
    defaults = [("content-type", "application/json"), ("accept", "application/json")]
    fields = (*[pair for pair in defaults if pair[0] not in names], *headers.items())
    reply = await _post(client, url, fields, body, progress)
    if reply.status < 400:
        return reply.status, read_json(reply)
    try:
        return reply.status, read_json(reply)
    except ReplyError:
        raise _refusal(reply) from None


async def _ask_in_form(
    client: HttpClient, target: Endpoint, request: ChatRequest, form: Mapping[str, Any] | None, progress: Progress
) -> ChatReply:
    body = _to_body(target.model, request, form)
    if target.vendor != "openai":
        return await _ask_vendor(target, request, body, progress)
    path = "/chat/completions" if request.prompt is None else "/completions"
    reply = await _post(client, (target.url or "").rstrip("/") + path, _to_headers(target), body, progress)
    if reply.status >= 400:
        raise _refusal(reply)
    return parse_chat_reply(read_json(reply))


def _to_headers(target: Endpoint) -> Headers:
    """Return the headers of one request; those of the config stand in for ours, as for the callers' requests."""
    headers = [("content-type", "application/json"), ("accept", "application/json")]
    if target.api_key is not None:
        headers.append(("authorization", f"Bearer {target.api_key}"))
    fixed = {name.lower() for name, _ in target.headers}
    kept = [pair for pair in headers if pair[0] not in fixed]
    return (*kept, *target.headers, *([] if target.sign is None else [target.sign()]))


async def _ask_vendor(target: Endpoint, request: ChatRequest, body: Mapping[str, Any], progress: Progress) -> ChatReply:
    route: Route = "chat" if request.prompt is None else "completions"
    timeout_s = progress.begin_attempt()
    call = VendorCall(target.vendor, target.model, route, body, timeout_s, target.url, target.api_key, target.headers)
    try:
        return parse_chat_reply(await complete_with_vendor(call))
    except ChatUnavailable as error:
        if error.code == "vendor_package_missing":
            raise
        raise Transient(str(error), status=error.status, code=error.code) from None


def _to_body(model: str, request: ChatRequest, form: Mapping[str, Any] | None) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens}
    if request.prompt is None:
        body["messages"] = list(request.messages)
    else:
        body["prompt"] = request.prompt
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if form is not None:
        body["response_format"] = form
    if request.top_logprobs is not None and request.prompt is None:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    elif request.top_logprobs is not None:
        body["logprobs"] = request.top_logprobs
    body |= request.extra
    if "max_completion_tokens" in request.extra:
        del body["max_tokens"]  # servers refuse the two together
    return body


async def _post(client: HttpClient, url: str, headers: Headers, body: object, progress: Progress) -> HttpReply:
    timeout_s = progress.begin_attempt()
    request = HttpRequest("POST", url, headers, dump_json(body), timeout_s, progress.max_reply_bytes)
    try:
        reply = await client.send(request)
    except TransportError as error:
        raise _translate(error) from None
    if 300 <= reply.status < 400:
        msg = "the backend answered with a redirect, which is never followed"
        raise ChatUnavailable(msg, status=reply.status, code="redirect")
    if reply.status in (408, 429) or reply.status >= 500:
        msg = f"the backend answered with status {reply.status}"
        raise Transient(msg, status=reply.status, code=error_word(reply.body), wait_s=_wait_hint(reply))
    return reply


def dump_json(body: object) -> bytes:
    """Return a JSON body as the bytes that are sent: a signature of a request is made of these."""
    try:
        return orjson.dumps(body)
    except TypeError:  # lone surrogates or huge integers: valid JSON in escaped form
        return json.dumps(body).encode()


def _refusal(reply: HttpReply) -> ChatRefused:
    msg = f"the backend refused the request with status {reply.status}"
    return ChatRefused(msg, status=reply.status, code=refusal_word(reply.body))


def _wait_hint(reply: HttpReply) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = reply.header(name)
        if value is not None and value.replace(".", "", 1).isdecimal() and value.isascii():
            return float(value) * unit
    return None


def _timeout() -> ChatTimeout:
    return ChatTimeout("no complete answer within the deadline", code="timeout")


def _translate(error: TransportError) -> GuardrailError:
    message = cast("str", error.args[0])
    match error.fault:
        case "timeout":
            return _timeout()
        case "connect" | "reset":
            return Transient(message, code=error.fault)
        case "truncated" | "too_large":
            return ReplyError(message, detail=error.fault)
        case "request" | "protocol":
            return ChatUnavailable(message, code=error.fault)
