"""What must hold inside one stored record: every prescribed verdict exactly once, and decisions that follow from them.

Works on the stored JSON and the archived rules only, so that it can be run by somebody who trusts neither the proxy
nor its memory. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proxy.policy import Decision, Rule, decide
from proxy.reattach import check_attached, check_outcome
from proxy.rows import decision_row, whole_decision
from proxy.store.rules import Plans
from supervisors.errors import StoreError
from supervisors.types import Assessment, Cause, Label, Span, Stage, Verdict

Row = Mapping[str, Any]

_STAGES: Sequence[Stage] = ("input", "output")
_DECIDED = ("label", "cause", "flagged", "blocked", "redacted", "action", "reason")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not hold.

    Args:
        field: which part of the record.
        message: what it is and what it should be.
    """

    field: str
    message: str


def check_record(body: Row, plans: Plans | None) -> Iterator[Problem]:
    """Yield what is wrong inside a record; without an archived config only what needs none is checked.

    Args:
        body: the record as stored.
        plans: rules of the config version it names, None if that is not archived.
    """
    try:
        yield from check_verdicts(body)
        if plans is None:
            if body["prescribed"]["input"] or body["prescribed"]["output"]:
                yield Problem("policy", f"config version {body['policy']['version'][:12]} is not archived")
            return
        for field, message in (*check_attached(body, plans.archive), *check_outcome(body)):
            yield Problem(field, message)
        yield from check_prescribed(body, plans)
        yield from check_decisions(body, plans)
    except StoreError as error:
        yield Problem("policy", str(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        yield not_a_record(error)


def not_a_record(error: Exception) -> Problem:
    """Return the problem of a body that could not be read through."""
    return Problem("body", f"is not a record of schema 1 ({type(error).__name__}: {error})")


def check_verdicts(body: Row) -> Iterator[Problem]:
    """Yield every verdict that is missing, doubled or not prescribed (O-11)."""
    rows: Sequence[Row] = body["verdicts"]
    found = Counter([(row["supervisor"], row["stage"], row["choice"]) for row in rows])
    for (name, stage, choice), count in found.items():
        if count > 1:
            yield Problem("verdicts", f"{_place(name, stage, choice)} has {count} verdicts, must have one")
    top = [row for row in rows if "/" not in row["supervisor"]]
    for stage in _STAGES:
        names: Sequence[str] = body["prescribed"][stage]
        here = [row for row in top if row["stage"] == stage]
        for name in sorted({row["supervisor"] for row in here} - set(names)):
            yield Problem("verdicts", f"{name} has a verdict at {stage} and is not prescribed there")
        if names:
            yield from _check_stage(body, stage, here)
    yield from _check_members(rows)


def _check_stage(body: Row, stage: Stage, rows: Sequence[Row]) -> Iterator[Problem]:
    choices: set[int | None] = {None} if stage == "input" else {row["choice"] for row in rows} or {None}
    answered = len(body["client"]["finish_reasons"])
    if stage == "output" and None not in choices and len(choices) < answered:
        choices |= set(range(answered))  # a model server may count its choices otherwise; it cannot leave one out
    seen = {(row["supervisor"], row["choice"]) for row in rows}
    for name in body["prescribed"][stage]:
        for choice in sorted(choices, key=lambda one: -1 if one is None else one):
            if (name, choice) not in seen:
                yield Problem("verdicts", f"{_place(name, stage, choice)} is prescribed and has no verdict")
    for row in rows:
        if stage == "input" and row["choice"] is not None:
            yield Problem("verdicts", f"{_place(row['supervisor'], stage, row['choice'])} must have choice null")
        if stage == "output" and row["choice"] is None and row["cause"] != Cause.SKIPPED.value:
            place = _place(row["supervisor"], stage, None)
            yield Problem("verdicts", f"{place} judged without a choice: only unknown/skipped may have choice null")


def _check_members(rows: Sequence[Row]) -> Iterator[Problem]:
    present = Counter([(_parent(row["supervisor"]), row["stage"], row["choice"]) for row in rows])
    for row in rows:
        key = (row["supervisor"], row["stage"], row["choice"])
        if present[key] != row["members"]:
            yield Problem("verdicts", f"{_place(*key)} has {present[key]} members, its verdict says {row['members']}")
    names = {(row["supervisor"], row["stage"], row["choice"]) for row in rows}
    for parent, stage, choice in present:
        if parent and (parent, stage, choice) not in names:
            yield Problem("verdicts", f"{_place(parent, stage, choice)} has members and no verdict")


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _place(name: str, stage: str, choice: int | None) -> str:
    return f"{name} at {stage}" if choice is None else f"{name} at {stage}, choice {choice}"


def check_prescribed(body: Row, plans: Plans) -> Iterator[Problem]:
    """Yield where the record prescribes other supervisors than its policies do, and modes that are not the rule's."""
    policies: Sequence[str] = body["policy"]["names"]
    for stage in _STAGES:
        named: set[str] = set(body["prescribed"][stage])
        rules = _rules(body, plans, stage)
        for name in sorted(named - rules.keys()):
            yield Problem("prescribed", f"{name} at {stage} is in none of the policies {', '.join(policies)}")
        for row in body["verdicts"]:
            rule = rules.get(row["supervisor"].partition("/")[0]) if row["stage"] == stage else None
            if rule is not None and row["mode"] != _mode(rule):
                place = _place(row["supervisor"], stage, row["choice"])
                yield Problem("verdicts", f"{place} has mode {row['mode']}, the policy says {_mode(rule)}")


def check_decisions(body: Row, plans: Plans) -> Iterator[Problem]:
    """Yield every stored decision that differs from the one its verdicts lead to, and those missing or doubled."""
    seen: Counter[tuple[str, str, int | None, str]] = Counter()
    for row in body["decisions"]:
        key = (row["policy"], row["stage"], row["choice"], row["mode"])
        seen[key] += 1
        if seen[key] > 1:
            yield Problem("decisions", f"{_decided_at(*key)} is decided twice")
            continue
        again = whole_decision(decision_row(_decide_again(body, plans, row)))
        for name in _DECIDED:
            if row[name] != again[name]:
                yield Problem(
                    f"decisions.{name}",
                    f"{_decided_at(*key)} is stored as {row[name]!r}, the verdicts lead to {again[name]!r}",
                )
    if body["outcome"] != "cancelled":  # a caller that left early may have left before the decision
        for key in _due(body, plans):
            if key not in seen:
                yield Problem("decisions", f"{_decided_at(*key)} has verdicts and no decision")


def _decide_again(body: Row, plans: Plans, row: Row) -> Decision:
    stage: Stage = row["stage"]
    prescribed: Sequence[str] = body["prescribed"][stage]
    rules = [
        rule
        for rule in _rules(body, plans, stage).values()
        if row["policy"] in rule.policies and _mode(rule) == row["mode"] and rule.supervisor in prescribed
    ]
    decision = decide(row["policy"], stage, row["choice"], rules, _assessments(body, stage, row["choice"]))
    if row["late_spans"] and decision.redacted:
        # A span that began in released text cannot be redacted any more (guarding §7).
        return replace(decision, action="block", blocked=True, redacted=False)
    return decision


def _due(body: Row, plans: Plans) -> Iterator[tuple[str, str, int | None, str]]:
    for stage in _STAGES:
        prescribed: Sequence[str] = body["prescribed"][stage]
        rules = {name: rule for name, rule in _rules(body, plans, stage).items() if name in prescribed}
        judged = {
            (policy, stage, row["choice"], _mode(rules[row["supervisor"]]))
            for row in body["verdicts"]
            if row["stage"] == stage and row["supervisor"] in rules and row["cause"] != Cause.SKIPPED.value
            for policy in rules[row["supervisor"]].policies
        }
        yield from sorted(judged, key=str)


def _rules(body: Row, plans: Plans, stage: Stage) -> Mapping[str, Rule]:
    tightened = stage in body["tightened"]
    return plans.rules(body["policy"]["names"], stage, stream=body["stream"], tightened=tightened)


def _mode(rule: Rule) -> str:
    return "enforce" if rule.enforce else "shadow"


def _assessments(body: Row, stage: Stage, choice: int | None) -> list[Assessment]:
    return [
        Assessment(row["supervisor"], _verdict(row))
        for row in body["verdicts"]
        if row["stage"] == stage and row["choice"] == choice and "/" not in row["supervisor"]
    ]


def _verdict(row: Row) -> Verdict:
    return Verdict(
        Label(row["label"]),
        Cause(row["cause"]) if row["cause"] is not None else None,
        scope=row["scope"],
        spans=tuple([Span(*span) for span in row["spans"]]),
        rest=Cause(row["rest"]) if row["rest"] is not None else None,
    )


def _decided_at(policy: str, stage: str, choice: int | None, mode: str) -> str:
    return f"{_place(policy, stage, choice)} ({mode})"
