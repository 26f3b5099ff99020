from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.bells.published import SUPERVISOR_COLUMNS
from evals.cli import main

COUNTS = {
    "strict": {"narrative": [8, 10], "syntactic": [9, 10], "generative": [7, 10], "direct": [9, 10], "benign": [1, 20]},
    "partial": {"narrative": [8, 10], "syntactic": [9, 10], "direct": [9, 10], "benign": [1, 20]},
}


def test_a_score_from_counts_has_both_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # B-09
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(COUNTS), "utf-8")
    assert main(["bells", "score", str(path), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    strict, resampled = found["strict"], found["strict"]["resampled"]
    assert strict["lo"] < strict["score"] < strict["hi"]
    assert (resampled["lo"] < strict["score"] < resampled["hi"], resampled["clusters"]) == (True, 60)
    assert found["partial"]["resampled"] is None
    assert main(["bells", "score", str(path)]) == 0
    assert f"[{resampled['lo']:.3f}, {resampled['hi']:.3f}]" in capsys.readouterr().out


def test_a_supervisor_without_a_score_has_the_reason_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # B-08
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(COUNTS), "utf-8")
    assert main(["bells", "score", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "partial: no score: no judged item of family generative"
    assert not any(line.startswith("strict: no score") for line in said)


_VERDICT: dict[str, Any] = {
    "kind": "verdict",
    "item": {"id": "d/0\u2028", "cluster": "d/0", "severity": "harmful", "adversariality": "direct"},
    "supervisor": "strict",
    "label": "unsafe",
}


def test_an_export_is_lines_that_are_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # B-11
    path, again = tmp_path / "verdicts.jsonl", tmp_path / "again.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(_VERDICT, ensure_ascii=False).encode() + b"\r\n\n")
    assert main(["bells", "export", str(path)]) == 0
    again.write_text(capsys.readouterr().out, "utf-8")
    assert [json.loads(line)["kind"] for line in again.read_text("utf-8").splitlines()] == ["verdict", "union"]
    tables: list[Any] = []
    for source in (path, again):
        assert main(["bells", "table", str(source), "--json"]) == 0
        tables.append(json.loads(capsys.readouterr().out))
    assert tables[0] == tables[1]
    assert main(["bells", "export", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_the_published_sample_has_a_table_of_its_supervisors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # B-04
    path = tmp_path / "sample.csv"
    columns = ("question", "harm_level", "source", "category", *SUPERVISOR_COLUMNS)
    rows = [("a violet umbrella", "harmful", "s", "c", *"1" * 11), ("a cat", "benign", "s", "c", *"0" * 11)]
    path.write_text("\n".join([",".join(row) for row in (columns, *rows)]), "utf-8")
    assert main(["bells", "table", str(path), "--json"]) == 0
    found = {one["supervisor"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(found) == set(SUPERVISOR_COLUMNS)
    assert found["gpt-4"]["cells"]["harmful"]["direct"]["k"] == 1
    assert main(["bells", "table", str(path), "--with-seen"]) == 2
    assert "--with-seen is for runs" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"\xff", b"[]", b'{"kind": "x"}'])
def test_a_file_of_anything_else_is_a_usage_error(
    tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(data)
    assert main(["bells", "table", str(path)]) == 2
    assert capsys.readouterr().err.startswith("evals: verdicts.jsonl")
