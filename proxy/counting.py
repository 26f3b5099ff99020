"""Counters in plain dicts, fed from the record: what `proxy.metrics` shows and `verify` compares with the journal.

Plain dicts, not the children of prometheus_client: several times cheaper, and one lock a record instead of one a
counter makes a scrape a consistent cut: every counter marked J covers exactly `records` records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.agreement import Agreement
from proxy.record import SHADOW_DROPPED, JudgedBy, Record
from proxy.store.rules import Labels
from supervisors.types import Assessment, Cause, Label

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
OTHER = "other"
UPSTREAM = "upstream"
"""Name under `supervisor` for the tokens of the exchange itself."""

_SAFE = Label.SAFE
_UNPARSABLE, _SKIPPED = Cause.UNPARSABLE, Cause.SKIPPED
_VOTE_DETAILS = frozenset({"tie", "quorum_miss", "pivotal"})
_COHERENCE = frozenset({"coherent", "incoherent", "unknown"})
_NO_LABELS = Labels()

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of an exposition."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples, as plain values.

    Args:
        name: without ``_total``.
        kind: counter, gauge or histogram.
        help: one sentence.
        samples: in the order of an exposition.
    """

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


@dataclass(slots=True)
class Counter:
    """Totals by label values."""

    values: dict[Key, float] = field(default_factory=dict[Key, float])

    def add(self, key: Key, amount: float = 1) -> None:
        """Increase one series."""
        self.values[key] = self.values.get(key, 0) + amount


@dataclass(slots=True)
class Histogram:
    """Observations in seconds by label values: counts a bucket, the last one unbounded, then their sum."""

    values: dict[Key, list[float]] = field(default_factory=dict[Key, list[float]])

    def observe(self, key: Key, seconds: float) -> None:
        """Add one observation."""
        cells = self.values.get(key)
        if cells is None:
            cells = self.values[key] = [0] * (len(BUCKETS) + 2)
        cells[bisect_left(BUCKETS, seconds)] += 1
        cells[-1] += seconds


def usage_tokens(usage: Mapping[str, object] | None) -> Iterable[tuple[str, int]]:
    """Return direction and count of an upstream's usage, in the words of either API family; oddities are left out."""
    if usage is None:
        return ()
    found: list[tuple[str, int]] = []
    for direction, names in (("input", ("prompt_tokens", "input_tokens")), ("output", _OUTPUT_NAMES)):
        for name in names:
            count = usage.get(name)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**53:
                found.append((direction, count))
                break
    return found


_OUTPUT_NAMES = ("completion_tokens", "output_tokens")


class JournalCounters:
    """Every family of operations §5 that is fed from records: those marked J, and histograms of the same facts.

    Not safe for several threads by itself: `proxy.metrics` holds its lock around `count` and a scrape.
    """

    def __init__(self) -> None:
        self.records = 0
        self.labels: dict[str, Labels] = {}
        self.exchanges = Counter()
        self.verdicts = Counter()
        self.decisions = Counter()
        self.parse_failures = Counter()
        self.repairs = Counter()
        self.votes = Counter()
        self.shadow_dropped = Counter()
        self.coherence = Counter()
        self.tokens = Counter()
        self.unguarded = Counter()
        self.late_spans = Counter()
        self.cancelled = Counter()
        self.cache = Counter()
        self.upstream_errors = Counter()
        self.agreements: dict[str, Agreement] = {}
        self.supervisor_seconds = Histogram()
        self.stage_seconds = Histogram()
        self.overhead = Histogram()
        self.holdback = Histogram()
        self.upstream_seconds = Histogram()
        self.first_token_seconds = Histogram()

    def count(self, record: Record) -> None:
        """Count one record in every family."""
        labels = self.labels.get(record.version, _NO_LABELS)
        model = record.model if record.model in labels.models else OTHER
        self.records += 1
        self.exchanges.add((record.kind, model, record.outcome))
        for judged in record.verdicts:
            self._assessed(judged, judged.assessment, judged.assessment.supervisor, labels)
            if judged.late_spans:
                name = judged.assessment.supervisor
                self.late_spans.add((name if name in labels.supervisors else OTHER,), judged.late_spans)
        self._decided(record, labels)
        for direction, tokens in usage_tokens(record.usage):
            self.tokens.add((UPSTREAM, direction), tokens)
        if record.coherence is not None:
            state = str(record.coherence.get("state"))
            self.coherence.add((model, state if state in _COHERENCE else "unknown"))
        if record.client.cancelled_phase is not None:
            self.cancelled.add((record.client.cancelled_phase,))
        route = record.route if record.route in labels.routes else OTHER
        if record.kind == "unguarded":
            self.unguarded.add((route,))
        self._timed(record, labels, model, route)

    def _assessed(self, judged: JudgedBy, assessment: Assessment, full: str, labels: Labels) -> None:
        verdict = assessment.verdict
        name = full if full in labels.supervisors else OTHER
        mode = "enforce" if judged.enforce else "shadow"
        label, cause = verdict.label, verdict.cause
        if cause is None:
            key = (name, judged.stage, mode, "safe" if label is _SAFE else "unsafe", "none")
        else:
            key = (name, judged.stage, mode, "unknown", cause.value)
            if cause is _UNPARSABLE:
                self.parse_failures.add((name,))
            elif cause is _SKIPPED and verdict.detail == SHADOW_DROPPED and not judged.enforce:
                self.shadow_dropped.add((name,))
        counts = self.verdicts.values
        counts[key] = counts.get(key, 0) + 1
        if cause is not _SKIPPED:
            self.supervisor_seconds.observe((name, judged.stage), assessment.seconds)
        if verdict.extras or verdict.tokens or verdict.cached:
            self._priced(verdict.extras, assessment, name)
        if verdict.members:
            self._voted(assessment, name)
            for member in verdict.members:
                self._assessed(judged, member, f"{full}/{member.supervisor}", labels)

    def _priced(self, extras: Mapping[str, object], assessment: Assessment, name: str) -> None:
        verdict = assessment.verdict
        if extras.get("repaired") is True:
            self.repairs.add((name,))
        if verdict.tokens is not None:
            self.tokens.add((name, "input"), verdict.tokens.input)
            self.tokens.add((name, "output"), verdict.tokens.output)
        if verdict.cached:
            self.cache.add((name, "hit"))

    def _voted(self, assessment: Assessment, name: str) -> None:
        verdict = assessment.verdict
        if verdict.detail in _VOTE_DETAILS:
            self.votes.add((name, verdict.detail))
        elif verdict.cause is None:
            self.votes.add((name, "decided"))
        agreement = self.agreements.get(name)
        if agreement is None:
            agreement = self.agreements[name] = Agreement()
        answered = [member for member in verdict.members if member.verdict.cause is None]
        agreement.add(tuple([(member.supervisor, member.verdict.label is not _SAFE) for member in answered]))

    def _decided(self, record: Record, labels: Labels) -> None:
        timed: dict[tuple[str, str, int | None], float] = {}
        late = 0
        for decision in record.decisions:
            policy = decision.policy if decision.policy in labels.policies else OTHER
            mode = "enforce" if decision.enforce else "shadow"
            self.decisions.add((policy, decision.stage, mode, decision.action, decision.reason or "none"))
            stage = (decision.stage, mode, decision.choice)
            # Several policies share one run of the stage: it is timed once.
            timed[stage] = max(timed.get(stage, 0.0), decision.seconds)
            late = max(late, decision.late_spans)
        for (name, mode, _), seconds in timed.items():
            self.stage_seconds.observe((name, mode), seconds)
        if late and not any(judged.late_spans for judged in record.verdicts):
            self.late_spans.add((OTHER,), late)  # the alarm must ring even if nobody said whose span it was

    def _timed(self, record: Record, labels: Labels, model: str, route: str) -> None:
        self.overhead.observe((route, "true" if record.stream else "false"), record.overhead_s)
        if record.stream:
            modes = {judged.enforce for judged in record.verdicts if judged.stage == "output"}
            self.holdback.observe(("shadow" if modes == {False} else "enforce",), record.holdback_s)
        call = record.upstream_call
        upstream = record.upstream if record.upstream in labels.upstreams else OTHER
        if call.error_kind is not None:
            self.upstream_errors.add((upstream or OTHER, call.error_kind))
        if not call.called:
            return
        key = (upstream or OTHER, model)
        if call.seconds is not None:
            self.upstream_seconds.observe(key, call.seconds)
        if call.first_token_s is not None:
            self.first_token_seconds.observe(key, call.first_token_s)
