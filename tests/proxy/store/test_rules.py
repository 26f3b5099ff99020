"""Archived rules come back as they were, and merge to the strictest (G-16)."""

from __future__ import annotations

from itertools import product

import pytest

from proxy.policy import OnUnknown, OnUnsafe, Rule, UnknownPolicy
from proxy.store.rules import Archive, Plans, merge_rules, rule_from_json, rule_to_json
from proxy.store.testing import ARCHIVE
from supervisors.errors import StoreError
from supervisors.types import Cause

UNSAFE: tuple[OnUnsafe, ...] = ("log", "redact", "block")
UNKNOWN: tuple[OnUnknown, ...] = ("log", "block")


def test_an_archive_survives_its_text() -> None:
    again = Archive.from_text(ARCHIVE.to_text())
    assert again.to_text() == ARCHIVE.to_text()
    assert again.labels == ARCHIVE.labels
    assert again.policies["default"]["input"][1].on_unknown.action(Cause.TIMEOUT) == "log"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"policies": {}, "forced": {}, "labels": 3}'])
def test_a_text_that_is_no_archive_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="archived config cannot be read"):
        Archive.from_text(text)


def test_a_rule_with_an_unknown_action_is_refused() -> None:
    row = {**rule_to_json(Rule("a")), "on_unsafe": "allow"}
    with pytest.raises(ValueError, match="on_unsafe is 'allow', it must be block, redact or log"):
        rule_from_json(row)


@pytest.mark.parametrize(("one", "other"), list(product(UNSAFE, UNSAFE)))
def test_the_stricter_on_unsafe_wins_in_either_order(one: OnUnsafe, other: OnUnsafe) -> None:  # G-16
    stricter = UNSAFE[max(UNSAFE.index(one), UNSAFE.index(other))]
    assert merge_rules([Rule("a", one), Rule("a", other)]).on_unsafe == stricter


@pytest.mark.parametrize(("one", "other"), list(product(UNKNOWN, UNKNOWN)))
def test_the_stricter_on_unknown_wins_for_each_cause(one: OnUnknown, other: OnUnknown) -> None:  # G-16, G-17
    rules = [Rule("a", on_unknown=UnknownPolicy(default="log", timeout=one))]
    rules.append(Rule("a", on_unknown=UnknownPolicy(default="log", timeout=other)))
    merged = merge_rules(rules).on_unknown
    assert merged.action(Cause.TIMEOUT) == ("block" if "block" in (one, other) else "log")
    assert merged.action(Cause.ERROR) == "log"


def test_a_scope_that_one_policy_names_is_compared_with_the_others_default() -> None:  # G-16
    merged = merge_rules([Rule("a", "block", on_scope={"system": "log"}), Rule("a", "redact")])
    assert (merged.unsafe_action("system"), merged.unsafe_action("conversation")) == ("redact", "block")


def test_a_plan_joins_policies_and_streams_may_differ() -> None:  # G-16
    plans = Plans(
        Archive(
            {
                "one": {"input": (), "output": (Rule("a", "log"), Rule("b"))},
                "two": {"input": (), "output": (Rule("a"),), "stream": (Rule("a", enforce=False),)},
            }
        )
    )
    whole = plans.rules(["one", "two"], "output", stream=False, tightened=False)
    assert {name: (rule.on_unsafe, rule.policies) for name, rule in whole.items()} == {
        "a": ("block", ("one", "two")),
        "b": ("block", ("one",)),
    }
    streamed = plans.rules(["two"], "output", stream=True, tightened=False)
    assert not streamed["a"].enforce
    tightened = plans.rules(["two"], "output", stream=True, tightened=True)  # W-15
    assert (tightened["a"].enforce, tightened["a"].on_unsafe) == (True, "block")
    with pytest.raises(StoreError, match="policy 'three' is not in the archived config"):
        plans.rules(["three"], "input", stream=False, tightened=False)
