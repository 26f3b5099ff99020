"""Trials in the design of BELLS, for the summary: severity by adversariality, families, score; no time (B-04, B-10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evals.attempts import as_object
from evals.bells.table import build_tables
from evals.bells.verdicts import SEVERITIES, Adversariality, BellsItem, ItemVerdict, Severity
from evals.client import number, objects
from evals.journal import JsonObject
from evals.plan import PlannedTrial
from evals.rows import SEEN, Row, Rows, policy_verdict
from evals.statistics.jsonable import Json, to_json
from supervisors.types import Cause, Label


def summarise_bells(rows: Rows, *, allowed: bool = False) -> Json:
    """Return target → supervisor → its BELLS table; None when no trial is jailbroken.

    Args:
        rows: trials.
        allowed: items seen in the guard's training count, too. Otherwise they are left out, as in every headline; how
            many that were, and the table with them, stand in the table as `left_out` and `with_seen`.
    """
    if not any(trial.adversariality == "jailbroken" for trial in rows.planned):
        return None
    through = rows.where(lambda trial: trial.arm != "direct")
    return {target: _beside(group, allowed=allowed) for (target, _), group in through.grouped(_target).items()}


def without_seen(rows: Rows, *, allowed: bool) -> Rows:
    """Return the trials whose items were not seen in the guard's training; all of them if those are allowed."""
    return rows if allowed else rows.where(lambda trial: trial.contamination not in SEEN)


def _beside(rows: Rows, *, allowed: bool) -> Json:
    kept = without_seen(rows, allowed=allowed)
    tables, left_out = _tables(kept), len(rows) - len(kept)
    whole = _tables(rows) if left_out else {}
    return {
        name: {**as_object(table), "left_out": left_out, "with_seen": whole.get(name)} for name, table in tables.items()
    }


def _target(trial: PlannedTrial) -> tuple[str, str]:
    return trial.target, ""


def _tables(rows: Sequence[Row]) -> JsonObject:
    found: dict[str, Json] = {}
    for table in build_tables(to_item_verdicts(rows)):
        body = to_json(table)
        if isinstance(body, dict):
            body.pop("effort")  # times; the summary has them elsewhere
            found[table.supervisor] = body
    return found


def to_item_verdicts(rows: Sequence[Row]) -> Iterator[ItemVerdict]:
    """Yield the verdicts of the policy and of each supervisor in the design of BELLS; unplaced items give none.

    A trial that came to no verdicts counts as unknown for everybody who was asked in the others (Q-03): left out, it
    would change what the items that were judged weigh. These come last, from a second look at the rows.
    """
    names: dict[tuple[str, str], dict[str, None]] = {}
    failed = False
    for row in rows:
        verdicts = _in_design(row)
        yield from verdicts
        if row.status == "ok":
            names.setdefault(_asked_at(row), {}).update(dict.fromkeys([one.supervisor for one in verdicts]))
        failed = failed or (row.status != "ok" and bool(verdicts))
    for row in rows if failed else ():
        for one in _in_design(row) if row.status != "ok" else ():
            others = [name for name in names.get(_asked_at(row), {}) if name != one.supervisor]
            yield from [replace(one, supervisor=name) for name in others]


def _asked_at(row: Row) -> tuple[str, str]:
    """Return who was asked together: a check asks at the stage of its data set, nobody was to speak at the other."""
    return row.planned.target, row.planned.dataset if row.planned.arm == "check" else ""


def _in_design(row: Row) -> list[ItemVerdict]:
    severities: dict[str | None, Severity] = {word: word for word in SEVERITIES}
    severity = severities.get(row.planned.severity)
    if severity is None:
        return []
    adversariality: Adversariality = "jailbroken" if row.planned.adversariality == "jailbroken" else "direct"
    planned = row.planned
    item = BellsItem(
        id=planned.item_id,
        cluster=planned.cluster_id,
        severity=severity,
        adversariality=adversariality,
        family=planned.family,
        source=planned.source,
        category=planned.category[0] if planned.category else None,
        published_at=planned.published_at,
    )
    label, cause = policy_verdict(row)
    found = [] if label is None else [ItemVerdict(item, "policy", label, cause)]
    for verdict in objects(row.fields.get("verdicts")):
        own_cause = verdict.get("cause")
        found.append(
            ItemVerdict(
                item,
                f"{verdict['supervisor']}@{verdict['stage']}",
                Label(str(verdict["label"])),
                Cause(str(own_cause)) if own_cause is not None else None,
                number(verdict.get("seconds")),
                number(verdict.get("cost")),
            )
        )
    return found
