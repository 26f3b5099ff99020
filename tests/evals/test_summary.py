from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.alike import count_alike
from evals.plan import read_plan
from evals.plan import to_rows as plan_rows
from evals.report.table import measures
from evals.rows import Row
from evals.summary import section
from tests.evals.test_discrimination import row, to_rows


def _voted(index: int, share: float | None, *, flag: bool) -> Row:
    made = row(index, harmful=True, score=0.9 if flag else 0.1)
    return Row(replace(made.planned, vote_share=share), made.line, None, None)


def _section(*rows: Row) -> dict[str, Any]:
    made = to_rows(rows)
    return section(made, count_alike(made), allowed=True)


def test_flags_are_held_against_shares_of_votes_with_their_ceiling() -> None:  # H-144, Q-35
    found = _section(
        _voted(0, 1.0, flag=True), _voted(1, 0.6, flag=True), _voted(2, 0.4, flag=False), _voted(3, 0.0, flag=False)
    )
    assert found["soft"]["n"] == 4
    assert found["soft"]["detection_rate"] == 1.6 / 2.0
    assert found["soft"]["false_positive_rate"] == 0.4 / 2.0
    assert found["soft"]["ceiling"] == 0.8
    shown = dict(measures(found, {}))
    assert shown["soft DR"] == "0.800 n 4"
    assert shown["votes agreed with"] == "0.800 of at most 0.800"


def test_items_nobody_rated_have_no_soft_numbers() -> None:
    found = _section(_voted(0, None, flag=True))
    assert found["soft"] is None
    assert "soft DR" not in dict(measures(found, {}))


def test_a_share_is_in_the_plan_only_where_there_is_one(tmp_path: Path) -> None:
    planned = [_voted(0, 0.5, flag=True).planned, _voted(1, None, flag=True).planned]
    lines = list(plan_rows(planned))
    assert ["vote_share" in line for line in lines] == [True, False]
    path = tmp_path / "plan.jsonl"
    path.write_text("\n".join([json.dumps(line) for line in lines]) + "\n")
    assert list(read_plan(path)) == planned
