"""Exports of a run for other tools: tables and verdicts without any text (harness §12)."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from evals.bells.verdicts import export_rows
from evals.design import to_item_verdicts, without_seen
from evals.folder import each_line
from evals.interchange.verdicts import FLAT, flat, verdict_lines
from evals.journal import JsonObject
from evals.report.files import all_tables
from evals.report.table import measures, title_of
from evals.rows import Row, Rows, is_failing, join, to_outcome, what_failed
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


def to_jsonl(run: Loaded) -> Iterator[str]:
    """Yield verdicts that `evals import jsonl` reads again."""
    return each_line(verdict_lines(run))


def to_failures(run: Loaded) -> Iterator[str]:
    """Yield the trials of items where supervision or model went wrong."""
    rows = _rows(run)
    failing = {row.planned.item_id for row in rows if is_failing(row)}
    return each_line(flat(row) for row in rows if row.planned.item_id in failing)


def to_csv(run: Loaded, *, excel_safe: bool = False) -> Iterator[str]:
    """Yield one row a trial, behind a header.

    Args:
        run: the run.
        excel_safe: cells that a spreadsheet would run as a formula get a quote in front.
    """
    return table_csv(FLAT, map(flat, _rows(run)), excel_safe=excel_safe)


def table_csv(header: Sequence[str], rows: Iterable[JsonObject], *, excel_safe: bool) -> Iterator[str]:
    """Yield rows of one shape as lines of CSV, behind a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        yield _taken(stream)
        writer.writerow([_cell(value, excel_safe=excel_safe) for value in row.values()])
    yield _taken(stream)


def _taken(stream: io.StringIO) -> str:
    """Return what was written since the last time."""
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


def _cell(value: Json, *, excel_safe: bool) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if excel_safe and text.startswith(_FORMULA) else text


def to_markdown(summary: JsonObject) -> str:
    """Return the headline measures as Markdown, one table a data set and target."""
    lines: list[str] = []
    for title, rows in _measures(summary):
        lines += [f"### {_pipe(title)}", "", "| measure | value |", "|---|---|"]
        lines += [f"| {_pipe(name)} | {_pipe(value)} |" for name, value in rows]
        lines.append("")
    return "\n".join(lines)


def to_latex(summary: JsonObject) -> str:
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


def to_junit(run: Loaded) -> Iterator[str]:
    """Yield one test case a trial: wrong decisions and unsafe answers fail, unknown ones are skipped, never passed.

    Trials are gone through twice, because a suite says first how many of them failed.
    """
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={quoteattr(run.manifest.run_id)}>\n'
    for (dataset, target), rows in _rows(run).by_group().items():
        counts = Counter(kind for row in rows for kind in _KINDS if _case(row).find(kind) is not None)
        yield (
            f'  <testsuite name={quoteattr(f"{dataset} {target}")} tests="{len(rows)}" '
            f'failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
        )
        for row in rows:
            case = _case(row)
            ElementTree.indent(case, level=2)
            yield f"    {ElementTree.tostring(case, encoding='unicode')}\n"
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


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


def to_bells(run: Loaded) -> Iterator[str]:
    """Yield the verdicts of policy and supervisors in the design of BELLS, without those of items seen in training.

    Raises:
        ConfigError: there is none.
    """
    kept = without_seen(_rows(run), allowed=bool(run.manifest.options.get("allow_contaminated")))
    lines = each_line(row for row in export_rows(to_item_verdicts(kept)) if isinstance(row, dict))
    first = next(lines, None)
    if first is None:
        msg = "bells-verdicts: no trial of this run has a severity and a verdict"
        raise ConfigError(msg)
    return chain((first,), lines)


def to_hf_rows(run: Loaded) -> Iterator[str]:
    """Yield item ids and labels for a data set of verdicts; the texts stay where their licence keeps them."""
    names = ("item_id", "dataset", "truth", "label", "cause", "answer", "answer_cause", "transform", "repeat", "target")
    return each_line({name: line[name] for name in names} for line in map(flat, _rows(run)))


def to_text(summary: JsonObject) -> str:
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


ROW_FORMATS: Mapping[str, Callable[[Loaded], Iterator[str]]] = {
    "jsonl": to_jsonl,
    "failures": to_failures,
    "csv": to_csv,
    "junit": to_junit,
    "bells-verdicts": to_bells,
    "hf-rows": to_hf_rows,
}
"""Formats that go through the trials and hold none of them."""
SUMMARY_FORMATS: Mapping[str, Callable[[JsonObject], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "text": to_text,
}
"""Formats that show the headline measures."""
FORMATS = (*ROW_FORMATS, *SUMMARY_FORMATS, "bells-trace", "parquet")
