"""What a failure of a model server becomes for the caller (wire §4): status, word, and a scrubbed sentence."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from math import ceil
from typing import Any, cast

import orjson

from proxy.scrub import scrub
from proxy.upstream_headers import to_caller
from supervisors.chat.replies import error_word, refusal_word
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ReplyError, UpstreamError
from supervisors.transport import Headers, HttpReply, TransportError

_PARAM = re.compile(r"[A-Za-z_][\w.\[\]-]{0,199}")
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OUR_CREDENTIALS = frozenset({401, 403, 407})


class UpstreamStatusError(UpstreamError):
    """The model server answered with an error of its own, rebuilt.

    Args:
        message: scrubbed prose.
        status: the upstream's.
        code: its machine word; its `type` where the code was a number; ``upstream_error`` where it had none.
        error_type: its `type`, or the usual one of the status.
        param: its `param` if that is a path.
        headers: ``retry-after``, ``x-should-retry`` and rate-limit headers for the caller.
    """

    def __init__(
        self, message: str, *, status: int, code: str, error_type: str, param: str | None, headers: Headers
    ) -> None:
        super().__init__(message, status=status, code=code, kind="status")
        self.answered = status
        self.error_type = error_type
        self.param = param
        self.headers = headers


class RetryableError(UpstreamError):
    """A failure after which the same request may be sent again.

    Args:
        cause: the error to give up with.
        loading: the server is still loading its model.
    """

    def __init__(self, cause: UpstreamError, *, loading: bool) -> None:
        super().__init__(str(cause), status=cause.status, code=cause.code, kind=cause.kind)
        self.cause = cause
        self.loading = loading
        self.answered, self.reason = cause.answered, cause.reason


def timeout_error() -> UpstreamError:
    """Return the 504."""
    msg = "The model server did not answer in time."
    return UpstreamError(msg, status=504, code="upstream_timeout", kind="timeout")


def circuit_open(wait_s: float) -> UpstreamError:
    """Return the 502 for a model server that failed repeatedly and is not called for a while (G-47)."""
    error = UpstreamStatusError(
        "The model server failed repeatedly and is not called for a while.",
        status=502,
        code="upstream_error",
        error_type=_usual_type(502),
        param=None,
        headers=(("retry-after", str(max(1, ceil(wait_s)))),),
    )
    error.kind = "circuit_open"
    error.attempts = 0
    return error


def protocol_error(message: str, answered: int | None = None) -> UpstreamError:
    """Return a 502 for a reply that breaks the protocol, and had that status if its head came."""
    error = UpstreamError(_sentence(message), status=502, code="upstream_error", kind="protocol")
    return _answered(error, answered)


def from_transport(error: TransportError) -> UpstreamError:
    """Translate an error of the HTTP client; a connect error is `RetryableError`."""
    return _answered(_translated(error), error.status)


def _translated(error: TransportError) -> UpstreamError:
    match error.fault:
        case "timeout":
            return timeout_error()
        case "connect":
            msg = "The model server could not be reached."
            failed = UpstreamError(msg, status=502, code="upstream_error", kind="connect")
            failed.reason = _reason_of(error.__context__)
            return RetryableError(failed, loading=False)
        case "reset" | "truncated":
            msg = "The model server closed the connection before its reply was complete."
            broken = UpstreamError(msg, status=502, code="upstream_error", kind="connect")
            broken.reason = error.fault
            return broken
        case "request":
            return protocol_error("the request to the model server could not be made")
        case "protocol" | "too_large":
            return protocol_error("the model server's reply could not be read")


def _reason_of(raised: BaseException | None) -> str:
    """Return why no connection was made, in one word."""
    match raised:
        case socket.gaierror():
            return "dns"
        case ssl.SSLError():
            return "tls"
        case ConnectionRefusedError():
            return "refused"
        case _:
            return "connect"


def from_reply(reply: HttpReply, secrets: tuple[str, ...]) -> UpstreamError:
    """Translate a reply whose status is not 200; a server that is loading is `RetryableError`."""
    if reply.status in _OUR_CREDENTIALS:
        msg = "The proxy's credentials for the model server were not accepted."
        return _answered(UpstreamError(msg, status=502, code="upstream_error", kind="status"), reply.status)
    if not 400 <= reply.status < 600:
        msg = f"the model server answered with status {reply.status}, which is not followed"
        return protocol_error(msg, reply.status)
    error = _error_of(reply.body)
    refusal = UpstreamStatusError(
        _message_of(error, reply.status, secrets),
        status=reply.status,
        code=_word_of(reply.body, error) or "upstream_error",
        error_type=_type_of(error, reply.status),
        param=_param_of(error),
        headers=tuple([pair for pair in to_caller(reply.headers) if pair[0] != "content-type"]),
    )
    if reply.status == 503 and b"oading" in reply.body[:2048]:
        return RetryableError(refusal, loading=True)
    return refusal


def _answered(error: UpstreamError, status: int | None) -> UpstreamError:
    error.answered = status
    return error


def from_chat(error: ChatError | ReplyError) -> UpstreamError:
    """Translate an error of a vendor that was called through litellm."""
    if isinstance(error, ReplyError):
        return protocol_error("the model server's reply could not be read")
    if isinstance(error, ChatTimeout):
        return timeout_error()
    status = error.status
    if status is None or status < 400 or status in _OUR_CREDENTIALS:
        msg = "The model server could not be used."
        failed = UpstreamError(msg, status=502, code="upstream_error", kind="status" if status else "connect")
        return _answered(failed, status)
    verb = "refused the request" if isinstance(error, ChatRefused) else "failed"
    return UpstreamStatusError(
        f"The model server {verb} with status {status}.",
        status=status,
        code=error.code or "upstream_error",
        error_type=_usual_type(status),
        param=None,
        headers=(),
    )


def _word_of(body: bytes, error: Mapping[str, Any]) -> str | None:
    """Return the machine word; ``content_filter`` whichever way a provider's filter says it."""
    return "content_filter" if refusal_word(body) == "content_filter" else error_word({"error": error})


def _error_of(body: bytes) -> Mapping[str, Any]:
    """Return the error object of a body in one of the usual shapes; empty if it has none."""
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    whole = cast("dict[str, Any]", parsed)
    error: object = whole.get("error", whole)
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, dict):
        return {}
    fields = cast("dict[str, Any]", error)
    return fields if "message" in fields else fields | {"message": fields.get("detail")}


def _message_of(error: Mapping[str, Any], status: int, secrets: tuple[str, ...]) -> str:
    message: object = error.get("message")
    scrubbed = scrub(message, secrets) if isinstance(message, str) else None
    return scrubbed or f"The model server answered with status {status}."


def _type_of(error: Mapping[str, Any], status: int) -> str:
    found: object = error.get("type")
    return found if isinstance(found, str) and _TYPE.fullmatch(found) else _usual_type(status)


def _usual_type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def _param_of(error: Mapping[str, Any]) -> str | None:
    param: object = error.get("param")
    return param if isinstance(param, str) and _PARAM.fullmatch(param) else None


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + "."
