"""The Prometheus side of the proxy: every family of operations §5, with label values from the config only (O-17).

Counters marked J are increased by `count` alone, from the record, when the journal's writer has it on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from proxy.agreement import kappa, pairwise
from proxy.counting import BUCKETS, OTHER, Counter, Family, Histogram, JournalCounters, Key, Sample
from proxy.record import Phase, Record
from proxy.store.protocol import Backlog
from proxy.store.rules import Labels
from supervisors.errors import StoreError

BreakerState = Literal["closed", "half_open", "open"]

_BREAKER: Mapping[BreakerState, int] = {"closed": 0, "half_open": 1, "open": 2}
_BOOT = "# boot "
"""Comment line with the id of the process start: `verify` needs it, and a label it must not be."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Name, label names and help of one family, and where its values are."""

    name: str
    labels: tuple[str, ...]
    help: str
    source: str


_COUNTERS = (
    _Family("guardrail_exchanges", ("kind", "model", "outcome"), "Exchanges in the journal.", "exchanges"),
    _Family(
        "guardrail_verdicts",
        ("supervisor", "stage", "mode", "label", "cause"),
        "Verdicts, members of composites included; cause is none unless the label is unknown.",
        "verdicts",
    ),
    _Family(
        "guardrail_decisions",
        ("policy", "stage", "mode", "action", "reason"),
        "Decisions; a block for content has reason unsafe, one for want of a verdict unknown.",
        "decisions",
    ),
    _Family("guardrail_judge_parse_failures", ("supervisor",), "Replies that could not be read.", "parse_failures"),
    _Family("guardrail_judge_repairs", ("supervisor",), "Replies that needed a repair request.", "repairs"),
    _Family("guardrail_vote_outcomes", ("panel", "outcome"), "How votes ended.", "votes"),
    _Family("guardrail_cache", ("supervisor", "result"), "Look-ups in the verdict cache.", "cache"),
    _Family("guardrail_shadow_dropped", ("supervisor",), "Shadow jobs dropped: queue full.", "shadow_dropped"),
    _Family("guardrail_coherence", ("model", "state"), "Results of the coherence probe.", "coherence"),
    _Family(
        "guardrail_tokens",
        ("supervisor", "direction"),
        "Tokens as reported; the exchange itself under supervisor upstream.",
        "tokens",
    ),
    _Family("guardrail_unguarded_requests", ("route",), "Requests on routes declared unguarded.", "unguarded"),
    _Family("guardrail_late_spans", ("supervisor",), "Spans that began in released text; must stay 0.", "late_spans"),
    _Family("proxy_client_cancelled", ("phase",), "Callers that left early.", "cancelled"),
    _Family("proxy_upstream_errors", ("upstream", "kind"), "Failed calls of model servers.", "upstream_errors"),
)
_HISTOGRAMS = (
    _Family("guardrail_supervisor_seconds", ("supervisor", "stage"), "Time of one supervisor.", "supervisor_seconds"),
    _Family("guardrail_stage_seconds", ("stage", "mode"), "Time of one stage.", "stage_seconds"),
    _Family("guardrail_overhead_seconds", ("route", "stream"), "Proxy time without upstream wait.", "overhead"),
    _Family("guardrail_stream_holdback_seconds", ("mode",), "Longest hold of a stream.", "holdback"),
    _Family("proxy_upstream_seconds", ("upstream", "model"), "Time of an upstream call.", "upstream_seconds"),
    _Family(
        "proxy_upstream_first_token_seconds",
        ("upstream", "model"),
        "Time to the upstream's first token.",
        "first_token_seconds",
    ),
)


class Metrics:
    """All counters, gauges and histograms of one process, in a registry of its own.

    Args:
        version: config version, 64 hex digits.
        labels: the names it declares.
    """

    def __init__(self, version: str, labels: Labels) -> None:
        # Keeps apart the journal's writer, the event loop and a scrape: a scrape sees each record in all or no series.
        self._lock = threading.Lock()
        self._counters = JournalCounters()
        self._requests = Counter()
        self._reloads = Counter()
        self._restarts = Counter()
        self._in_flight: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._breakers: dict[Key, float] = {}
        self._journal: Backlog | None = None
        self._version = version
        self._routes: frozenset[str] = frozenset()
        self._supervisors: frozenset[str] = frozenset()
        # An alarm on a counter that does not exist yet would miss its first event.
        for result in ("applied", "rejected"):
            self._reloads.add((result,), 0)
        for phase in get_args(Phase):
            self._counters.cancelled.add((phase,), 0)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Collected(self))
        self.declare(version, labels)

    def declare(self, version: str, labels: Labels, unguarded: Iterable[str] = ()) -> None:
        """Make a config version the current one; records of earlier versions keep the names of theirs.

        Args:
            version: of the config.
            labels: the names it declares.
            unguarded: routes that it passes on unjudged.
        """
        with self._lock:
            self._version = version
            self._routes, self._supervisors = labels.routes, labels.supervisors
            self._counters.labels[version] = labels
            for name in (*labels.supervisors, OTHER):
                self._counters.late_spans.add((name,), 0)
            for route in unguarded:
                self._counters.unguarded.add((route,), 0)

    def know(self, version: str, labels: Labels) -> None:
        """Count records of a config version of an earlier start under the names of theirs."""
        with self._lock:
            self._counters.labels.setdefault(version, labels)

    @property
    def version(self) -> str:
        """Return the config version in force."""
        return self._version

    def watch(self, journal: Backlog) -> None:
        """Show this journal's boot, backlog and losses."""
        self._journal = journal

    def count(self, record: Record) -> None:
        """Count one record in every family that comes from records. Called by the journal's writer, nowhere else."""
        with self._lock:
            self._counters.count(record)

    def count_request(self, route: str, code: int) -> None:
        """Count one HTTP request with the status its caller saw, unauthenticated ones included."""
        with self._lock:
            self._requests.add((route if route in self._routes else OTHER, str(code)))

    def count_reload(self, *, applied: bool) -> None:
        """Count one attempt to load a changed config."""
        with self._lock:
            self._reloads.add(("applied" if applied else "rejected",))

    def count_restart(self, upstream: str, number: int = 1) -> None:
        """Count further starts of a local model that had died; none shows the series."""
        with self._lock:
            self._restarts.add((upstream,), number)

    def count_cache(self, supervisor: str, result: Literal["miss", "expired"]) -> None:
        """Count a look-up in the verdict cache that found nothing usable; hits are counted from the record."""
        with self._lock:
            self._counters.cache.add((supervisor if supervisor in self._supervisors else OTHER, result))

    def forget_states(self) -> None:
        """Forget the gauges below before they are set again: after a reload some of their names are gone."""
        for values in (self._in_flight, self._queued, self._breakers):
            values.clear()

    def set_in_flight(self, limiter: str, number: int) -> None:
        """Show how many requests hold a place in a limiter (a configured name)."""
        self._in_flight[(limiter,)] = number

    def set_queue_depth(self, limiter: str, number: int) -> None:
        """Show how many requests wait for a place in a limiter (a configured name)."""
        self._queued[(limiter,)] = number

    def set_breaker(self, dependency: str, state: BreakerState) -> None:
        """Show the state of a circuit breaker (a configured name)."""
        self._breakers[(dependency,)] = _BREAKER[state]

    def render(self) -> bytes:
        """Return the exposition text. It takes milliseconds: call it in a thread."""
        boot = f"{_BOOT}{self._journal.boot}\n" if self._journal is not None else ""
        return boot.encode() + generate_latest(self.registry)

    def families(self) -> list[Family]:
        """Return everything from one consistent cut, as plain values."""
        return [
            Family(
                metric.name,
                metric.type,
                metric.documentation,
                [Sample(one.name, tuple(one.labels.items()), one.value) for one in metric.samples],
            )
            for metric in self.collect()
        ]

    def collect(self) -> Iterator[Metric]:
        """Yield all families from one consistent cut."""
        counters = self._counters
        with self._lock:
            records = counters.records
            totals = {family: dict(_counter(counters, family).values) for family in _COUNTERS}
            times = {
                family: {key: tuple(cells) for key, cells in _histogram(counters, family).values.items()}
                for family in _HISTOGRAMS
            }
            ballots = {name: agreement.ballots() for name, agreement in counters.agreements.items()}
            requests, reloads = dict(self._requests.values), dict(self._reloads.values)
            restarts = dict(self._restarts.values)
        for family, values in totals.items():
            yield _as_counter(family.name, family.help, family.labels, values)
        for family, cells in times.items():
            yield _as_histogram(family, cells)
        yield _as_agreement(ballots)
        yield _as_counter("proxy_requests", "Requests by the status their caller saw.", ("route", "code"), requests)
        yield _as_counter("config_reload", "Attempts to load a changed config.", ("result",), reloads)
        restarts_help = "Further starts of a local model that had died."
        yield _as_counter("guardrail_local_restarts", restarts_help, ("upstream",), restarts)
        yield from self._states(records)

    def _states(self, records: int) -> Iterator[Metric]:
        journal = self._journal
        lost, backlog = (journal.lost, journal.backlog) if journal is not None else (0, 0)
        failing = journal is not None and journal.failure is not None
        accepted = records if journal is None else journal.accepted
        yield _as_counter("guardrail_records", "Records in the journal of this process.", (), {(): records})
        yield _as_counter("guardrail_records_lost", "Records given up.", (), {(): lost})
        accepted_help = "Records taken on: in the journal, waiting, or lost."
        yield _as_counter("guardrail_records_accepted", accepted_help, (), {(): accepted})
        yield _as_gauge("guardrail_store_failing", "1 while the journal takes no writes.", (), {(): float(failing)})
        yield _as_gauge("guardrail_store_backlog", "Records accepted and not yet on disk.", (), {(): backlog})
        yield _as_gauge("guardrail_breaker_state", "0 closed, 1 half-open, 2 open.", ("dependency",), self._breakers)
        yield _as_gauge("proxy_in_flight", "Requests that hold a place.", ("limiter",), self._in_flight)
        yield _as_gauge("proxy_queue_depth", "Requests that wait for a place.", ("limiter",), self._queued)
        version: dict[Key, float] = {(self._version[:12],): 1.0}
        yield _as_gauge("config_info", "The config version in force.", ("version",), version)


def render_families(families: Iterable[Family], boots: Mapping[str, int]) -> bytes:
    """Return the exposition text of several processes.

    Args:
        families: of all of them together.
        boots: records counted, by process start.
    """
    metrics: list[Metric] = []
    for family in families:
        metric = Metric(family.name, family.help, family.kind)
        for one in family.samples:
            metric.add_sample(one.name, dict(one.labels), one.value)
        metrics.append(metric)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(metrics))
    lines = [f"{_BOOT}{boot} {records}\n" for boot, records in boots.items()]
    return "".join(lines).encode() + generate_latest(registry)


class _Given(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class _Collected(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.collect()


def _counter(counters: JournalCounters, family: _Family) -> Counter:
    found: Counter = getattr(counters, family.source)
    return found


def _histogram(counters: JournalCounters, family: _Family) -> Histogram:
    found: Histogram = getattr(counters, family.source)
    return found


def _as_counter(name: str, text: str, labels: Sequence[str], values: Mapping[Key, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _as_gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Key, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in dict(values).items():
        family.add_metric(key, value)
    return family


def _as_histogram(family: _Family, values: Mapping[Key, Sequence[float]]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for key, cells in values.items():
        total = 0.0
        buckets: list[tuple[str, float]] = []
        for bound, cell in zip((*map(str, BUCKETS), "+Inf"), cells, strict=False):
            total += cell
            buckets.append((bound, total))
        metric.add_metric(key, buckets, cells[-1])
    return metric


def _as_agreement(ballots: Mapping[str, Sequence[tuple[tuple[str, bool], ...]]]) -> Metric:
    metric = GaugeMetricFamily(
        "guardrail_vote_agreement", "Agreement of a panel's members, last 1,000 votes.", labels=("panel", "statistic")
    )
    for panel, votes in ballots.items():
        for statistic, value in (("pairwise", pairwise(votes)), ("kappa", kappa(votes))):
            if value is not None:
                metric.add_metric((panel, statistic), value)
    return metric


@dataclass(frozen=True, slots=True)
class Exposition:
    """A scrape read back.

    Args:
        boots: ids of the process starts, each with the number of its records that are counted.
        samples: value by sample name and sorted (label, value) pairs.
    """

    boots: Mapping[str, int]
    samples: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]

    @property
    def boot(self) -> str | None:
        """Return the only process start, None when there are several or none."""
        return next(iter(self.boots)) if len(self.boots) == 1 else None


def read_exposition(text: str) -> Exposition:
    """Read the text of `/metrics`.

    Raises:
        StoreError: it is not Prometheus text.
    """
    lines = [line.removeprefix(_BOOT).split() for line in text.splitlines() if line.startswith(_BOOT)]
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    except (ValueError, IndexError, KeyError) as error:
        msg = f"the metrics are not Prometheus text: {error}"
        raise StoreError(msg) from error
    try:
        total = int(samples.get(("guardrail_records_total", ()), 0))
        boots = {words[0]: int(words[1]) if len(words) > 1 else total for words in lines if words}
    except ValueError as error:
        msg = f"the metrics name no process starts: {error}"
        raise StoreError(msg) from error
    return Exposition(boots, samples)
