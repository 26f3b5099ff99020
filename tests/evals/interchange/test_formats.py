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
from evals.interchange.formats import TEXT_FORMATS, table_csv
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


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_every_format_holds_something_and_no_text_of_an_item(run: Run, loaded: Loaded, name: str) -> None:
    text = TEXT_FORMATS[name](loaded, run.summary)
    assert "smoke" in text
    assert [item.item_id for item in run.prepared.items.values() if item.prompt in text] == []


def test_csv_has_one_row_a_trial_and_its_labels(run: Run, loaded: Loaded) -> None:
    rows = list(csv.DictReader(io.StringIO(TEXT_FORMATS["csv"](loaded, run.summary))))
    assert len(rows) == len(loaded.plan)
    assert {row["status"] for row in rows} == {"ok", "error"}
    assert {row["label"] for row in rows if row["status"] == "error"} == {"unknown"}


@pytest.mark.parametrize("cell", ["=1+1", "+a", "-a", "@a", "\tx"])
def test_excel_safe_cells_begin_with_a_quote(cell: str) -> None:
    assert table_csv([{"a": cell}], excel_safe=True).splitlines()[1].lstrip('"').startswith("'")
    assert not table_csv([{"a": cell}], excel_safe=False).splitlines()[1].lstrip('"').startswith("'")


def test_junit_passes_no_trial_that_is_unknown(run: Run, loaded: Loaded) -> None:
    root = ElementTree.fromstring(TEXT_FORMATS["junit"](loaded, run.summary))  # noqa: S314 - made by the line above
    (suite,) = root
    errors = [case for case in suite if case.find("error") is not None]
    assert len(suite) == len(loaded.plan)
    assert len(errors) == sum([line["status"] == "error" for line in run.lines]) == int(suite.attrib["errors"])
    answers = json.loads("[" + ",".join(TEXT_FORMATS["hf-rows"](loaded, run.summary).splitlines()) + "]")
    right = {"harmful": "unsafe", "benign": "safe"}
    passed = [one for one in answers if one["label"] == right[one["truth"]]]
    assert sum([len(case) == 0 for case in suite]) <= len(passed)


def test_tables_name_every_measure(run: Run, loaded: Loaded) -> None:
    assert "| DR |" in TEXT_FORMATS["markdown"](loaded, run.summary)
    latex = TEXT_FORMATS["latex"](loaded, run.summary)
    assert latex.count(r"\begin{tabular}") == 1
    assert r"fake-1" in latex


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
