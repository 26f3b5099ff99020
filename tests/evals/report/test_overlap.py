from __future__ import annotations

from pathlib import Path

from evals.datasets.overlap import overlap, overlap_many
from evals.report.overlap import draw_overlap, overlap_rows, write_overlap
from tests.evals.datasets.test_overlap import items

SETS = {
    "whole": items("violet umbrella", "green kettle", "x", dataset="whole"),
    "part": items("Violet umbrella", "x", dataset="part"),
    "other": items("nothing shared", dataset="other"),
}


def test_a_set_inside_another_is_named_and_pairs_without_a_shared_text_are_not_listed() -> None:  # DS-14
    _, rows = overlap_rows(overlap(SETS))
    assert [(row[0], row[1], row[2], row[3], row[8]) for row in rows] == [
        ("whole", "part", "1", "2", "part is inside whole")
    ]


def test_what_was_not_looked_for_is_said() -> None:
    _, rows = overlap_rows(overlap_many(SETS))
    assert rows[0][4] == "not looked for"


def test_the_matrix_is_symmetric() -> None:
    found = {(row[0], row[1]): row[2] for row in draw_overlap(overlap(SETS)).rows}
    assert found["whole", "part"] == found["part", "whole"] == "1.000000"


def test_the_report_holds_ids_and_no_text(tmp_path: Path) -> None:  # DS-25
    page = write_overlap(overlap_many(SETS), SETS, {"whole": {"elsewhere": 2}}, tmp_path)
    written = "".join([path.read_text("utf-8") for path in tmp_path.iterdir()])
    assert "umbrella" not in written
    assert SETS["whole"][0].item_id in (tmp_path / "overlap.jsonl").read_text("utf-8")
    assert "elsewhere" in page.read_text("utf-8")
