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


def write_report(folder: RunFolder, summary: JsonObject) -> Path:
    """Write the tables of a run as text and return the file."""
    make_folder(folder.report)
    path = folder.report / "tables.txt"
    write_file(path, "".join([f"{line}\n" for line in all_tables(summary)]))
    return path
