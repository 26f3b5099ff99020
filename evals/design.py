"""Trials in the design of BELLS, for the summary: severity by adversariality, families, score; no time (B-04, B-10)."""

from __future__ import annotations

from collections.abc import Sequence

from evals.bells.table import build_tables
from evals.rows import Row, to_item_verdicts
from evals.statistics.jsonable import Json, to_json


def summarise_bells(rows: Sequence[Row]) -> Json:
    """Return target → supervisor → its BELLS table; None when no trial is jailbroken."""
    if not any(row.planned.adversariality == "jailbroken" for row in rows):
        return None
    through = [row for row in rows if row.planned.arm != "direct"]
    targets = list(dict.fromkeys([row.planned.target for row in through]))
    return {target: _tables([row for row in through if row.planned.target == target]) for target in targets}


def _tables(rows: Sequence[Row]) -> Json:
    found: dict[str, Json] = {}
    for table in build_tables([verdict for row in rows for verdict in to_item_verdicts(row)]):
        body = to_json(table)
        if isinstance(body, dict):
            body.pop("effort")  # times; the summary has them elsewhere
            found[table.supervisor] = body
    return found
