"""OpenTelemetry: spans and the GenAI metrics of every exchange, made from its record in a thread of their own.

Nothing here is on the way of a request: the record is put into a queue when it is handed to the journal. The libraries
are imported when tracing is configured, and only then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from proxy.call import Call
from proxy.config import Config, read_variable
from proxy.counting import OTHER
from proxy.declared import TracingConfig
from proxy.record import Record
from proxy.spans import Seen, Span, count_tokens, make_spans
from proxy.store.rules import Labels
from proxy.traceparent import Propagation, read_trace
from supervisors.errors import MissingError

log = logging.getLogger(__name__)

_ENDPOINT: Final = "http://127.0.0.1:4318"
_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES: Final = frozenset({"1", "true", "span_only", "span_and_event"})
_QUEUE: Final = 4096
"""Exchanges that wait; traces are no record, so that more are dropped, and said."""
_BATCH: Final = 128
_PAUSE_S: Final = 1.0
_TIMEOUT_S: Final = 10.0
_CLOSE_S: Final = 2.0
"""For the last traces, and again for the last metrics: a receiver that is away must not hold up the end."""
_METRICS_S: Final = 15.0
_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_EACH: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS: Final = tuple([4**power for power in range(14)])
_HISTOGRAMS: Final[Mapping[str, tuple[str, tuple[float, ...]]]] = {
    "gen_ai.client.operation.duration": ("s", _SECONDS),
    "gen_ai.client.token.usage": ("{token}", _TOKENS),
    "gen_ai.server.request.duration": ("s", _SECONDS),
    "gen_ai.server.time_to_first_token": ("s", _FIRST),
    "gen_ai.server.time_per_output_token": ("s", _EACH),
}
"""Unit and buckets. Source: semantic conventions for generative AI metrics."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Where spans go.

    Args:
        endpoint: base URL of an OTLP/HTTP receiver; ``/v1/traces`` and ``/v1/metrics`` are below it.
        headers: sent with every export; they may hold a key.
        sample: share of the traces that begin here which is exported.
        capture: message content may stand in spans, as far as the record has it.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sample: float = 1.0
    capture: bool = False


class Tracer:
    """The exporting side of a process. Open it with `open_tracer`.

    Args:
        settings: where to.
        boot: id of the process start, `service.instance.id` of the resource.

    Raises:
        MissingError: the libraries are not installed.
    """

    def __init__(self, settings: TraceSettings, boot: str) -> None:
        self.settings = settings
        self._queue: deque[Seen] = deque()
        self._dropped = 0
        self._failing = False
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._otel = _Library.load(settings, boot)
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)
        self._thread.start()

    def put(self, seen: Seen) -> None:
        """Queue an exchange; one too many is dropped."""
        if len(self._queue) >= _QUEUE:
            self._dropped += 1
            return
        self._queue.append(seen)
        if len(self._queue) >= _BATCH:
            self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_PAUSE_S)
            self._wake.clear()
            self._export()
        self._export()

    def _export(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
            spans: list[Any] = []
            for seen in batch:
                self._otel.measure(seen)
                if seen.trace.sampled:
                    spans += [self._otel.to_span(seen, one) for one in make_spans(seen, capture=self.settings.capture)]
            if spans:
                self._note(sent=self._otel.send(spans), number=len(batch))

    def _note(self, *, sent: bool, number: int) -> None:
        if not sent:
            self._dropped += number
            if not self._failing:
                log.warning("traces cannot be exported", extra={"exchanges": number})
        elif self._dropped:
            log.warning("traces are exported again", extra={"dropped_exchanges": self._dropped})
            self._dropped = 0
        self._failing = not sent

    async def aclose(self) -> None:
        """Export what is queued, within a few seconds, and end."""
        self._stop.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join, _CLOSE_S)
        await asyncio.to_thread(self._otel.close)
        if self._queue or self._dropped:
            log.warning("traces were dropped", extra={"exchanges": len(self._queue) + self._dropped})


def open_tracer(config: TracingConfig, boot: str) -> Tracer | None:
    """Return the tracer of a process, None where the config exports nothing.

    Raises:
        MissingError: the libraries are not installed.
    """
    if config.export == "off":
        return None
    endpoint = config.endpoint or read_variable("OTEL_EXPORTER_OTLP_ENDPOINT") or _ENDPOINT
    headers = {name: secret.value for name, secret in config.headers.items()}
    capture = (read_variable(_CAPTURE) or "").lower() in _YES
    return Tracer(TraceSettings(endpoint, headers, config.sample, capture), boot)


class Traces:
    """What one config version adds: which names are declared, and whose models they are.

    Args:
        tracer: exports.
        labels: declared names.
        providers: by upstream.
    """

    def __init__(self, tracer: Tracer, labels: Labels, providers: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._labels = labels
        self._providers = providers

    def add(self, record: Record, call: Call | None = None) -> None:
        """Take an exchange that has ended.

        Args:
            record: of it.
            call: of it, None for what was refused before it was understood.
        """
        trace = read_trace(call.headers if call is not None else (), record.id, self._tracer.settings.sample)
        model = record.model if record.model in self._labels.models else OTHER
        provider = self._providers.get(record.upstream or "", OTHER)
        mode = call.plan.output.stream.mode if call is not None and call.stream else None
        self._tracer.put(Seen(record, trace, model, provider, mode))


@dataclass(frozen=True, slots=True)
class _Library:
    """The parts of OpenTelemetry that are used."""

    trace: Any
    sdk: Any
    resource: Any
    scope: Any
    exporter: Any
    meters: Any
    histograms: Mapping[str, Any]

    @classmethod
    def load(cls, settings: TraceSettings, boot: str) -> _Library:
        try:
            trace: Any = import_module("opentelemetry.trace")
            sdk: Any = import_module("opentelemetry.sdk.trace")
            spans: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            points: Any = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
            metrics: Any = import_module("opentelemetry.sdk.metrics")
            reading: Any = import_module("opentelemetry.sdk.metrics.export")
            resources: Any = import_module("opentelemetry.sdk.resources")
            scopes: Any = import_module("opentelemetry.sdk.util.instrumentation")
        except ImportError as error:
            msg = "tracing needs the OpenTelemetry SDK: pip install 'guardrail-proxy[otel]'"
            raise MissingError(msg) from error
        # Every attempt at a receiver that is away is a warning of its own; that they failed is an error, and stays.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
        own = {"service.name": "guardrail-proxy", "service.version": version("guardrail-proxy")}
        resource: Any = resources.Resource({**own, "service.instance.id": boot})
        base, headers = settings.endpoint.rstrip("/"), dict(settings.headers)
        sending: Any = points.OTLPMetricExporter(endpoint=f"{base}/v1/metrics", headers=headers, timeout=_TIMEOUT_S)
        reader: Any = reading.PeriodicExportingMetricReader(sending, _METRICS_S * 1000, _TIMEOUT_S * 1000)
        meters: Any = metrics.MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter: Any = meters.get_meter("guardrail-proxy", own["service.version"])
        histograms = {
            name: meter.create_histogram(name, unit=unit, explicit_bucket_boundaries_advisory=list(buckets))
            for name, (unit, buckets) in _HISTOGRAMS.items()
        }
        exporter: Any = spans.OTLPSpanExporter(endpoint=f"{base}/v1/traces", headers=headers, timeout=_TIMEOUT_S)
        scope: Any = scopes.InstrumentationScope("guardrail-proxy", own["service.version"])
        return cls(trace, sdk, resource, scope, exporter, meters, histograms)

    def to_span(self, seen: Seen, span: Span) -> Any:
        """Return the library's form of a span."""
        flags = self.trace.TraceFlags(self.trace.TraceFlags.SAMPLED)
        status, code = self.trace.Status, self.trace.StatusCode
        return self.sdk.ReadableSpan(
            name=span.name,
            context=self.trace.SpanContext(seen.trace.trace_id, span.id, is_remote=False, trace_flags=flags),
            parent=None
            if span.parent is None
            else self.trace.SpanContext(
                seen.trace.trace_id, span.parent, is_remote=span.kind == "server", trace_flags=flags
            ),
            resource=self.resource,
            attributes=dict(span.attributes),
            kind=self.trace.SpanKind[span.kind.upper()],
            status=status(code.UNSET) if span.error is None else status(code.ERROR, span.error),
            start_time=round(span.start_s * 1e9),
            end_time=round(span.end_s * 1e9),
            instrumentation_scope=self.scope,
        )

    def send(self, spans: Sequence[Any]) -> bool:
        """Export spans; false when that failed."""
        return export_spans(self.exporter, spans)

    def measure(self, seen: Seen) -> None:
        """Add an exchange to the metrics; label values come from the config only (O-17)."""
        record, call = seen.record, seen.record.upstream_call
        about = {
            "gen_ai.operation.name": seen.operation,
            "gen_ai.provider.name": seen.provider,
            "gen_ai.request.model": seen.model,
        }
        failed = {**about, "error.type": call.error_kind} if call.error_kind is not None else about
        self.histograms["gen_ai.server.request.duration"].record(record.seconds, about)
        if not call.called or call.seconds is None:
            return
        self.histograms["gen_ai.client.operation.duration"].record(call.seconds, failed)
        tokens = count_tokens(record.usage)
        for direction, number in tokens.items():
            kind = {**about, "gen_ai.token.type": direction}
            self.histograms["gen_ai.client.token.usage"].record(number, kind)
        if call.first_token_s is None:
            return
        self.histograms["gen_ai.server.time_to_first_token"].record(call.first_token_s, about)
        if tokens.get("output", 0) > 1:
            each = max(0.0, call.seconds - call.first_token_s) / (tokens["output"] - 1)
            self.histograms["gen_ai.server.time_per_output_token"].record(each, about)

    def close(self) -> None:
        """Send the last metrics and end."""
        self.meters.shutdown(timeout_millis=_CLOSE_S * 1000)
        self.exporter.shutdown()


def export_spans(exporter: Any, spans: Sequence[Any]) -> bool:
    """Export spans; false when that failed."""
    try:
        return bool(exporter.export(spans).name == "SUCCESS")
    except OSError as error:  # some versions of the library let an error of the connection out
        log.debug("an export failed", extra={"reason": type(error).__name__})
        return False


def providers_of(config: Config) -> Mapping[str, str]:
    """Return whose models each upstream serves, as the GenAI conventions name it: the vendor, or ``local``."""
    return {name: getattr(upstream, "vendor", "local") for name, upstream in config.upstreams.items()}


def propagation_of(config: Config) -> Propagation:
    """Return which upstreams are told a span of ours; without tracing they are told the caller's as it is."""
    if config.tracing.export == "off":
        return Propagation()
    told = [name for name, upstream in config.upstreams.items() if getattr(upstream, "propagate_trace", False)]
    return Propagation(frozenset(told), config.tracing.sample)
