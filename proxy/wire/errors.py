"""Error bodies of the OpenAI routes: one table from case to status, type and code (wire §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from supervisors.errors import GuardrailError

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


_LONGEST_PARAM = 200
"""Characters of a path that are shown: its keys are the caller's."""


class RequestError(GuardrailError):
    """The proxy answers this request itself, with an error body.

    Args:
        status: HTTP status.
        code: machine word.
        message: prose for the caller: what was wrong, what would be right.
        param: JSON path of the field that was wrong.
        headers: further response headers.
        guardrail: the `guardrail` member of a block.
        error_type: OpenAI `type`; by default the one of the status.
    """

    def __init__(  # noqa: PLR0913 - the members of the error body
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        guardrail: Mapping[str, Any] | None = None,
        error_type: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param if param is None else param[:_LONGEST_PARAM]
        self.headers = headers or {}
        self.guardrail = guardrail
        self.error_type = error_type or type_of(status)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """A finished error answer: status, JSON body, headers."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def type_of(status: int) -> str:
    """Return the OpenAI `type` of a status made by the proxy."""
    return _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def error_body(error: RequestError) -> dict[str, Any]:
    """Return the JSON form; `guardrail` only where the error carries one."""
    body: dict[str, Any] = {
        "message": error.message,
        "type": error.error_type,
        "param": error.param,
        "code": error.code,
    }
    if error.guardrail is not None:
        body["guardrail"] = dict(error.guardrail)
    return {"error": body}


def to_reply(error: RequestError) -> ErrorReply:
    """Return the whole answer; 4xx made by the proxy say that a retry is pointless (408, 409, 429 excepted)."""
    headers = dict(error.headers)
    if 400 <= error.status < 500 and error.status not in (408, 409, 429):
        headers.setdefault("x-should-retry", "false")
    if error.status in (429, 503):
        headers.setdefault("retry-after", "30" if error.code == "overloaded" else "1")
    return ErrorReply(error.status, orjson.dumps(error_body(error)), headers)


def openai_reply(error: RequestError, request_id: str) -> ErrorReply:
    """Return the error answer of the OpenAI routes; the request id stands in a header only."""
    return to_reply(error)


def invalid(message: str, param: str | None = None) -> RequestError:
    """Return the 400 for a field of the wrong type or value."""
    return RequestError(400, "invalid_value", message, param=param)


def unsupported(param: str) -> RequestError:
    """Return the 400 for a field that a caller may never send."""
    message = f"The field {param[:_LONGEST_PARAM]!r} may not be sent by a caller."
    return RequestError(400, "unsupported_parameter", message, param=param)


def internal() -> RequestError:
    """Return the 500 for a bug; it says nothing about it, the log does."""
    return RequestError(500, "internal_error", "The proxy failed on this request; the failure was logged.")
