from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from evals.cli import main
from evals.interchange.formats import ROW_FORMATS, SUMMARY_FORMATS, table_csv
from evals.interchange.verdicts import FLAT, flat
from evals.rows import join
from evals.summary import Loaded, load_run
from tests.evals.harness import Run, make_options, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs")
    return make_run(path / "run", make_options(path, target="fake?errors=0.5", max_retries=0))


@pytest.fixture(scope="module")
def loaded(run: Run) -> Loaded:
    return load_run(run.folder)


def _text(run: Run, loaded: Loaded, name: str) -> str:
    if name in SUMMARY_FORMATS:
        return SUMMARY_FORMATS[name](run.summary)
    return "".join(ROW_FORMATS[name](loaded))


@pytest.mark.parametrize("name", [*ROW_FORMATS, *SUMMARY_FORMATS])
def test_every_format_holds_something_and_no_text_of_an_item(run: Run, loaded: Loaded, name: str) -> None:
    text = _text(run, loaded, name)
    assert "smoke" in text
    assert [item.item_id for item in run.prepared.items.values() if item.prompt in text] == []


def test_csv_has_one_row_a_trial_and_its_labels(run: Run, loaded: Loaded) -> None:
    rows = list(csv.DictReader(io.StringIO(_text(run, loaded, "csv"))))
    assert len(rows) == len(loaded.plan)
    assert {row["status"] for row in rows} == {"ok", "error"}
    assert {row["label"] for row in rows if row["status"] == "error"} == {"unknown"}


@pytest.mark.parametrize("cell", ["=1+1", "+a", "-a", "@a", "\tx"])
def test_excel_safe_cells_begin_with_a_quote(cell: str) -> None:
    for safe in (True, False):
        _header, line = table_csv(["a"], [{"a": cell}], excel_safe=safe)
        assert line.lstrip('"').startswith("'") is safe


def test_csv_has_a_header_without_a_row() -> None:
    assert "".join(table_csv(["a", "b"], [], excel_safe=False)) == "a,b\n"


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_a_format_gives_its_text_line_by_line_and_holds_none(run: Run, loaded: Loaded, name: str) -> None:
    pieces = [*ROW_FORMATS[name](loaded)]
    assert len(pieces) >= len([line for line in run.lines if line["status"] == "error"])
    assert {piece[-1] for piece in pieces} == {"\n"}
    assert max(map(len, pieces)) < 5_000


def test_junit_passes_no_trial_that_is_unknown(run: Run, loaded: Loaded) -> None:
    root = ElementTree.fromstring(_text(run, loaded, "junit"))  # noqa: S314 - made by the line above
    (suite,) = root
    errors = [case for case in suite if case.find("error") is not None]
    assert len(suite) == len(loaded.plan)
    assert len(errors) == sum([line["status"] == "error" for line in run.lines]) == int(suite.attrib["errors"])
    answers = json.loads("[" + ",".join(_text(run, loaded, "hf-rows").splitlines()) + "]")
    right = {"harmful": "unsafe", "benign": "safe"}
    passed = [one for one in answers if one["label"] == right[one["truth"]]]
    assert sum([len(case) == 0 for case in suite]) <= len(passed)


def test_tables_name_every_measure(run: Run, loaded: Loaded) -> None:
    assert "| DR |" in _text(run, loaded, "markdown")
    latex = _text(run, loaded, "latex")
    assert latex.count(r"\begin{tabular}") == 1
    assert r"fake-1" in latex


@pytest.mark.parametrize("name", ["jsonl", "csv", "markdown"])
def test_the_same_text_comes_in_a_file_on_stdout_and_as_json(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:  # H-177
    target, command = tmp_path / "out", ["export", str(run.folder.path), "--format", name, "--quiet"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": name, "text": printed}
    assert main([*command, "--out", str(target)]) == 0
    assert target.read_text() == printed
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_that_holds_nothing_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = make_run(tmp_path / "hashes", make_options(tmp_path, hash_only=True))
    folder = tmp_path / "out"
    folder.mkdir()
    out = ["--out", str(folder / "traces.jsonl"), "--data-dir", str(tmp_path)]
    assert main(["export", str(hashes.folder.path), "--format", "bells-trace", *out]) == 2
    assert "no answer of this run was kept as text" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_export_writes_to_a_file_or_to_stdout(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run.folder.path), "--format", "csv", "--excel-safe"]) == 0
    printed = capsys.readouterr().out
    target = tmp_path / "v.csv"
    assert main(["export", str(run.folder.path), "--format", "csv", "--out", str(target), "--json"]) == 0
    assert target.read_text().splitlines()[0] == printed.splitlines()[0]


def test_wrong_options_are_usage_errors(run: Run) -> None:
    assert main(["export", str(run.folder.path), "--format", "parquet"]) == 2
    assert main(["export", str(run.folder.path), "--format", "jsonl", "--excel-safe"]) == 2
    assert main(["export", "no-such-run"]) == 2


def test_parquet_is_written_or_names_its_extra(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["export", str(run.folder.path), "--format", "parquet", "--out", str(tmp_path / "v.parquet")])
    if importlib.util.find_spec("pyarrow") is None:
        assert code == 2
        assert "guardrail-proxy[parquet]" in capsys.readouterr().err
        return
    parquet: Any = importlib.import_module("pyarrow.parquet")
    assert code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["v.parquet"]  # nothing half written is left
    loaded = load_run(run.folder)
    assert parquet.read_table(tmp_path / "v.parquet").to_pylist() == [
        flat(row) for row in join(loaded.plan, loaded.counted, loaded.scores[0])
    ]


def test_the_columns_of_a_table_are_named_in_order(loaded: Loaded) -> None:
    rows = join(loaded.plan, loaded.counted, loaded.scores[0])
    assert {tuple(flat(row)) for row in rows} == {FLAT}
