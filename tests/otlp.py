"""A receiver of OTLP over HTTP on loopback that decodes what it gets."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


@dataclass(slots=True)
class Receiver:
    """What has arrived, decoded."""

    url: str = ""
    status: int = 200
    spans: list[Any] = field(default_factory=list[Any])
    metrics: list[Any] = field(default_factory=list[Any])
    resources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    raw: list[bytes] = field(default_factory=list[bytes])

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Take one export."""
        self.headers.append(headers)
        self.raw.append(body)
        if self.status == 200 and path == "/v1/traces":
            service: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
            for part in service.ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(values(part.resource.attributes))
                for scope in part.scope_spans:
                    self.spans += scope.spans
        elif self.status == 200 and path == "/v1/metrics":
            service = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
            for part in service.ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in part.scope_metrics:
                    self.metrics += scope.metrics
        return self.status


def values(attributes: Any) -> dict[str, Any]:
    """Return the attributes of a span as plain values."""
    found: dict[str, Any] = {}
    for pair in attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


@contextmanager
def receive() -> Generator[Receiver]:
    """Run a receiver while the body runs; skips where the libraries are absent."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        pytest.skip("OpenTelemetry is not installed: pip install 'guardrail-proxy[otel]'")
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
