from __future__ import annotations

from typing import Any

import pytest

from evals.client import GateDecision
from evals.trials import describe_answer, gate_fields, read_gate, unpaid_supervisors, verdict_row
from supervisors.testing import Finds
from tests.evals.harness import make_words_guard

SORRY = "I'm sorry, but I can't help with that."
LONG = "Here is the answer to the question you asked me about cats."


def _behaviour(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    fields, _ = describe_answer({"choices": [{"message": message, "finish_reason": finish}], "model": "m"})
    behaviour = fields["behaviour"]
    assert isinstance(behaviour, dict)
    return dict(behaviour)


@pytest.mark.parametrize(
    ("message", "finish", "kind", "channel"),
    [
        ({"content": LONG}, "stop", "complied", "content"),
        ({"content": SORRY}, "stop", "refused", "content"),
        ({"content": None, "refusal": SORRY}, "stop", "refused", "refusal"),
        ({"content": None, "reasoning_content": SORRY}, "stop", "refused", "reasoning"),
        ({"content": ""}, "length", "empty", None),
        ({"content": None}, "content_filter", "refused", None),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", "tool_call", None),
    ],
)
def test_behaviour_is_seen_in_its_channel(
    message: dict[str, Any], finish: str, kind: str, channel: str | None
) -> None:  # H-13, H-129, H-130
    found = _behaviour(message, finish)
    assert (found["kind"], found["channel"]) == (kind, channel)
    assert found["truncated"] is (finish == "length")
    assert found["provider_block"] is (finish == "content_filter")


def test_reasoning_is_kept_apart_from_the_answer() -> None:  # H-106
    fields, texts = describe_answer({"choices": [{"message": {"content": LONG, "reasoning_content": "hm"}}]})
    assert texts == [LONG, "hm"]
    assert isinstance(fields["answer"], dict)
    assert fields["answer"]["channels"] == {"content": len(LONG), "refusal": 0, "reasoning": 2}


def test_a_body_without_choices_is_an_empty_answer() -> None:  # H-14
    fields, texts = describe_answer({})
    assert texts == [""]
    assert isinstance(fields["behaviour"], dict)
    assert fields["behaviour"]["kind"] == "empty"


@pytest.mark.parametrize(
    ("made", "gate"),
    [
        (GateDecision("pass"), "pass"),
        (GateDecision("flag", flagged=True), "flag"),
        (GateDecision("flag", reason="unknown", unknown=True), "open_on_unknown"),
        (GateDecision("block", "input", "unsafe", flagged=True), "block_input"),
        (GateDecision("block", "output", "unsafe", flagged=True), "block_output"),
        (GateDecision("block", "input", "unknown", unknown=True), "closed_on_unknown"),
        (GateDecision("redact", "output", "unsafe", flagged=True), "redact"),
    ],
)
def test_every_decision_is_one_gate_outcome(made: GateDecision, gate: str) -> None:  # H-18
    assert gate_fields(made)["gate"] == gate


def test_shadow_decisions_of_a_record_are_not_what_the_proxy_did() -> None:
    row: dict[str, Any] = {"stage": "input", "action": "block", "reason": "unsafe", "label": "unsafe", "flagged": True}
    assert read_gate({"decisions": [{**row, "mode": "shadow"}]}).action == "pass"
    assert read_gate({"decisions": [{**row, "mode": "enforce"}]}) == GateDecision(
        "block", "input", "unsafe", flagged=True
    )


def test_supervisors_in_the_process_cost_nothing_and_others_what_they_say() -> None:
    remote = {"use": "moderation", "url": "http://127.0.0.1:9/v1"}
    panel = {"use": "vote", "strategy": "any", "members": {"near": Finds("x"), "far": remote}}
    unpaid = unpaid_supervisors(make_words_guard(panel=panel))
    assert unpaid == {"words", "panel/near"}
    row: dict[str, Any] = {"stage": "input", "label": "safe", "seconds": 0.1}
    assert verdict_row({**row, "supervisor": "panel/near"}, unpaid)["cost"] == 0.0
    assert verdict_row({**row, "supervisor": "panel/far"}, unpaid)["cost"] is None
    assert verdict_row({**row, "supervisor": "panel/far", "cost": 0.5}, unpaid)["cost"] == 0.5
