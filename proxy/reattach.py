"""What a record must have been judged by, worked out again from the archived config, and the outcome that follows.

A record that simply leaves out who should have judged is as wrong as one whose verdicts are missing. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from proxy.plan import UNSEEN
from proxy.record import BYPASS_TASK
from proxy.store.rules import Archive
from proxy.wire.adapter import INPUT_ONLY, MODERATIONS_ROUTE
from supervisors.types import Cause, Stage

Row = Mapping[str, Any]
Found = tuple[str, str]
"""Field and message."""

_STAGES: Sequence[Stage] = ("input", "output")
_EARLY = frozenset({"client_error", "unavailable"})
_JUDGED = frozenset({"exchange", "check", "moderation"})
_GONE = 499


def check_attached(body: Row, archive: Archive) -> Iterator[Found]:
    """Yield where a record names other policies, or prescribes less, than its config version does."""
    reach, kind = archive.reach, body["kind"]
    if not reach.knows(body["key_id"]):
        yield "key_id", f"is {body['key_id']!r}, which is no key of its config version"
    if kind == "unguarded":
        yield from _check_unguarded(body, archive)
    elif kind == "exchange" and body["task"] == BYPASS_TASK:
        yield from _check_bypass(body, archive)
    elif not is_refused(body):
        yield from _check_policies(body, archive)


def _check_policies(body: Row, archive: Archive) -> Iterator[Found]:
    reach, kind = archive.reach, body["kind"]
    names = tuple(body["policy"]["names"])
    expected = reach.policies_of(body["model"], body["key_id"], body["route"])
    if kind == "moderation":
        alone = reach.aliases.get(body["model"])
        expected = () if alone is None else (alone,)
    named_alone = kind == "check" and len(names) == 1 and names[0] in archive.policies
    if not body["model"] and kind != "moderation":  # its name was out of form and is not kept: "*" serves any
        fits = set(expected) <= set(names) <= set(archive.policies)
    else:
        fits = tuple(sorted(names)) == expected
    if not fits and not named_alone:
        yield "policy.names", f"are {', '.join(names) or 'none'}, the config attaches {', '.join(expected) or 'none'}"
        return
    if body["outcome"] != "interrupted":
        yield from _check_forced(body, archive, names)


def _check_bypass(body: Row, archive: Archive) -> Iterator[Found]:
    if not archive.reach.lets_pass(body["model"]):
        yield "task", f"is {BYPASS_TASK}, and its config version lets no judge pass to {body['model']!r}"
    if body["policy"]["names"] or body["verdicts"] or body["decisions"]:
        yield "task", f"is {BYPASS_TASK}, and yet it was judged"


def is_refused(body: Row) -> bool:
    """Say whether a request ended before anybody was asked to judge it: refused, or its caller left (O-13)."""
    judged = body["prescribed"]["input"] or body["prescribed"]["output"] or body["verdicts"] or body["decisions"]
    client = body["client"]
    refused = body["outcome"] in _EARLY and client["status"] >= 400
    left = body["outcome"] == "cancelled" and client["status"] == _GONE
    nothing = not judged and not body["policy"]["names"] and not body["upstream_call"]["called"]
    return body["kind"] in _JUDGED and nothing and (refused or left)


def _check_unguarded(body: Row, archive: Archive) -> Iterator[Found]:
    if body["route"] not in archive.reach.unguarded:
        yield "kind", f"is unguarded, and {body['route']} is no unguarded route of its config version"
    if body["policy"]["names"] or body["verdicts"] or body["decisions"]:
        yield "kind", "is unguarded, and yet it was judged"


def _check_forced(body: Row, archive: Archive, names: Sequence[str]) -> Iterator[Found]:
    missing: dict[Stage, set[str]] = {}
    due = _STAGES[:1] if body["route"] in INPUT_ONLY or body["kind"] == "moderation" else _STAGES
    for stage in due:
        forced = {name for policy in names for name in archive.forced.get(policy, {}).get(stage, ())}
        if body["view"]["unseen_history"]:
            rules = [rule for policy in names for rule in archive.policies[policy].get(stage, ())]
            forced |= {rule.supervisor for rule in rules if rule.supervisor == UNSEEN}
        if forced - set(body["prescribed"][stage]):
            missing[stage] = forced - set(body["prescribed"][stage])
    if body["kind"] == "check":  # a check may be about one stage only, then about all of it
        whole = [stage for stage in due if stage not in missing]
        missing = {stage: left for stage, left in missing.items() if body["prescribed"][stage] or not whole}
    for stage, left in missing.items():
        for name in sorted(left):
            yield "prescribed", f"{name} is forced at {stage} and was not prescribed"


def check_outcome(body: Row) -> Iterator[Found]:
    """Yield where the outcome does not follow from the decisions."""
    yield from _check_kind(body)
    if body["kind"] not in ("exchange", "check"):
        return
    blocked = {row["stage"] for row in body["decisions"] if row["blocked"] and row["mode"] == "enforce"}
    outcome, status = body["outcome"], body["client"]["status"]
    cut = body.get("stream") and body["client"].get("terminator") != "done"
    if outcome == "answered":
        yield from _check_answered(body, blocked)
    for stage in _STAGES:
        if outcome == f"blocked_{stage}" and stage not in blocked:
            yield "outcome", f"is {outcome}, and nothing was blocked at {stage}"
    if outcome in _EARLY and status < 400 and not blocked and not cut:
        yield "outcome", f"is {outcome}, and the caller got status {status}"


def _check_kind(body: Row) -> Iterator[Found]:
    kind, route = body["kind"], body["route"]
    if kind in ("check", "moderation") and body["upstream_call"]["called"]:
        yield "kind", f"is {kind}, which never calls a model server, and one was called"
    served = (route == MODERATIONS_ROUTE) == (kind == "moderation") or kind == "unguarded"
    if not served and not is_refused(body):
        yield "kind", f"is {kind}, which {route} does not serve"


def _check_answered(body: Row, blocked: Collection[str]) -> Iterator[Found]:
    for stage in sorted(blocked):
        yield "outcome", f"is answered, and {stage} was blocked"
    if body["kind"] == "exchange":
        if not body["upstream_call"]["called"]:
            yield "outcome", "is answered, and no model server was called"
        yield from _check_judged(body)


def _check_judged(body: Row) -> Iterator[Found]:
    """Yield who was not asked although the exchange was answered: nobody ends a stage early but with a block.

    A supervisor that was asked may itself have nothing to judge, and then says `skipped`, too.
    """
    replied = bool(body["client"]["finish_reasons"])
    for row in body["verdicts"]:
        skipped = row["cause"] == Cause.SKIPPED.value and row["mode"] == "enforce" and "/" not in row["supervisor"]
        unreached = row["stage"] == "output" and row["choice"] is None and replied
        if skipped and (unreached or not _was_asked(row)):
            yield "outcome", f"is answered, and {row['supervisor']} was skipped at {row['stage']}"


def _was_asked(row: Row) -> bool:
    """Say whether a skipped verdict can be a supervisor's own; the proxy's for one never asked holds nothing."""
    return bool(row["detail"] or row["members"] or row["seconds"] or row["chars_judged"])


def check_interrupted(body: Row, begun: str, *, later: bool) -> Iterator[Found]:
    """Yield why a record is none that a start made of a stream which had been cut off before it.

    Args:
        body: the record.
        begun: when its start began.
        later: other records of this start stand before it.
    """
    if body["outcome"] != "interrupted":
        return
    if later:
        yield "outcome", "is interrupted, and stands behind records of its own start, which writes such records first"
    elif body["time"] >= begun:
        yield "outcome", f"is interrupted, and began after the start that found it, {begun}"
