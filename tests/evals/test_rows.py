from __future__ import annotations

from pathlib import Path

import pytest

from evals.rows import Rows, join
from evals.summary import load_run
from tests.evals.harness import make_options, make_run


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    path: Path = tmp_path_factory.mktemp("run")
    run = load_run(make_run(path / "r", make_options(path, ledger="paired")).folder)
    return join(run.plan, run.counted, None)


def test_rows_are_in_plan_order_and_hold_their_lines(rows: Rows) -> None:
    assert len(rows) == 30
    assert [row.planned.trial_key for row in rows] == [row.fields["trial_key"] for row in rows]
    assert rows[-1] == list(rows)[-1]
    assert list(rows[3:6]) == list(rows)[3:6]


def test_a_part_of_the_rows_keeps_their_order(rows: Rows) -> None:
    direct = rows.where(lambda trial: trial.arm == "direct")
    assert list(direct) == [row for row in rows if row.planned.arm == "direct"]
    assert [trial.arm for trial in direct.planned] == ["direct"] * 20
    assert len(direct.where(lambda trial: trial.repeat == 1)) == 10


def test_groups_cover_every_row_once(rows: Rows) -> None:
    groups = rows.grouped(lambda trial: (trial.arm, str(trial.repeat)))
    assert {key: len(group) for key, group in groups.items()} == {
        ("direct", "0"): 10,
        ("direct", "1"): 10,
        ("enforced", "0"): 10,
    }
