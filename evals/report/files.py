"""The files of a report, made from the summary alone (H-174, H-182)."""

from __future__ import annotations

from pathlib import Path

from evals.folder import RunFolder, make_folder, write_file
from evals.journal import JsonObject
from evals.report.table import results_table


def write_report(folder: RunFolder, summary: JsonObject) -> Path:
    """Write the tables of a run as text and return the file."""
    make_folder(folder.report)
    path = folder.report / "tables.txt"
    write_file(path, "".join([f"{line}\n" for line in results_table(summary)]))
    return path
