"""From a failure of the model server to the error its caller sees (wire §4)."""

from __future__ import annotations

from proxy.upstream_errors import UpstreamStatusError
from proxy.wire.errors import RequestError
from supervisors.errors import UpstreamError


def to_caller_error(error: UpstreamError) -> RequestError:
    """Return the error body's parts; an error of the upstream's own keeps its type, param and retry headers."""
    if isinstance(error, UpstreamStatusError):
        return RequestError(
            error.status,
            error.code,
            str(error),
            param=error.param,
            headers=dict(error.headers),
            error_type=error.error_type,
        )
    return RequestError(error.status, error.code, str(error))


def record_unavailable() -> RequestError:
    """Return the 503 for an exchange whose record could not be stored."""
    return RequestError(503, "record_unavailable", "The decision journal takes no records; nothing was let through.")
