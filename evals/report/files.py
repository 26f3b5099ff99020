"""The files of a report, made from the summary alone, the same bytes each time (H-174, H-182)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evals.attempts import as_object
from evals.cases import nessie_notes, nessie_rows
from evals.folder import RunFolder, copy_lines, make_folder, write_file, write_lines
from evals.journal import JsonObject
from evals.manifest import read_manifest
from evals.report.against import read_against
from evals.report.averages import average_lines
from evals.report.beside import read_beside
from evals.report.coherence import coherence_tables
from evals.report.figures import page_figures, sections_of
from evals.report.html import About, to_page
from evals.report.panel import panel_lines
from evals.report.suites import suite_pages, traces_table
from evals.report.table import layout, results_table, warning_lines
from evals.rows import Row, is_failing, join, policy_verdict
from evals.summary import load_run


def all_tables(summary: JsonObject) -> list[str]:
    """Return every table of a run as lines."""
    results = as_object(summary["results"])
    if results.get("nessie") is not None:
        header = ("target", "rule", "arm", "suite", "helpful", "harmful", "SH")
        rows = list(nessie_rows(summary))
        return [*layout(header, rows), "", *nessie_notes(summary), *warning_lines(summary)]
    traces = as_object(results.get("traces"))
    if traces:
        return [*layout(*traces_table(traces)), "", *results_table(summary)]
    coherence = as_object(results.get("coherence"))
    judges = [line for one in sections_of(summary) for line in ("", *panel_lines(one)) if as_object(one.get("panel"))]
    averages = average_lines(as_object(results.get("averages")))
    return results_table(summary) + averages + judges + (coherence_tables(coherence) if coherence else [])


def write_report(folder: RunFolder, summary: JsonObject, out: Path | None = None) -> tuple[Path, ...]:
    """Write pages, figures, their numbers, the tables, and per-item verdicts without text.

    Args:
        folder: the run.
        summary: its summary.
        out: folder to write to; None takes the run's own.

    Returns:
        The page of the run, and then those of its suites.
    """
    target = out or folder.report
    make_folder(target)
    figures = page_figures(summary)
    for group in figures.values():
        for figure in group:
            write_file(target / f"{figure.name}.svg", figure.to_svg() + "\n")
            write_file(target / f"{figure.name}.csv", figure.to_csv())
    write_file(target / "tables.txt", "".join([f"{line}\n" for line in all_tables(summary)]))
    _write_verdicts(folder, target)
    page = target / "report.html"
    about = About(folder.path.name, read_manifest(folder), read_against(folder, summary), read_beside(folder))
    write_file(page, to_page(summary, about, figures))
    suites = {target / f"{name}.html": text for name, text in suite_pages(summary, about).items()}
    for path, text in suites.items():
        write_file(path, text)
    return (page, *suites)


def report_line(pages: Sequence[Path]) -> str:
    """Return where the pages of a report are, as a command says it."""
    return "report: " + ", ".join([str(page) for page in pages])


def _write_verdicts(folder: RunFolder, target: Path) -> None:
    """Write one line a trial: ids, labels and causes, no text; and the failures apart."""
    run = load_run(folder)
    rows = join(run.plan, run.counted, run.scores[0] if run.scores else None)
    failing: set[str] = set()
    written = target / "verdicts.jsonl"
    write_lines(written, (_to_line(row, failing) for row in rows))
    copy_lines(written, target / "failures.jsonl", lambda line: line.get("item_id") in failing)


def _to_line(row: Row, failing: set[str]) -> JsonObject:
    if is_failing(row):
        failing.add(row.planned.item_id)
    label, cause = policy_verdict(row)
    return {
        "trial_key": row.planned.trial_key,
        "item_id": row.planned.item_id,
        "dataset": row.planned.dataset,
        "target": row.planned.target,
        "arm": row.planned.arm,
        "repeat": row.planned.repeat,
        "truth": row.truth,
        "category": list(row.planned.category),
        "status": row.status,
        "label": label.value if label else None,
        "cause": cause.value if cause else None,
        "gate": row.fields.get("gate"),
        "answer": row.answer.label.value if row.answer else None,
        "behaviour": row.answer.behaviour if row.answer else None,
        "verdicts": row.fields.get("verdicts"),
        "contamination": row.planned.contamination,
    }
