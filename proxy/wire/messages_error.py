"""Errors of `/v1/messages` in Anthropic's form: whole answers and the event after the first byte (wire §4, W-06)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from proxy.wire.errors import ErrorReply, RequestError, to_reply
from proxy.wire.sse import event_frame

_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_KNOWN: Final = frozenset({*_TYPES.values(), "invalid_request_error", "request_too_large", "api_error"})
_SHARED: Final = frozenset({"invalid_request_error", "authentication_error", "permission_error", "rate_limit_error"})
"""Words of both vocabularies: they may be the proxy's own and are looked up by status."""


def anthropic_type(error: RequestError) -> str:
    """Return Anthropic's `type` of an error: the upstream's own word if it is one of theirs, else by status."""
    if error.error_type in _KNOWN - _SHARED:
        return error.error_type
    return _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")


def anthropic_reply(error: RequestError, request_id: str) -> ErrorReply:
    """Return the whole answer; the request id stands in the body too."""
    body = {**_body(error), "request_id": request_id}
    return ErrorReply(error.status, orjson.dumps(body), to_reply(error).headers)


def error_frame(error: RequestError) -> bytes:
    """Return the event of an error after the first byte; nothing follows it (W-06)."""
    return event_frame("error", _body(error))


def _body(error: RequestError) -> dict[str, Any]:
    inner = {"type": anthropic_type(error), "message": error.message, "details": {"error_code": error.code}}
    return {"type": "error", "error": inner}
