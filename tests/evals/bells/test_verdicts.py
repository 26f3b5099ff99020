from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from evals.attempts import as_object
from evals.bells.verdicts import UNION, ItemVerdict, export_rows, read_verdicts
from evals.folder import each_line, write_pieces
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label
from tests.evals.bells.items import ITEMS, judge_all


def exported(verdicts: Iterable[ItemVerdict], kind: str) -> list[dict[str, Any]]:
    """Return the rows of one kind."""
    rows: list[Any] = list(export_rows(verdicts))
    return [row for row in rows if row["kind"] == kind]


def missed(verdicts: Iterable[ItemVerdict]) -> list[str]:
    return [str(row["item"]["id"]) for row in exported(verdicts, "missed_by_all")]


def test_the_union_flags_what_any_supervisor_flags() -> None:  # B-11
    verdicts = [*judge_all("a", "n1 b1"), *judge_all("b", "s1")]
    union = exported(verdicts, "union")
    assert {row["item"]["id"] for row in union if row["label"] == "unsafe"} == {"n1", "s1", "b1"}
    assert {row["supervisor"] for row in union} == {UNION}
    assert missed(verdicts) == ["g1", "d1", "d2"]


def test_an_item_without_every_verdict_is_not_missed_by_all() -> None:
    full = judge_all("a", "")
    partial = [verdict for verdict in judge_all("b", "") if verdict.item.id != "d1"]
    broken = [ItemVerdict(ITEMS[4], "c", Label.UNKNOWN, Cause.ERROR)]
    labels = {row["item"]["id"]: (row["label"], row["cause"]) for row in exported([*full, *partial], "union")}
    assert labels["d1"] == ("unknown", "skipped")
    assert "d1" not in missed([*full, *partial])
    assert exported([full[4], *broken], "union")[0]["cause"] == "error"


def test_the_export_reads_back_and_holds_no_text(tmp_path: Path) -> None:  # B-11
    file = tmp_path / "verdicts.jsonl"
    verdicts = [*judge_all("a", "n1", seconds=0.25), ItemVerdict(ITEMS[0], "b", Label.UNKNOWN, Cause.REFUSED)]
    write_pieces(file, each_line(as_object(one) for one in export_rows(verdicts)))
    assert read_verdicts(file) == tuple(verdicts)
    lines = file.read_text(encoding="utf-8").splitlines()
    kinds = [line.split('"kind":"')[1].split('"')[0] for line in lines]
    assert (kinds.count("verdict"), kinds.count("union")) == (9, 8)
    assert not any('"prompt"' in line for line in lines)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"item": {"id": "a"}, "supervisor": "x", "label": "safe"}', '{"kind": "x"}']
)
def test_a_broken_export_names_the_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "verdicts.jsonl"
    file.write_text("\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"verdicts\.jsonl line 2"):
        read_verdicts(file)
