"""The one fact per exchange, and its JSON form. Store, metrics, headers and traces all read this value.

The hot path only fills the dataclass; `to_json` runs in the writer's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from proxy.policy import Decision
from supervisors.types import Assessment, Scope, Stage, Verdict

RecordKind = Literal["exchange", "check", "moderation", "unguarded"]
Outcome = Literal[
    "answered",
    "blocked_input",
    "blocked_output",
    "unavailable",
    "upstream_error",
    "client_error",
    "cancelled",
    "interrupted",
]
Phase = Literal["before_upstream", "before_first_token", "streaming"]
Terminator = Literal["done", "error", "none"]


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """One verdict as recorded: who, at which stage and choice, under which mode.

    Args:
        assessment: verdict with its stamps.
        stage: input or output.
        choice: reply choice, None on input and for a stage that never ran.
        enforce: false in shadow and observe mode.
        late_spans: spans of it that began in text already released (must stay 0).
    """

    assessment: Assessment
    stage: Stage
    choice: int | None
    enforce: bool
    late_spans: int = 0


SHADOW_DROPPED = "queue_full"
"""Detail of the ``unknown/skipped`` verdict of a shadow supervisor whose queue was full."""


@dataclass(frozen=True, slots=True)
class View:
    """What the canonical view contained.

    Args:
        segments: number of segments of request and reply.
        chars: characters in them.
        opaque: segments nobody can read.
        media: non-text segments.
        unseen_history: older turns live at the provider.
        input_hmac: keyed digest of the request's text, hex.
        output_hmac: keyed digest of the reply's text, hex.
    """

    segments: int = 0
    chars: int = 0
    opaque: int = 0
    media: int = 0
    unseen_history: bool = False
    input_hmac: str | None = None
    output_hmac: str | None = None


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """The call of the model server, if any."""

    called: bool = False
    status: int | None = None
    seconds: float | None = None
    first_token_s: float | None = None
    attempts: int = 0
    cancelled: bool = False
    filtered: bool = False
    error_kind: str | None = None


@dataclass(frozen=True, slots=True)
class ClientEnd:
    """What the caller saw.

    Args:
        status: HTTP status sent, 499 when the caller left before any.
        finish_reasons: one a choice, in index order.
        bytes: body bytes sent.
        terminator: how a stream ended.
        cancelled_phase: where the caller left, None if it stayed.
    """

    status: int
    finish_reasons: tuple[str | None, ...] = ()
    bytes: int = 0
    terminator: Terminator = "none"
    cancelled_phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One exchange. `seq`, `prev` and `hash` are added by the store's writer, which owns the chain.

    Args:
        id: unique and time-sortable.
        started: seconds since the epoch.
        seconds: total duration.
        policies: names of the policies that matched.
        version: config version, 64 hex digits.
        prescribed: (supervisor, stage) pairs that the policies and the caller's additions prescribe, for `verify`
            (O-11); empty when the exchange failed before judging (O-13).
        tightened: stages where the caller asked for a block on unsafe (the `moderation` field, W-15).
        usage: as reported by the upstream.
        content: texts by path after redaction, only in content mode ``full``; keyed digests in ``hashed``.
    """

    id: str
    request_id: str
    started: float
    seconds: float
    kind: RecordKind
    route: str
    stream: bool
    task: str | None
    key_id: str | None
    model: str
    model_served: str | None
    upstream: str | None
    policies: tuple[str, ...]
    version: str
    outcome: Outcome
    view: View = field(default_factory=View)
    verdicts: tuple[JudgedBy, ...] = ()
    decisions: tuple[Decision, ...] = ()
    upstream_call: UpstreamCall = field(default_factory=UpstreamCall)
    client: ClientEnd = field(default_factory=lambda: ClientEnd(500))
    usage: Mapping[str, Any] | None = None
    overhead_s: float = 0.0
    holdback_s: float = 0.0
    coherence: Mapping[str, Any] | None = None
    content: Mapping[str, Any] | None = None
    prescribed: tuple[tuple[str, Stage], ...] = ()
    tightened: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """A streamed exchange whose text begins to leave: kept until its record is, so that a crash leaves a trace.

    Args:
        id: of the record to be; the rest as there.
    """

    id: str
    request_id: str
    started: float
    route: str
    key_id: str | None
    model: str
    upstream: str | None
    policies: tuple[str, ...]
    version: str

    def to_record(self) -> Record:
        """Return the record of an exchange that a crash cut off: nothing is known of its verdicts and its end."""
        return Record(
            id=self.id,
            request_id=self.request_id,
            started=self.started,
            seconds=0.0,
            kind="exchange",
            route=self.route,
            stream=True,
            task=None,
            key_id=self.key_id,
            model=self.model,
            model_served=None,
            upstream=self.upstream,
            policies=self.policies,
            version=self.version,
            outcome="interrupted",
            upstream_call=UpstreamCall(called=True),
            client=ClientEnd(200),
        )


def to_json(record: Record) -> dict[str, Any]:
    """Return the JSON form of operations §4.1, without `boot`, `replica`, `seq`, `prev` and `hash`."""
    return {
        "schema": 1,
        "id": record.id,
        "request_id": record.request_id,
        "time": datetime.fromtimestamp(record.started, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "seconds": round(record.seconds, 6),
        "kind": record.kind,
        "route": record.route,
        "stream": record.stream,
        "task": record.task,
        "key_id": record.key_id,
        "model": record.model,
        "model_served": record.model_served,
        "upstream": record.upstream,
        "policy": {"names": list(record.policies), "version": record.version},
        "prescribed": {
            "input": [name for name, stage in record.prescribed if stage == "input"],
            "output": [name for name, stage in record.prescribed if stage == "output"],
        },
        "tightened": list(record.tightened),
        "outcome": record.outcome,
        "view": _view_row(record.view),
        "verdicts": [row for judged in record.verdicts for row in verdict_rows(judged)],
        "decisions": [decision_row(decision) for decision in record.decisions],
        "upstream_call": _call_row(record.upstream_call),
        "client": _client_row(record.client),
        "usage": record.usage,
        "overhead_s": round(record.overhead_s, 6),
        "holdback_s": round(record.holdback_s, 6),
        "coherence": record.coherence,
        "content": record.content,
    }


def verdict_rows(judged: JudgedBy) -> list[dict[str, Any]]:
    """Return the row of one verdict and, after it, those of its members as ``panel/a``."""
    return _rows(judged, judged.assessment, judged.assessment.supervisor)


def _rows(judged: JudgedBy, assessment: Assessment, name: str) -> list[dict[str, Any]]:
    rows = [_verdict_row(judged, assessment, name)]
    for member in assessment.verdict.members:
        rows += _rows(judged, member, f"{name}/{member.supervisor}")
    return rows


def _verdict_row(judged: JudgedBy, assessment: Assessment, name: str) -> dict[str, Any]:
    verdict: Verdict = assessment.verdict
    scope: Scope | None = verdict.scope
    row: dict[str, Any] = {
        "supervisor": name,
        "stage": judged.stage,
        "choice": judged.choice,
        "mode": "enforce" if judged.enforce else "shadow",
        "scope": scope,
        "label": verdict.label.value,
        "cause": verdict.cause.value if verdict.cause else None,
        "detail": verdict.detail,
        "score": verdict.score,
        "categories": list(verdict.categories),
        "transform": verdict.transform,
        "spans": [[span.path, span.start, span.end, span.category] for span in verdict.spans],
        "seconds": round(assessment.seconds, 6),
        "passes": assessment.passes,
        "chars_judged": assessment.chars_judged,
        "cached": verdict.cached,
        "tokens": {"input": verdict.tokens.input, "output": verdict.tokens.output} if verdict.tokens else None,
        "cost": verdict.cost,
        "members": len(verdict.members),
        "late_spans": judged.late_spans if assessment is judged.assessment else 0,
    }
    # Extras come from a supervisor, possibly a plugin: they must not overwrite what the house says.
    if not verdict.extras:
        return row
    return {**{key: value for key, value in verdict.extras.items() if not is_text_extra(key, value)}, **row}


_TEXT_EXTRAS = frozenset({"reply", "critique", "masked_text"})
_LONGEST_FACT = 128


def is_text_extra(key: str, value: object) -> bool:
    """Say whether an extra may quote what was judged: it then follows the content mode and never stands in a row."""
    return key in _TEXT_EXTRAS or (isinstance(value, str) and len(value) > _LONGEST_FACT)


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return one decision in its stored form."""
    return {
        "policy": decision.policy,
        "stage": decision.stage,
        "choice": decision.choice,
        "label": decision.label.value,
        "cause": decision.cause.value if decision.cause else None,
        "flagged": decision.flagged,
        "blocked": decision.blocked,
        "redacted": decision.redacted,
        "action": decision.action,
        "reason": decision.reason,
        "mode": "enforce" if decision.enforce else "shadow",
        "seconds": round(decision.seconds, 6),
        "late_spans": decision.late_spans,
    }


def flatten(assessments: Sequence[JudgedBy]) -> list[tuple[str, JudgedBy, Verdict]]:
    """Return (full name, how it was judged, verdict) of every verdict, members included: what metrics count."""
    found: list[tuple[str, JudgedBy, Verdict]] = []
    for judged in assessments:
        _flatten(judged, judged.assessment, judged.assessment.supervisor, found)
    return found


def _flatten(judged: JudgedBy, assessment: Assessment, name: str, found: list[tuple[str, JudgedBy, Verdict]]) -> None:
    found.append((name, judged, assessment.verdict))
    for member in assessment.verdict.members:
        _flatten(judged, member, f"{name}/{member.supervisor}", found)


def _view_row(view: View) -> dict[str, Any]:
    return {
        "segments": view.segments,
        "chars": view.chars,
        "opaque": view.opaque,
        "media": view.media,
        "unseen_history": view.unseen_history,
        "input_hmac": view.input_hmac,
        "output_hmac": view.output_hmac,
    }


def _call_row(call: UpstreamCall) -> dict[str, Any]:
    return {
        "called": call.called,
        "status": call.status,
        "seconds": call.seconds,
        "first_token_s": call.first_token_s,
        "attempts": call.attempts,
        "cancelled": call.cancelled,
        "filtered": call.filtered,
        "error_kind": call.error_kind,
    }


def _client_row(client: ClientEnd) -> dict[str, Any]:
    return {
        "status": client.status,
        "finish_reasons": client.finish_reasons,
        "bytes": client.bytes,
        "terminator": client.terminator,
        "cancelled_phase": client.cancelled_phase,
    }
