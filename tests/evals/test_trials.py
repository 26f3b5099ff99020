from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.client import GateDecision
from evals.journal import JsonObject, canonical
from evals.replay import tokens_of
from evals.spending import unpaid_supervisors
from evals.statistics.jsonable import Json
from evals.trials import describe_answer, gate_fields, read_gate, verdict_of, verdict_row
from supervisors.cascade import Cascade, Step
from supervisors.errors import ChatUnavailable
from supervisors.testing import Fails, Finds
from supervisors.types import Cause, Label
from supervisors.vote import Vote
from tests.evals.harness import CANARY, make_options, make_run, make_words_guard

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


def _verdict(name: str, label: str, cause: str | None = None) -> JsonObject:
    return {"supervisor": name, "stage": "input", "label": label, "cause": cause, "mode": "enforce"}


def test_a_panel_answers_for_its_members_and_a_cascade_for_its_steps() -> None:  # G-27, Q-03
    broken = _verdict("panel/c", "unknown", "error")
    assert verdict_of({"flagged": False, "verdicts": [_verdict("panel", "safe"), broken]}) == (Label.SAFE, None)
    both: list[Json] = [_verdict("panel", "unknown", "timeout"), broken]
    assert verdict_of({"flagged": False, "verdicts": both}) == (Label.UNKNOWN, Cause.TIMEOUT)
    unasked: list[Json] = [_verdict("panel", "unknown", "skipped"), _verdict("panel/a", "safe")]
    assert verdict_of({"flagged": False, "verdicts": unasked}) == (Label.UNKNOWN, Cause.SKIPPED)


_BROKEN = Fails(ChatUnavailable("down"))


@pytest.mark.parametrize(
    "whole",
    [
        Vote.model_construct(strategy="majority", members={"a": Finds(CANARY), "b": Finds(CANARY), "c": _BROKEN}),
        Cascade.model_construct(
            steps=(Step.model_construct(supervisor=_BROKEN), Step.model_construct(supervisor=Finds(CANARY)))
        ),
    ],
)
def test_a_broken_part_leaves_the_rates_of_the_policy_those_of_the_whole(tmp_path: Path, whole: object) -> None:
    run = make_run(
        tmp_path / "run", make_options(tmp_path), make_words_guard({"input": {"forced": ["whole"]}}, whole=whole)
    )
    for name in ("detection_rate", "false_positive_rate", "unknown_rate"):
        policy, alone = run.section["rates"][name], run.section["supervisors"]["whole@input"][name]
        assert (policy["k"], policy["n"]) == (alone["k"], alone["n"])
    assert (policy["k"], policy["n"]) == (0, 10)


def test_a_line_holds_no_word_of_a_reply_that_no_line_can() -> None:  # H-126
    reply: Any = {
        "choices": [{"message": {"content": "fine"}, "finish_reason": {"why": float("nan")}}],
        "model": "m" * 1_000_000,
        "usage": {"prompt_tokens": 1, "time": float("nan"), "notes": ["x" * 1_000_000]},
    }
    fields, _ = describe_answer(reply)
    assert fields["usage"] == {"prompt_tokens": 1}
    assert len(canonical(fields)) < 2000


@pytest.mark.parametrize("how", ["refusal", "error"])
def test_an_answer_that_is_blocked_is_paid_all_the_same(tmp_path: Path, how: str) -> None:  # H-133
    policy = {"output": {"forced": ["answers"]}, "on_block": {"output": how}}
    guard = make_words_guard(policy, answers=Finds("synthetic answer"))
    run = make_run(tmp_path / how, make_options(tmp_path, ledger="off", price=(1e6, 1e6)), guard)
    blocked = [line for line in run.lines if line["gate"] == "block_output"]
    assert blocked
    assert all(line["cost_usd"] > 0 and tokens_of(line) for line in blocked)


def test_a_request_that_is_blocked_costs_nothing(tmp_path: Path) -> None:  # H-133
    run = make_run(tmp_path / "run", make_options(tmp_path, ledger="off", price=(1e6, 1e6)))
    blocked = [line for line in run.lines if line["gate"] == "block_input"]
    assert [(line["cost_usd"], tokens_of(line)) for line in blocked] == [(0.0, 0)] * 5
