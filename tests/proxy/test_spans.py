"""The spans of a record (O-21): one a stage, one a verdict, one a call; blocks are no errors (O-18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.record import JudgedBy, Record, UpstreamCall, flatten
from proxy.spans import Seen, Span, make_spans
from proxy.store.testing import record, varied
from proxy.traceparent import Trace, span_id
from supervisors.types import Assessment, Cause, Tokens, Verdict, safe, unknown, unsafe


def spans_of(row: Record, *, capture: bool = False) -> list[Span]:
    return make_spans(Seen(row, Trace(1, 2, sampled=True), "small", "openai", "full"), capture=capture)


def named(spans: list[Span], name: str) -> list[Span]:
    return [one for one in spans if one.name == name]


@pytest.mark.parametrize("number", range(40))
def test_every_verdict_has_one_span_and_all_hang_together(number: int) -> None:  # O-21
    row = varied(number)
    spans = spans_of(row)
    ids = [one.id for one in spans]
    assert len(ids) == len(set(ids))
    assert {one.parent for one in spans} <= {2, *ids}
    assert (spans[0].parent, spans[0].kind) == (2, "server")
    told = sorted([str(one.attributes["guardrail.supervisor.name"]) for one in named(spans, "guardrail.supervisor")])
    assert told == sorted([name for name, _, _ in flatten(row.verdicts)])
    for one in spans:
        assert row.started <= one.start_s <= one.end_s


def test_a_block_is_no_error_and_a_failed_supervisor_is() -> None:  # O-18, O-21
    failed = next(row for row in map(varied, range(200)) if "timeout" in str(row.verdicts))
    for row in map(varied, range(200)):
        for one in spans_of(row):
            cause = one.attributes.get("guardrail.verdict.cause")
            assert (one.error is not None) == (cause in ("timeout", "error")), one
    found = [one for one in spans_of(failed) if one.error]
    assert {one.error for one in found} == {"unknown/timeout"}
    blocked = next(row for row in map(varied, range(200)) if row.outcome == "blocked_input")
    root = spans_of(blocked)[0]
    assert (root.error, root.attributes["guardrail.outcome"]) == (None, "blocked_input")


def test_a_stage_says_what_was_decided_and_by_which_policies() -> None:  # O-21
    row = next(row for row in map(varied, range(200)) if row.outcome == "blocked_input")
    stage = next(one for one in named(spans_of(row), "guardrail.stage") if one.attributes["guardrail.stage"] == "input")
    assert stage.attributes["guardrail.decision.action"] == "block"
    assert stage.attributes["guardrail.decision.reason"] in ("unsafe", "unknown")
    assert stage.attributes["guardrail.policy.names"] == ("default",)
    assert stage.attributes["guardrail.mode"] == "enforce"


def test_the_call_of_the_model_has_the_id_that_was_sent_with_it() -> None:  # O-21, O-22
    row = replace(record(1), usage={"prompt_tokens": 12, "completion_tokens": 5})
    (call,) = named(spans_of(row), "chat small")
    assert (call.id, call.kind) == (span_id(row.id, "upstream"), "client")
    assert call.attributes["gen_ai.usage.input_tokens"] == 12
    assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert call.attributes["gen_ai.provider.name"] == "openai"
    broken = replace(row, upstream_call=UpstreamCall(called=True, seconds=0.1, error_kind="connect"))
    (call,) = named(spans_of(broken), "chat small")
    assert (call.error, call.attributes["error.type"]) == ("connect", "connect")


def test_a_judge_has_a_span_for_its_call() -> None:  # O-21
    extras = {"model_requested": "judge-large", "model_served": "judge-large-2"}
    verdict = replace(unsafe("canary"), extras=extras, tokens=Tokens(30, 3))
    judged = JudgedBy(Assessment("judge", verdict, 0.2), "input", None, enforce=True)
    row = replace(record(1), verdicts=(judged,), decisions=())
    (call,) = named(spans_of(row), "chat")
    (parent,) = named(spans_of(row), "guardrail.supervisor")
    assert (call.parent, call.kind) == (parent.id, "client")
    assert call.attributes["gen_ai.response.model"] == "judge-large-2"
    assert call.attributes["gen_ai.usage.output_tokens"] == 3
    cached = replace(judged, assessment=replace(judged.assessment, verdict=replace(verdict, cached=True)))
    assert named(spans_of(replace(row, verdicts=(cached,))), "chat") == []


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (unknown(Cause.ERROR), "unknown/error"),
        (unknown(Cause.TIMEOUT), "unknown/timeout"),
        (unknown(Cause.UNPARSABLE), None),
        (unknown(Cause.SKIPPED), None),
        (unsafe("canary"), None),
        (safe(), None),
    ],
)
def test_error_and_timeout_are_errors_and_nothing_else_is(verdict: Verdict, error: str | None) -> None:  # O-21
    row = replace(
        record(1), verdicts=(JudgedBy(Assessment("one", verdict), "input", None, enforce=True),), decisions=()
    )
    (span,) = named(spans_of(row), "guardrail.supervisor")
    assert span.error == error


def test_content_stands_in_spans_only_when_both_switches_say_so() -> None:  # O-22
    kept = {"mode": "full", "input": [{"role": "user", "text": "violet umbrella"}]}
    full = replace(record(1), content=kept)
    hashed = replace(record(1), content={**kept, "mode": "hashed"})
    assert "violet" in str(spans_of(full, capture=True)[0].attributes["gen_ai.input.messages"])
    for row, capture in ((full, False), (hashed, True), (record(1), True)):
        assert "violet" not in str(spans_of(row, capture=capture))
        assert "gen_ai.input.messages" not in spans_of(row, capture=capture)[0].attributes
