"""The one HTTP client of the hot path and of the judges: HTTP/1.1, keep-alive, no redirects, no environment."""

from supervisors.transport.addresses import check_base_url
from supervisors.transport.client import HttpClient, HttpStream
from supervisors.transport.messages import (
    Headers,
    HttpReply,
    HttpRequest,
    TransportError,
    TransportFault,
    TransportLimits,
    find_header,
)

__all__ = [
    "Headers",
    "HttpClient",
    "HttpReply",
    "HttpRequest",
    "HttpStream",
    "TransportError",
    "TransportFault",
    "TransportLimits",
    "check_base_url",
    "find_header",
]
