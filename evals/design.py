"""Trials in the design of BELLS, for the summary: severity by adversariality, families, score; no time (B-04, B-10)."""

from __future__ import annotations

from collections.abc import Sequence

from evals.bells.table import build_tables
from evals.plan import PlannedTrial
from evals.rows import Row, Rows, to_item_verdicts
from evals.statistics.jsonable import Json, to_json


def summarise_bells(rows: Rows) -> Json:
    """Return target → supervisor → its BELLS table; None when no trial is jailbroken."""
    if not any(trial.adversariality == "jailbroken" for trial in rows.planned):
        return None
    through = rows.where(lambda trial: trial.arm != "direct")
    return {target: _tables(group) for (target, _), group in through.grouped(_target).items()}


def _target(trial: PlannedTrial) -> tuple[str, str]:
    return trial.target, ""


def _tables(rows: Sequence[Row]) -> Json:
    found: dict[str, Json] = {}
    for table in build_tables(to_item_verdicts(rows)):
        body = to_json(table)
        if isinstance(body, dict):
            body.pop("effort")  # times; the summary has them elsewhere
            found[table.supervisor] = body
    return found
