"""The JSON form of a record: in full for readers, and as stored, without the members that have their default.

Runs in the writer's thread, not on the hot path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import modf
from typing import Any, Final

from proxy.policy import Decision
from proxy.record import ClientEnd, JudgedBy, Record, UpstreamCall, View, is_text_extra
from supervisors.types import PLAIN_SAFE, Assessment, Scope, Stage, Verdict

RECORD: Final[Mapping[str, Any]] = {
    "task": None,
    "key_id": None,
    "tightened": [],
    "holdback_s": 0.0,
    "coherence": None,
    "content": None,
}
"""Members of a record that are not stored while they have this value."""
VERDICT: Final[Mapping[str, Any]] = {
    "choice": None,
    "mode": "enforce",
    "scope": None,
    "cause": None,
    "detail": None,
    "score": None,
    "categories": [],
    "transform": None,
    "spans": [],
    "rest": None,
    "cached": False,
    "tokens": None,
    "cost": None,
    "members": 0,
    "late_spans": 0,
}
"""The same of one of its verdicts."""
DECISION: Final[Mapping[str, Any]] = {
    "choice": None,
    "cause": None,
    "flagged": False,
    "blocked": False,
    "redacted": False,
    "reason": None,
    "mode": "enforce",
    "late_spans": 0,
}
"""The same of one of its decisions."""
CALL: Final[Mapping[str, Any]] = {
    "status": None,
    "seconds": None,
    "first_token_s": None,
    "cancelled": False,
    "filtered": False,
    "error_kind": None,
}
"""The same of the call of the model server."""


def to_json(record: Record) -> dict[str, Any]:
    """Return the JSON form of operations §4.1, without `boot`, `replica`, `seq`, `prev` and `hash`."""
    return complete(to_row(record))


def to_row(record: Record) -> dict[str, Any]:
    """Return the stored form: that of `to_json` without the members that `complete` puts in again.

    Most members of most records have their default; hashing and storing them would cost half of the journal.
    """
    row: dict[str, Any] = {
        "schema": 1,
        "id": record.id,
        "request_id": record.request_id,
        "time": _timestamp(record.started),
        "seconds": int(record.seconds * 1e6 + 0.5) / 1e6,
        "kind": record.kind,
        "route": record.route,
        "stream": record.stream,
        "model": record.model,
        "model_served": record.model_served,
        "upstream": record.upstream,
        "policy": {"names": record.policies, "version": record.version},
        "prescribed": _by_stage(record.prescribed),
        "outcome": record.outcome,
        "view": _view_row(record.view),
        "verdicts": _all_rows(record.verdicts),
        "decisions": [decision_row(decision) for decision in record.decisions],
        "upstream_call": _call_row(record.upstream_call),
        "client": _client_row(record.client),
        "usage": record.usage,
        "overhead_s": int(record.overhead_s * 1e6 + 0.5) / 1e6,
    }
    row.update(_seldom(record))
    return row


def _timestamp(seconds: float) -> str:
    fraction, whole = modf(seconds)
    micros = round(fraction * 1e6)
    if not 0 <= micros < 1_000_000:  # rounded up to a second, or before 1970
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    return f"{_second(int(whole))}.{micros:06}Z"


@lru_cache(8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(256)
def _by_stage(prescribed: tuple[tuple[str, Stage], ...]) -> Mapping[str, list[str]]:
    """Return the names by stage; every record of one plan shares them, nobody changes them."""
    return {
        "input": [name for name, stage in prescribed if stage == "input"],
        "output": [name for name, stage in prescribed if stage == "output"],
    }


def _all_rows(verdicts: Sequence[JudgedBy]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for judged in verdicts:
        if judged.assessment.verdict.members:
            rows += verdict_rows(judged)
        else:
            rows.append(_verdict_row(judged, judged.assessment, judged.assessment.supervisor))
    return rows


def _seldom(record: Record) -> dict[str, Any]:
    """Return what only some records say."""
    row: dict[str, Any] = {}
    if record.task is not None:
        row["task"] = record.task
    if record.key_id is not None:
        row["key_id"] = record.key_id
    if record.tightened:
        row["tightened"] = list(record.tightened)
    if holdback_s := round(record.holdback_s, 6):
        row["holdback_s"] = holdback_s
    if record.coherence is not None:
        row["coherence"] = record.coherence
    if record.content is not None:
        row["content"] = record.content
    return row


def complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored row with every member that was left out because it had its default.

    Raises:
        KeyError, TypeError: it is not the row of a record.
    """
    return {
        **_whole(row, RECORD),
        "verdicts": [_whole(verdict, VERDICT) for verdict in row["verdicts"]],
        "decisions": [whole_decision(decision) for decision in row["decisions"]],
        "upstream_call": _whole(row["upstream_call"], CALL),
    }


def shorten(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored form of a full one: the hash of the chain covers its canonical JSON."""
    return {
        **_short(body, RECORD),
        "verdicts": [_short(verdict, VERDICT) for verdict in body["verdicts"]],
        "decisions": [_short(decision, DECISION) for decision in body["decisions"]],
        "upstream_call": _short(body["upstream_call"], CALL),
    }


def whole_decision(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a decision with every member."""
    return _whole(row, DECISION)


def _whole(row: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**defaults, **row}
    whole.update({name: [] for name, default in defaults.items() if default == [] and name not in row})
    return whole


def _short(row: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in row.items() if name not in defaults or fact != defaults[name]}


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
    row: dict[str, Any] = {
        "supervisor": name,
        "stage": judged.stage,
        "label": verdict.label._value_,  # not `value`: a property of Python code
        "seconds": int(assessment.seconds * 1e6 + 0.5) / 1e6,
        "passes": assessment.passes,
        "chars_judged": assessment.chars_judged,
    }
    if judged.choice is not None:
        row["choice"] = judged.choice
    if verdict.score is not None:
        row["score"] = verdict.score
    return row if _is_plain(judged, verdict) else _with_findings(row, judged, assessment)


def _is_plain(judged: JudgedBy, verdict: Verdict) -> bool:
    """Say whether a verdict is a label and perhaps a score, as nearly all are."""
    if verdict is PLAIN_SAFE:
        return judged.enforce and not judged.late_spans
    return not (
        verdict.cause
        or verdict.detail
        or verdict.categories
        or verdict.spans
        or verdict.scope
        or verdict.transform
        or verdict.cached
        or verdict.tokens
        or verdict.members
        or verdict.extras
        or judged.late_spans
        or not judged.enforce
        or verdict.cost is not None
    )


def _with_findings(row: dict[str, Any], judged: JudgedBy, assessment: Assessment) -> dict[str, Any]:
    verdict: Verdict = assessment.verdict
    scope: Scope | None = verdict.scope
    found: dict[str, Any] = {
        "mode": "enforce" if judged.enforce else "shadow",
        "scope": scope,
        "cause": verdict.cause.value if verdict.cause else None,
        "detail": verdict.detail,
        "categories": list(verdict.categories),
        "transform": verdict.transform,
        "spans": [[span.path, span.start, span.end, span.category] for span in verdict.spans],
        "rest": verdict.rest.value if verdict.rest else None,
        "cached": verdict.cached,
        "tokens": {"input": verdict.tokens.input, "output": verdict.tokens.output} if verdict.tokens else None,
        "cost": verdict.cost,
        "members": len(verdict.members),
        "late_spans": judged.late_spans if assessment is judged.assessment else 0,
    }
    # Extras come from a supervisor, possibly a plugin: they must not overwrite what the house says.
    facts = {key: value for key, value in verdict.extras.items() if not is_text_extra(key, value)}
    return {**{name: fact for name, fact in facts.items() if name not in VERDICT}, **row, **_short(found, VERDICT)}


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return one decision in its stored form."""
    row: dict[str, Any] = {
        "policy": decision.policy,
        "stage": decision.stage,
        "label": decision.label._value_,
        "action": decision.action,
        "seconds": int(decision.seconds * 1e6 + 0.5) / 1e6,
    }
    if decision.choice is not None:
        row["choice"] = decision.choice
    if _is_pass(decision):
        return row
    found: dict[str, Any] = {
        "cause": decision.cause.value if decision.cause else None,
        "flagged": decision.flagged,
        "blocked": decision.blocked,
        "redacted": decision.redacted,
        "reason": decision.reason,
        "mode": "enforce" if decision.enforce else "shadow",
        "late_spans": decision.late_spans,
    }
    return row | _short(found, DECISION)


def _is_pass(decision: Decision) -> bool:
    """Say whether nothing was found, as nearly always."""
    found = decision.cause or decision.flagged or decision.blocked or decision.redacted
    return decision.action == "pass" and decision.enforce and not (found or decision.reason or decision.late_spans)


def _view_row(view: View) -> dict[str, Any]:
    return {
        "segments": view.segments,
        "chars": view.chars,
        "opaque": view.opaque,
        "media": view.media,
        "unseen_history": view.unseen_history,
        "input_hmac": None if view.input_hmac is None else view.input_hmac(),
        "output_hmac": None if view.output_hmac is None else view.output_hmac(),
    }


def _call_row(call: UpstreamCall) -> dict[str, Any]:
    row: dict[str, Any] = {"called": call.called, "attempts": call.attempts}
    if call.status is not None:
        row["status"] = call.status
    if call.seconds is not None:
        row["seconds"] = call.seconds
    if call.first_token_s is not None:
        row["first_token_s"] = call.first_token_s
    if call.cancelled:
        row["cancelled"] = True
    if call.filtered:
        row["filtered"] = True
    if call.error_kind is not None:
        row["error_kind"] = call.error_kind
    return row


def _client_row(client: ClientEnd) -> dict[str, Any]:
    return {
        "status": client.status,
        "finish_reasons": client.finish_reasons,
        "bytes": client.bytes,
        "terminator": client.terminator,
        "cancelled_phase": client.cancelled_phase,
    }
