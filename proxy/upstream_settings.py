"""Where a model server is and how it is treated."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.upstream_headers import check_request_header
from supervisors.errors import ConfigError
from supervisors.transport import Headers, check_base_url


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Where a model server is and how it is treated. Checked when it is made.

    Args:
        base_url: up to and including ``/v1``; may be None for a vendor other than ``openai``.
        api_key: secret value, or None.
        vendor: ``openai`` for every server that speaks OpenAI's protocol; ``anthropic`` serves ``/messages`` natively;
            everything else goes through litellm.
        connect_s: longest time to connect.
        idle_s: longest silence of the upstream, in bytes: a stream that keeps sending is never cut.
        timeout_s: longest time of a whole reply, and until a stream begins.
        retries: further attempts after a connect error. A server that is loading is asked until the deadline.
        forward_headers: request headers of the caller that are passed on; None gives the defaults of W-17.
        extra_headers: fixed headers sent with every request.
        max_connections: open connections.
        max_reply_bytes: largest whole reply.
        proxy: ``http://[user:password@]host:port``, or None.
        allow_link_local: permit link-local and metadata addresses (X-03).
        lacks: routes below the base URL that the server does not have; a request for one is a 404 without a call.
        propagate_trace: W3C trace context is passed on (O-22).
        secrets: what stands in `extra_headers` and must not show in an error.

    Raises:
        ConfigError: a value that cannot be right; `path` is the name of the setting.
    """

    base_url: str | None
    api_key: str | None = field(default=None, repr=False)
    vendor: str = "openai"
    connect_s: float = 5.0
    idle_s: float = 120.0
    timeout_s: float = 600.0
    retries: int = 2
    forward_headers: tuple[str, ...] | None = None
    extra_headers: Headers = field(default=(), repr=False)
    max_connections: int = 256
    max_reply_bytes: int = 64 * 2**20
    proxy: str | None = field(default=None, repr=False)
    allow_link_local: bool = False
    lacks: tuple[str, ...] = ()
    propagate_trace: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.base_url is None and self.vendor == "openai":
            msg = "an upstream that speaks OpenAI's protocol needs a base URL, as in http://127.0.0.1:8080/v1"
            raise ConfigError(msg, "base_url")
        if self.base_url is not None:
            try:
                check_base_url(self.base_url, allow_link_local=self.allow_link_local)
            except ValueError as error:
                raise ConfigError(str(error), "base_url") from None
        for name in self.forward_headers or ():
            check_request_header(name, "forward_headers")
        for name, value in self.extra_headers:
            check_request_header(name, "extra_headers", value)
