"""From a failure of the model server to the error its caller sees (wire §4)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final

from proxy.upstream_errors import UpstreamStatusError
from proxy.wire.errors import RequestError
from supervisors.errors import UpstreamError

_BY_CODE: Final[Mapping[str, str]] = {
    "content_filter": "The model server's own filter refused the request.",
    "content_policy_violation": "The model server's own filter refused the request.",
    "context_length_exceeded": "The request is longer than the model's context.",
    "insufficient_quota": "The quota at the model server is used up.",
    "model_not_found": "The model server does not know the model.",
}
_BY_STATUS: Final[Mapping[int, str]] = {
    404: "The model server does not know the model, or something else that the request names.",
    413: "The request is too large for the model server.",
    429: "The model server takes no more requests for now.",
}


def to_caller_error(error: UpstreamError, judged: Container[str] | None = None) -> RequestError:
    """Return the error body's parts; an error of the upstream's own keeps its type, param and retry headers.

    Args:
        error: of the model server.
        judged: members of the request, where an output stage has to judge what the model server says. Nobody judges
            its errors, so they are told in the proxy's words then: the status, the code, and a `param` that names one
            of these members stay (G-06).
    """
    if not isinstance(error, UpstreamStatusError):
        return RequestError(error.status, error.code, str(error))
    message, param = str(error), error.param
    if judged is not None:
        message = _BY_CODE.get(error.code) or _BY_STATUS.get(error.status) or _usual_words(error.status)
        param = param if param is not None and re.split(r"[.\[]", param)[0] in judged else None
    return RequestError(
        error.status, error.code, message, param=param, headers=dict(error.headers), error_type=error.error_type
    )


def _usual_words(status: int) -> str:
    return f"The model server {'failed' if status >= 500 else 'refused the request'} with status {status}."


def record_unavailable() -> RequestError:
    """Return the 503 for an exchange whose record could not be stored."""
    return RequestError(503, "record_unavailable", "The decision journal takes no records; nothing was let through.")


def deadline_exceeded() -> RequestError:
    """Return the 504 for an exchange that took longer than `limits.request_timeout_s`."""
    return RequestError(504, "deadline_exceeded", "The request took longer than the proxy allows.")


def shutting_down() -> RequestError:
    """Return the 503 for what comes too late, or lasts too long, for a process that ends (O-09)."""
    return RequestError(503, "shutting_down", "The proxy is shutting down.")
