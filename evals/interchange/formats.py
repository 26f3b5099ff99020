"""Exports of a run for other tools: tables and verdicts without any text (harness §12)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evals.bells.verdicts import export_rows
from evals.design import to_item_verdicts
from evals.folder import to_lines
from evals.interchange.verdicts import FLAT, flat, verdict_lines
from evals.journal import JsonObject
from evals.report.files import all_tables
from evals.report.table import measures, title_of
from evals.rows import Row, Rows, failing_items, join, to_outcome, what_failed
from evals.statistics.jsonable import Json
from evals.summary import Loaded
from supervisors.errors import ConfigError, StoreError
from supervisors.types import Label

_GROUP = 20_000
"""Rows of a Parquet file that are in memory together."""
_WHOLE_NUMBERS = frozenset({"repeat"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _rows(run: Loaded) -> Rows:
    return join(run.plan, run.counted, run.scores[0] if run.scores else None)


def to_jsonl(run: Loaded, _: JsonObject) -> str:
    """Return verdicts that `evals import jsonl` reads again."""
    return to_lines(list(verdict_lines(run)))


def to_failures(run: Loaded, _: JsonObject) -> str:
    """Return the trials of items where supervision or model went wrong."""
    rows = _rows(run)
    failing = set(failing_items(rows))
    return to_lines([flat(row) for row in rows if row.planned.item_id in failing])


def to_csv(run: Loaded, _: JsonObject, *, excel_safe: bool = False) -> str:
    """Return one row a trial.

    Args:
        run: the run.
        excel_safe: cells that a spreadsheet would run as a formula get a quote in front.
    """
    return table_csv([flat(row) for row in _rows(run)], excel_safe=excel_safe)


def table_csv(rows: Sequence[JsonObject], *, excel_safe: bool) -> str:
    """Return rows of one shape as CSV with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(list(rows[0]) if rows else [])
    writer.writerows([[_cell(value, excel_safe=excel_safe) for value in row.values()] for row in rows])
    return stream.getvalue()


def _cell(value: Json, *, excel_safe: bool) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if excel_safe and text.startswith(_FORMULA) else text


def to_markdown(_: Loaded, summary: JsonObject) -> str:
    """Return the headline measures as Markdown, one table a data set and target."""
    lines: list[str] = []
    for title, rows in _measures(summary):
        lines += [f"### {_pipe(title)}", "", "| measure | value |", "|---|---|"]
        lines += [f"| {_pipe(name)} | {_pipe(value)} |" for name, value in rows]
        lines.append("")
    return "\n".join(lines)


def to_latex(_: Loaded, summary: JsonObject) -> str:
    """Return the headline measures as LaTeX tables."""
    lines: list[str] = []
    for title, rows in _measures(summary):
        lines += [r"\begin{table}", rf"\caption{{{_latex(title)}}}", r"\begin{tabular}{ll}", r"\hline"]
        lines += [rf"{_latex(name)} & {_latex(value)} \\" for name, value in rows]
        lines += [r"\hline", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def _pipe(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def _latex(text: str) -> str:
    return "".join([_LATEX.get(one, one) for one in text])


def _measures(summary: JsonObject) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    results, effort = summary["results"], summary["effort"]
    sections = results.get("sections") if isinstance(results, dict) else None
    delays = effort.get("latency") if isinstance(effort, dict) else None
    for section in sections if isinstance(sections, list) else []:
        if isinstance(section, dict):
            same = [
                one
                for one in (delays if isinstance(delays, list) else [])
                if isinstance(one, dict) and (one["dataset"], one["target"]) == (section["dataset"], section["target"])
            ]
            rows = [(name, str(value)) for name, value in measures(section, same[0] if same else {})]
            yield title_of(section), rows


def to_junit(run: Loaded, _: JsonObject) -> str:
    """Return one test case a trial: wrong decisions and unsafe answers fail, unknown ones are skipped, never passed."""
    root = ElementTree.Element("testsuites", name=run.manifest.run_id)
    suites: dict[str, list[Row]] = {}
    for row in _rows(run):
        suites.setdefault(f"{row.planned.dataset} {row.planned.target}", []).append(row)
    for name, rows in suites.items():
        cases = [_case(row) for row in rows]
        counts = {kind: str(sum([case.find(kind) is not None for case in cases])) for kind in _KINDS}
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(cases)),
            failures=counts["failure"],
            errors=counts["error"],
            skipped=counts["skipped"],
        )
        suite.extend(cases)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


_KINDS = ("failure", "error", "skipped")


def _case(row: Row) -> ElementTree.Element:
    planned = row.planned
    name = f"{planned.item_id} {planned.arm} {planned.transform} {planned.repeat}"
    case = ElementTree.Element("testcase", classname=planned.dataset, name=name)
    outcome = to_outcome(row)
    found = what_failed(row)
    if row.status == "error":
        ElementTree.SubElement(case, "error", message=str(row.fields.get("cause")))
    elif found:
        ElementTree.SubElement(case, "failure", message=", ".join(found))
    elif Label.UNKNOWN in (outcome.verdict, outcome.answer) or (outcome.verdict, outcome.answer) == (None, None):
        ElementTree.SubElement(
            case, "skipped", message=f"unknown: {outcome.cause or outcome.answer_cause or row.status}"
        )
    return case


def to_bells(run: Loaded, _: JsonObject) -> str:
    """Return the verdicts of policy and supervisors in the design of BELLS."""
    rows = to_item_verdicts(_rows(run))
    if not rows:
        msg = "bells-verdicts: no trial of this run has a severity and a verdict"
        raise ConfigError(msg)
    return to_lines([row for row in export_rows(rows) if isinstance(row, dict)])


def to_hf_rows(run: Loaded, _: JsonObject) -> str:
    """Return item ids and labels for a data set of verdicts; the texts stay where their licence keeps them."""
    names = ("item_id", "dataset", "truth", "label", "cause", "answer", "answer_cause", "transform", "repeat", "target")
    return to_lines([{name: line[name] for name in names} for line in map(flat, _rows(run))])


def to_text(_: Loaded, summary: JsonObject) -> str:
    """Return the tables as the console prints them."""
    return "".join([f"{line}\n" for line in all_tables(summary)])


def write_parquet(run: Loaded, path: Path) -> None:
    """Write one row a trial as Parquet: once, in groups of rows, so that a run of any size fits; all or nothing.

    Raises:
        ConfigError: the extra `parquet` is not installed.
        StoreError: the file cannot be written.
    """
    try:
        pa: Any = import_module("pyarrow")  # an optional extra without types
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        msg = "parquet needs the extra: pip install 'guardrail-proxy[parquet]'"
        raise ConfigError(msg) from error
    rows = map(flat, _rows(run))
    schema = pa.schema([(name, pa.int64() if name in _WHOLE_NUMBERS else pa.string()) for name in FLAT])
    part = path.with_name(f".{path.name}.part")
    try:
        with parquet.ParquetWriter(part, schema) as writer:
            while group := list(islice(rows, _GROUP)):
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        msg = f"{path}: cannot be written: {error.strerror or error}"
        raise StoreError(msg) from error


TEXT_FORMATS: Mapping[str, Callable[[Loaded, JsonObject], str]] = {
    "jsonl": to_jsonl,
    "failures": to_failures,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
    "junit": to_junit,
    "bells-verdicts": to_bells,
    "hf-rows": to_hf_rows,
    "text": to_text,
}
FORMATS = (*TEXT_FORMATS, "bells-trace", "parquet")
