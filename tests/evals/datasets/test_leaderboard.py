from __future__ import annotations

from pathlib import Path

import pytest

from evals.datasets.leaderboard import read_leaderboard
from supervisors.errors import DatasetError

HEADER = "benchmark,model,score,n,direction,unit,source,date\n"


def write(path: Path, *rows: str) -> Path:
    file = path / "board.csv"
    file.write_text(HEADER + "\n".join(rows), "utf-8")
    return file


def test_percent_and_proportion_are_declared_and_become_fractions(tmp_path: Path) -> None:  # DS-23
    rows = ('umbrella,a,91.5,"1,000",higher,percent,here,2026', "umbrella,b,0.5,,higher,proportion,,2026")
    found = read_leaderboard(write(tmp_path, *rows))
    assert [(one.score, one.n) for one in found] == [(0.915, 1000), (0.5, None)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("u,a,1,1,higher,points,s,", "unit 'points' must be percent or proportion"),
        ("u,a,1,1,up,percent,s,", "direction 'up' higher or lower"),
        ("u,a,lots,1,higher,percent,s,", "must be numbers"),
        ("u,a,nan,1,higher,percent,s,", "outside its range"),
        ("u,a,91.5,1,higher,proportion,s,", "outside its range"),
    ],
)
def test_a_row_that_declares_nothing_usable_is_named(row: str, message: str, tmp_path: Path) -> None:  # DS-23
    with pytest.raises(DatasetError, match=f"board.csv, row 1.*{message}"):
        read_leaderboard(write(tmp_path, row))


def test_a_missing_column_is_named(tmp_path: Path) -> None:  # DS-12, DS-23
    file = tmp_path / "board.csv"
    file.write_text("benchmark,model,score\nu,a,1\n")
    with pytest.raises(DatasetError, match="no column n, direction, unit, source, date"):
        read_leaderboard(file)
