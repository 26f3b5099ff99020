"""One exchange while it runs: the facts it came with, what has happened so far, and the record it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from proxy.plan import Plan, StagePlan
from proxy.policy import Decision
from proxy.record import ClientEnd, Digest, JudgedBy, Outcome, Phase, Record, RecordKind, Terminator, UpstreamCall, View
from proxy.stages import StageResult
from proxy.wire.adapter import Adapter
from proxy.wire.forms import counts_of, fits, in_form
from proxy.wire.moderation_field import FieldAsk
from supervisors.light import light_dataclass
from supervisors.signals import Signal
from supervisors.types import Assessment, Cause, Segment, Stage, unknown

BOTH_STAGES: tuple[Stage, ...] = ("input", "output")
NOTHING_JUDGED = StageResult(None)


@light_dataclass(frozen=True, slots=True)
class Call:
    """What is known of an exchange before anything is judged.

    Args:
        id: id of the record.
        request_id: value of `x-request-id`.
        adapter: route family.
        body: parsed body, ours alone to edit.
        stream: the caller wants a stream.
        model: model as requested.
        upstream: configured name of the model server.
        plan: merged policies.
        version: config version, 64 hex digits.
        key_id: first 12 hex digits of the key's SHA-256.
        task: tag of the request, from the configured list.
        started: seconds since the epoch.
        clock: `perf_counter` at the start.
        headers: of the caller; the upstream passes on what its settings allow.
        kind: what the record will say it is.
        size_bytes: size of the body as it came.
        stages: stages that are judged at all; a check may ask for one only.
        moderation: what the caller asked for in the `moderation` field.
        unseen_history: the model sees older content that lives at the provider only.
        hide_usage: the proxy asked for the usage of the stream, the caller did not.
        named: the config names the model, so that its name is no text of the caller.
    """

    id: str
    request_id: str
    adapter: Adapter
    body: dict[str, Any]
    stream: bool
    model: str
    upstream: str
    plan: Plan
    version: str
    key_id: str | None
    task: str | None
    started: float
    clock: float
    headers: tuple[tuple[str, str], ...] = ()
    kind: RecordKind = "exchange"
    size_bytes: int = 0
    stages: tuple[Stage, ...] = BOTH_STAGES
    moderation: FieldAsk | None = None
    unseen_history: bool = False
    hide_usage: bool = False
    named: bool = True

    @property
    def shown_model(self) -> str:
        """Return the model as records show it; what is neither configured nor a name is nothing."""
        return self.model if self.named or fits("model", self.model) else ""

    @property
    def output(self) -> StagePlan:
        """Return the output stage as it holds for this call: a stream in observe mode enforces nothing."""
        plan = self.plan.output
        return plan.observing() if self.stream and plan.stream.mode == "observe" else plan


class Progress:
    """What has happened so far; every part of the line writes its own facts here, the record is made from it.

    `request` is the view as it came, `sent` the view as the model got it: they differ after a redaction. `answered`
    says that a whole answer has left, `complete` that the end of a stream has, `reserved` that the record has a place
    in the journal's queue. What nothing has happened to yet has the value of the class.
    """

    outcome: Outcome = "answered"
    sent: tuple[Segment, ...] = ()
    input: StageResult = NOTHING_JUDGED
    called: bool = False
    attempts: int = 0
    upstream_status: int | None = None
    upstream_error: str | None = None
    upstream_wait_s: float = 0.0
    first_token_s: float | None = None
    cancelled_upstream: bool = False
    filtered: bool = False
    model_served: str | None = None
    usage: Mapping[str, Any] | None = None
    status: int = 0
    bytes_sent: int = 0
    terminator: Terminator = "none"
    phase: Phase = "before_upstream"
    cancelled: bool = False
    complete: bool = False
    answered: bool = False
    reserved: bool = False
    holdback_s: float = 0.0
    overhead_s: float | None = None
    coherence: Mapping[str, Any] | None = None

    def __init__(self, request: tuple[Segment, ...] = ()) -> None:
        self.request = request
        self.replies: dict[int, tuple[Segment, ...]] = {}
        self.verdicts: list[JudgedBy] = []
        self.decisions: list[Decision] = []
        self.outputs: list[StageResult] = []
        self.signals: dict[Signal, None] = {}
        self.finish_reasons: dict[int, str | None] = {}

    def note_reply(self, body: Mapping[str, Any], finish_reasons: Mapping[int, str | None]) -> None:
        """Note what a whole reply says about itself."""
        model = body.get("model")
        self.model_served = model if isinstance(model, str) else None
        usage = body.get("usage")
        self.usage = usage if isinstance(usage, dict) else None  # pyright: ignore[reportUnknownMemberType] # JSON
        self.finish_reasons = dict(finish_reasons)
        self.filtered = "content_filter" in finish_reasons.values()

    def note_error(self, status: int) -> None:
        """Note that the caller gets an error, whole or as the end of a stream; what ended the exchange before stays."""
        if self.outcome == "answered" and not self.complete:
            self.outcome = "client_error" if 400 <= status < 500 else "unavailable"

    def settle(self, call: Call) -> None:
        """Lay out the verdicts: one a supervisor, stage and choice that the plan prescribes (O-11)."""
        self.verdicts = []
        self.decisions = []
        if "input" in call.stages:
            self._lay(call.plan.input, [self.input])
        if "output" in call.stages:
            self._lay(call.output, self.outputs)

    def _lay(self, plan: StagePlan, results: Sequence[StageResult]) -> None:
        ran = [result for result in results if result.assessments]
        for result in ran:
            stage, choice, rules, assessments = plan.stage, result.choice, plan.rules, result.assessments
            if len(assessments) != len(plan.names):  # a blocking half, or a stage cut short
                found = {one.supervisor: one for one in assessments}
                assessments = tuple([found.get(name) or Assessment(name, _SKIPPED) for name in plan.names])
            self.verdicts += [JudgedBy(one, stage, choice, rules[one.supervisor].enforce) for one in assessments]
            self.decisions += result.decisions
        if not ran:
            self.verdicts += [
                JudgedBy(Assessment(name, _SKIPPED), plan.stage, None, plan.rules[name].enforce) for name in plan.names
            ]


_SKIPPED = unknown(Cause.SKIPPED)


@light_dataclass(frozen=True, slots=True)
class Kept:
    """What a record keeps of an exchange's text, by content mode (O-25); verdicts without keys that somebody chose."""

    input_hmac: Digest | None = None
    output_hmac: Digest | None = None
    content: Mapping[str, Any] | None = None
    verdicts: tuple[JudgedBy, ...] | None = None


def measure_overhead(call: Call, progress: Progress) -> float:
    """Return the seconds spent so far that were not spent waiting for the upstream."""
    return max(0.0, perf_counter() - call.clock - progress.upstream_wait_s)


def to_record(call: Call, progress: Progress, kept: Kept) -> Record:
    """Make the record of an exchange that has ended.

    Args:
        call: the exchange.
        progress: what happened.
        kept: what of its text is recorded.
    """
    # In the order of the fields, not by keyword: a constructor with keywords costs three times as much.
    return Record(
        call.id,
        call.request_id,
        call.started,
        perf_counter() - call.clock,
        call.kind,
        call.adapter.route,
        call.stream,
        call.task,
        call.key_id,
        call.shown_model,
        in_form("model", progress.model_served),
        call.upstream,
        call.plan.policies,
        call.version,
        progress.outcome,
        _view(call, progress, kept),
        tuple(progress.verdicts) if kept.verdicts is None else kept.verdicts,
        tuple(progress.decisions),
        _upstream_call(progress),
        _client_end(progress),
        None if progress.usage is None else counts_of(progress.usage),
        progress.overhead_s if progress.overhead_s is not None else measure_overhead(call, progress),
        progress.holdback_s,
        progress.coherence,
        kept.content,
        _prescribed(call),
        call.moderation.tightened if call.moderation is not None else (),
    )


def _upstream_call(progress: Progress) -> UpstreamCall:
    return UpstreamCall(
        progress.called,
        progress.upstream_status,
        progress.upstream_wait_s if progress.called else None,
        progress.first_token_s,
        progress.attempts,
        progress.cancelled_upstream,
        progress.filtered,
        progress.upstream_error,
    )


def _client_end(progress: Progress) -> ClientEnd:
    return ClientEnd(
        progress.status or (499 if progress.cancelled else 500),
        tuple([in_form("finish_reason", reason) for _, reason in sorted(progress.finish_reasons.items())]),
        progress.bytes_sent,
        progress.terminator,
        progress.phase if progress.cancelled else None,
    )


def _prescribed(call: Call) -> tuple[tuple[str, Stage], ...]:
    if len(call.stages) == 2:
        return call.plan.prescribed
    return tuple([pair for pair in call.plan.prescribed if pair[1] in call.stages])


def _view(call: Call, progress: Progress, kept: Kept) -> View:
    segments = [*progress.request]
    for reply in progress.replies.values():
        segments += reply
    unread = [segment for segment in segments if segment.media is not None or segment.kind == "opaque"]
    return View(
        len(segments),
        sum([len(segment.text) for segment in segments]),
        len([segment for segment in unread if segment.kind == "opaque"]) if unread else 0,
        len([segment for segment in unread if segment.media is not None]) if unread else 0,
        call.unseen_history,
        kept.input_hmac,
        kept.output_hmac,
    )
