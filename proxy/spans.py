"""The spans of an exchange, made from its record once it has ended (O-21). Pure.

Durations are measured; where within the exchange a part lies is worked out: the input stage at the beginning, the call
of the model behind it, an output stage up to the end, supervisors from the beginning of their stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from proxy.policy import Action, Decision
from proxy.record import JudgedBy, Record
from proxy.traceparent import UPSTREAM, Trace, span_id
from supervisors.types import Assessment, Cause

Kind = Literal["server", "internal", "client"]
Value = str | bool | int | float | tuple[str, ...]

_ERRORS: Final = frozenset({Cause.ERROR, Cause.TIMEOUT})
_ACTIONS: Final[Sequence[Action]] = ("pass", "flag", "redact", "block")
_OPERATIONS: Final[Mapping[str, str]] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/moderations": "moderation",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One span as plain values.

    Args:
        name: low in cardinality: from the config or this file only.
        id: not zero.
        parent: id of the span above, None for the root of a trace.
        start_s: seconds since the epoch.
        end_s: the same.
        attributes: keys of the GenAI conventions or ``guardrail.*``.
        error: why its status is error, None when it is not.
    """

    name: str
    kind: Kind
    id: int
    parent: int | None
    start_s: float
    end_s: float
    attributes: Mapping[str, Value]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An exchange, and what its spans need beside the record.

    Args:
        record: of the exchange.
        trace: it belongs to.
        model: as metrics show it: declared, or ``other``.
        provider: of its upstream, as the GenAI conventions say.
        stream_mode: of the output stage of a stream, None without one.
    """

    record: Record
    trace: Trace
    model: str
    provider: str
    stream_mode: str | None = None

    @property
    def operation(self) -> str:
        """Return the operation of the route, as the GenAI conventions name it."""
        return _OPERATIONS.get(self.record.route, "other")


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    choice: int | None
    enforce: bool
    verdicts: list[JudgedBy] = field(default_factory=list[JudgedBy])
    decisions: list[Decision] = field(default_factory=list[Decision])


def make_spans(seen: Seen, *, capture: bool = False) -> list[Span]:
    """Return the spans of an exchange, the server's first.

    Args:
        seen: the exchange.
        capture: message content may stand in spans, as far as the record has it (O-22).
    """
    record = seen.record
    root = span_id(record.id, "server")
    found = [_server(seen, root, capture=capture)]
    for stage in _stages(record):
        found += _stage_spans(record, stage, root, seen.stream_mode)
    if record.upstream_call.called:
        found.append(_upstream(seen, root))
    return found


def _server(seen: Seen, root: int, *, capture: bool) -> Span:
    record = seen.record
    attributes: dict[str, Value] = {
        "http.route": record.route,
        "http.response.status_code": record.client.status,
        "gen_ai.operation.name": seen.operation,
        "guardrail.record.id": record.id,
        "guardrail.kind": record.kind,
        "guardrail.outcome": record.outcome,
        "guardrail.policy.names": record.policies,
        "guardrail.policy.version": record.version,
    }
    if record.kind != "unguarded":  # such a route may have any method, and the record does not say which
        attributes["http.request.method"] = "POST"
    if record.model:
        attributes["gen_ai.request.model"] = record.model
    if record.stream:
        attributes["guardrail.stream.mode"] = seen.stream_mode or "none"
    if capture:
        attributes |= _messages(record.content)
    failed = record.client.status >= 500 and not record.outcome.startswith("blocked_")
    error = record.outcome if failed else None
    return Span(
        record.route if record.kind == "unguarded" else f"POST {record.route}",
        "server",
        root,
        seen.trace.parent_id,
        record.started,
        record.started + record.seconds,
        attributes,
        error,
    )


def _messages(content: Mapping[str, Any] | None) -> dict[str, Value]:
    """Return the text that the record kept, which was redacted before."""
    found: dict[str, Value] = {}
    for direction in ("input", "output") if content is not None and content.get("mode") == "full" else ():
        rows: Sequence[Mapping[str, Any]] = (content or {}).get(direction, ())
        messages = [
            {"role": row.get("role"), "parts": [{"type": "text", "content": row["text"]}]}
            for row in rows
            if "text" in row
        ]
        if messages:
            found[f"gen_ai.{direction}.messages"] = json.dumps(messages, ensure_ascii=False)
    return found


def _stages(record: Record) -> list[_Stage]:
    found: dict[tuple[str, int | None, bool], _Stage] = {}
    for judged in record.verdicts:
        key = (judged.stage, judged.choice, judged.enforce)
        found.setdefault(key, _Stage(*key)).verdicts.append(judged)
    for decision in record.decisions:
        key = (decision.stage, decision.choice, decision.enforce)
        found.setdefault(key, _Stage(*key)).decisions.append(decision)
    return list(found.values())


def _stage_spans(record: Record, stage: _Stage, root: int, stream_mode: str | None) -> Iterator[Span]:
    ran = [one.seconds for one in stage.decisions]
    seconds = max(ran or [one.assessment.seconds for one in stage.verdicts], default=0.0)
    end = record.started + record.seconds
    start = record.started if stage.name == "input" else max(record.started, end - seconds)
    mode = "enforce" if stage.enforce else "shadow"
    own = span_id(record.id, f"{stage.name}/{stage.choice}/{mode}")
    attributes: dict[str, Value] = {"guardrail.stage": stage.name, "guardrail.mode": mode}
    if stage.choice is not None:
        attributes["guardrail.choice"] = stage.choice
    if stage.name == "output" and record.stream:
        attributes["guardrail.stream.mode"] = stream_mode or "none"
    if stage.decisions:
        worst = max(stage.decisions, key=lambda one: _ACTIONS.index(one.action))
        attributes["guardrail.decision.action"] = worst.action
        attributes["guardrail.decision.reason"] = worst.reason or "none"
        attributes["guardrail.policy.names"] = tuple(sorted({one.policy for one in stage.decisions}))
    yield Span("guardrail.stage", "internal", own, root, start, start + seconds, attributes)
    for judged in stage.verdicts:
        path = f"{stage.name}/{stage.choice}/{mode}/{judged.assessment.supervisor}"
        yield from _supervisor_spans(record.id, judged.assessment, path, own, start, attributes)


def _supervisor_spans(
    record_id: str, assessment: Assessment, path: str, parent: int, start: float, stage: Mapping[str, Value]
) -> Iterator[Span]:
    verdict, own = assessment.verdict, span_id(record_id, path)
    attributes: dict[str, Value] = {
        "guardrail.stage": stage["guardrail.stage"],
        "guardrail.mode": stage["guardrail.mode"],
        "guardrail.supervisor.name": path.split("/", 3)[3],
        "guardrail.verdict.label": verdict.label.value,
        "guardrail.verdict.cause": verdict.cause.value if verdict.cause is not None else "none",
        "guardrail.verdict.cached": verdict.cached,
    }
    error = f"unknown/{verdict.cause.value}" if verdict.cause in _ERRORS and verdict.cause is not None else None
    end = start + assessment.seconds
    yield Span("guardrail.supervisor", "internal", own, parent, start, end, attributes, error)
    model = verdict.extras.get("model_requested")
    if isinstance(model, str) and not verdict.cached and verdict.cause is not Cause.SKIPPED:
        called: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        served = verdict.extras.get("model_served")
        if isinstance(served, str):
            called["gen_ai.response.model"] = served
        if verdict.tokens is not None:
            called["gen_ai.usage.input_tokens"] = verdict.tokens.input
            called["gen_ai.usage.output_tokens"] = verdict.tokens.output
        yield Span("chat", "client", span_id(record_id, f"{path}/call"), own, start, end, called, error)
    for member in verdict.members:
        yield from _supervisor_spans(record_id, member, f"{path}/{member.supervisor}", own, start, stage)


def _upstream(seen: Seen, root: int) -> Span:
    record, call = seen.record, seen.record.upstream_call
    end = record.started + record.seconds
    seconds = min(call.seconds or 0.0, record.seconds)
    judged = max([one.seconds for one in record.decisions if one.stage == "input" and one.enforce], default=0.0)
    start = max(record.started, min(record.started + judged, end - seconds))
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": seen.operation,
        "gen_ai.provider.name": seen.provider,
        "guardrail.upstream": record.upstream or "other",
        "guardrail.upstream.attempts": call.attempts,
    }
    if record.model:
        attributes["gen_ai.request.model"] = record.model
    if record.model_served:
        attributes["gen_ai.response.model"] = record.model_served
    reasons = tuple([reason for reason in record.client.finish_reasons if reason])
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = reasons
    for direction, number in count_tokens(record.usage).items():
        attributes[f"gen_ai.usage.{direction}_tokens"] = number
    if call.status is not None:
        attributes["http.response.status_code"] = call.status
    if call.error_kind is not None:
        attributes["error.type"] = call.error_kind
    name = f"{seen.operation} {seen.model}"
    own = span_id(record.id, UPSTREAM)
    return Span(name, "client", own, root, start, start + seconds, attributes, call.error_kind)


def count_tokens(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the tokens of a usage by direction, in the words of either API family."""
    found: dict[str, int] = {}
    for direction, names in (
        ("input", ("prompt_tokens", "input_tokens")),
        ("output", ("completion_tokens", "output_tokens")),
    ):
        counts = [value for name in names if isinstance(value := (usage or {}).get(name), int)]
        if counts:
            found[direction] = counts[0]
    return found
