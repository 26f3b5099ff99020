"""The decision table of guarding §4, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.policy import Action, OnUnsafe, Reason, Rule, StagePolicy, UnknownPolicy, decide, settles
from supervisors.types import Assessment, Cause, Label, Span, Verdict, safe, unknown, unsafe

LOCATED = unsafe("canary", spans=(Span("/messages/0/content", 0, 6, "canary"),))
LOG = UnknownPolicy(default="log")


@pytest.mark.parametrize(
    ("on_unsafe", "on_unknown", "verdict", "action", "reason", "flagged"),
    [
        ("block", "block", safe(), "pass", None, False),
        ("log", "block", unsafe("canary"), "flag", "unsafe", True),
        ("redact", "block", LOCATED, "redact", "unsafe", True),
        ("redact", "block", unsafe("canary"), "block", "unsafe", True),
        ("block", "block", unsafe("canary"), "block", "unsafe", True),
        ("block", "log", unknown(Cause.TIMEOUT), "flag", "unknown", False),
        ("block", "block", unknown(Cause.TIMEOUT), "block", "unknown", False),
        ("block", "block", unknown(Cause.SKIPPED), "pass", None, False),
        ("redact", "block", replace(LOCATED, rest=Cause.TIMEOUT), "block", "unknown", True),
        ("redact", "log", replace(LOCATED, rest=Cause.TIMEOUT), "redact", "unsafe", True),
        ("redact", "block", replace(LOCATED, rest=Cause.SKIPPED), "redact", "unsafe", True),
        ("log", "block", replace(LOCATED, rest=Cause.UNSUPPORTED), "block", "unknown", True),
        ("log", "log", replace(LOCATED, rest=Cause.UNSUPPORTED), "flag", "unsafe", True),
        ("block", "log", replace(LOCATED, rest=Cause.UNSUPPORTED), "block", "unsafe", True),
    ],
)
def test_each_row_of_the_decision_table(
    on_unsafe: OnUnsafe,
    on_unknown: str,
    verdict: Verdict,
    action: Action,
    reason: Reason | None,
    flagged: bool,
) -> None:
    rule = Rule("a", on_unsafe, LOG if on_unknown == "log" else UnknownPolicy())
    decision = decide("default", "input", None, [rule], [Assessment("a", verdict)])
    assert (decision.action, decision.reason, decision.flagged) == (action, reason, flagged)
    assert decision.blocked == (action == "block")
    assert decision.redacted == (action == "redact")


def test_the_strictest_action_wins_and_unsafe_names_the_reason() -> None:
    rules = [Rule("a"), Rule("b"), Rule("c", "log")]
    verdicts = [unknown(Cause.ERROR), unsafe("x"), unsafe("y")]
    found = [Assessment(rule.supervisor, verdict) for rule, verdict in zip(rules, verdicts, strict=True)]
    decision = decide("default", "input", None, rules, found)
    assert (decision.action, decision.reason, decision.label) == ("block", "unsafe", Label.UNSAFE)


def test_a_stage_nobody_judged_is_unknown_skipped_and_passes() -> None:  # G-17
    decision = decide("default", "input", None, [], [])
    assert (decision.label, decision.cause, decision.action) == (Label.UNKNOWN, Cause.SKIPPED, "pass")


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.SKIPPED])
def test_on_unknown_by_cause_takes_default_for_causes_not_named(cause: Cause) -> None:  # G-17
    policy = UnknownPolicy(default="block", unsupported="log")
    assert policy.action(cause) == ("log" if cause is Cause.UNSUPPORTED else "block")


def test_an_enforcing_stage_blocks_by_default_and_a_shadow_stage_logs() -> None:  # G-18
    assert StagePolicy().unsafe_action == "block"
    assert StagePolicy().unknown_policy.action(Cause.ERROR) == "block"
    assert StagePolicy(mode="shadow").unsafe_action == "log"
    assert StagePolicy(mode="shadow").unknown_policy.action(Cause.ERROR) == "log"


def test_a_finding_in_tool_definitions_follows_the_rule_of_its_scope() -> None:  # M-08
    rule = Rule("a", on_scope={"tool_def": "log"})
    found = Verdict(Label.UNSAFE, scope="tool_def")
    assert decide("default", "input", None, [rule], [Assessment("a", found)]).action == "flag"
    assert not settles(rule, found)
    assert settles(rule, unsafe("x"))
