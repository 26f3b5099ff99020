"""What a gate leaves behind: a table, Markdown for a pull request, JUnit XML for the job, and JSON (H-168)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml  # writes only; nothing foreign is parsed

from evals.folder import make_folder, write_file
from evals.gate.decide import Ruling
from evals.gate.run import Verdict
from evals.report.table import layout
from evals.statistics.jsonable import to_json

_HEADER = ("verdict", "rule", "limit", "observed", "interval", "n", "unscored", "MDE", "flips", "why")


def gate_lines(verdict: Verdict) -> list[str]:
    """Return the gate as a table."""
    lines = layout(_HEADER, [_cells(one) for one in verdict.rulings]) if verdict.rulings else []
    return [*lines, *[f"note: {note}" for note in verdict.notes], headline(verdict)]


def headline(verdict: Verdict) -> str:
    """Return the one line a reader looks for."""
    word = {"pass": "PASSED", "fail": "FAILED", "inconclusive": "INCONCLUSIVE", None: "NOT DECIDED"}[verdict.decision]
    against = f" against {verdict.base}" if verdict.base else ""
    return f"gate of {verdict.run}{against}: {word} (exit code {verdict.code})"


def _cells(one: Ruling) -> tuple[str, ...]:
    interval = "–" if one.lo is None or one.hi is None else f"{one.lo:.5f} – {one.hi:.5f}"
    flips = "not measured" if one.flips is None else f"{one.flips.k}/{one.flips.n}"
    return (
        one.verdict,
        f"{one.kind}: {one.about}",
        one.limit,
        "n/a" if one.observed is None else f"{one.observed:.5g}",
        interval,
        str(one.n),
        str(one.unscored),
        "–" if one.mde is None else f"{one.mde:.3f}",
        flips if one.kind == "relative" else "–",
        one.why,
    )


def to_markdown(verdict: Verdict) -> str:
    """Return the gate as Markdown, such as for a job summary."""
    lines = [f"## {_escape(headline(verdict))}", ""]
    if verdict.rulings:
        lines += [_row(_HEADER), _row(["---"] * len(_HEADER))]
        lines += [_row(_cells(one)) for one in verdict.rulings]
        lines.append("")
    return "\n".join([*lines, *[f"- {_escape(note)}" for note in verdict.notes]]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join([_escape(cell) for cell in cells]) + " |"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def to_junit(verdict: Verdict) -> str:
    """Return the gate as JUnit XML: a failed rule is a failure, an inconclusive one is skipped, a stop an error."""
    states = [one.verdict for one in verdict.rulings]
    stopped = verdict.decision is None
    suite = Xml.Element(
        "testsuite",
        name=f"evals gate {verdict.run}",
        tests=str(len(states) + stopped),
        failures=str(states.count("fail")),
        skipped=str(states.count("inconclusive")),
        errors=str(int(stopped)),
    )
    for one in verdict.rulings:
        case = Xml.SubElement(suite, "testcase", classname=f"gate.{one.kind}", name=f"{one.about}: {one.limit}")
        if one.verdict != "pass":
            Xml.SubElement(case, "failure" if one.verdict == "fail" else "skipped", message=f"{one.verdict}: {one.why}")
    if stopped:
        case = Xml.SubElement(suite, "testcase", classname="gate", name="the run can be decided")
        Xml.SubElement(case, "error", message="; ".join(verdict.notes))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode") + "\n"


def write_gate(verdict: Verdict, folder: Path) -> None:
    """Write gate.json, gate.md and gate.xml.

    Raises:
        StoreError: the disk does not take them.
    """
    make_folder(folder)
    body = json.dumps(to_json(verdict), ensure_ascii=True, sort_keys=True, indent=1, allow_nan=False)
    write_file(folder / "gate.json", body + "\n")
    write_file(folder / "gate.md", to_markdown(verdict))
    write_file(folder / "gate.xml", to_junit(verdict))
