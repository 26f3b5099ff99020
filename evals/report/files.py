"""The files of a report, made from the summary alone (H-174, H-182)."""

from __future__ import annotations

from pathlib import Path

from evals.attempts import as_object
from evals.folder import RunFolder, make_folder, write_file
from evals.journal import JsonObject
from evals.report.coherence import coherence_tables
from evals.report.table import results_table


def all_tables(summary: JsonObject) -> list[str]:
    """Return every table of a run as lines."""
    coherence = as_object(as_object(summary["results"]).get("coherence"))
    return results_table(summary) + (coherence_tables(coherence) if coherence else [])


def write_report(folder: RunFolder, summary: JsonObject, out: Path | None = None) -> Path:
    """Write the files of a report and return the page.

    Args:
        folder: the run.
        summary: its summary.
        out: folder to write to; None takes the run's own.
    """
    target = out or folder.report
    make_folder(target)
    path = target / "tables.txt"
    write_file(path, "".join([f"{line}\n" for line in all_tables(summary)]))
    return path
