"""Readers of published-score files, one a format (datasets §10). Nothing is ranked here and nothing made up."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evals.datasets.leaderboard import Score, read_leaderboard
from evals.datasets.narrow import is_list, is_object
from evals.published.names import GUARDBENCH, GUARDRAIL_BENCH, HELM, HELM_ITEMS
from evals.published.values import Published, counted, parse
from evals.reasons import reason_of
from supervisors.errors import DatasetError

_MARKUP = re.compile(r"</?ins>|\*\*|__|`")


def read_published(path: Path) -> tuple[Published, ...]:
    """Read a file of published numbers by what it is: a leaderboard of ours (CSV), a stored list, or a known format.

    Raises:
        DatasetError: it cannot be read, or is of no format known here.
    """
    readers = {
        "leaderboard.md": read_guardbench,
        "guardrail_benchmarks.json": read_guardrail_bench,
        "results.json": read_suites,
        "score_matrix_helm.csv": read_helm,
        "mitre.json": read_mitre,
        "inspect_evals_results.csv": read_air_bench,
    }
    reader = readers.get(path.name)
    if reader is not None:
        return reader(path)
    if path.suffix == ".csv":
        return tuple([_from_leaderboard(score) for score in read_leaderboard(path)])
    if path.suffix == ".json":
        return parse(_text(path), path)
    msg = f"{path}: known are a leaderboard as CSV, a list as JSON, {', '.join(readers)}"
    raise DatasetError(msg)


def _from_leaderboard(one: Score) -> Published:
    span = counted(round(one.score * one.n), one.n)[2:] if one.n else (None, None)
    metric = f"score, {one.direction} is better"
    return Published(one.benchmark, one.benchmark, one.model, metric, one.score, one.source, one.source, one.n, *span)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path.name}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error


def _json(path: Path) -> object:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        msg = f"{path.name}: is not JSON: {error}"
        raise DatasetError(msg) from error


def _map(value: object, where: str) -> Mapping[str, object]:
    if not is_object(value):
        msg = f"{where}: expected an object, found {type(value).__name__}"
        raise DatasetError(msg)
    return {str(key): cell for key, cell in value.items()}


def _entries(value: object, where: str) -> list[Mapping[str, object]]:
    if not is_list(value):
        msg = f"{where}: expected a list, found {type(value).__name__}"
        raise DatasetError(msg)
    return [_map(entry, where) for entry in value]


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        msg = f"{where}: {value!r} is no number"
        raise DatasetError(msg)
    try:
        found = float(value)
    except ValueError as error:
        msg = f"{where}: {value!r} is no number"
        raise DatasetError(msg) from error
    if not math.isfinite(found):
        msg = f"{where}: {value!r} is no number"
        raise DatasetError(msg)
    return found


def read_guardbench(path: Path) -> tuple[Published, ...]:
    """Read the Markdown tables of GuardBench; the markup around best values is taken off first.

    Raises:
        DatasetError: a row has other cells than its header, or a value is no number.
    """
    names: dict[str, str] = {}
    found: list[Published] = []
    for header, rows in _markdown_tables(_text(path)):
        if header[:2] == ["Model", "Alias"]:
            names |= {row[1]: row[0] for row in rows}
        elif header[:2] == ["Dataset", "Metric"]:
            found += [one for row in rows if row[0] != "Wins" for one in _guardbench_row(path, header, row, names)]
    if not found:
        msg = f"{path.name}: holds no table with the columns Dataset and Metric"
        raise DatasetError(msg)
    return tuple(found)


def _markdown_tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            table.append([_MARKUP.sub("", cell).strip() for cell in line.strip().strip("|").split("|")])
        elif table:
            yield table[0], [row for row in table[1:] if not all(set(cell) <= set("-: ") for cell in row)]
            table = []


def _guardbench_row(
    path: Path, header: Sequence[str], row: Sequence[str], names: Mapping[str, str]
) -> Iterator[Published]:
    if len(row) != len(header):
        msg = f"{path.name}: row {row[0]!r} has {len(row)} cells, its header {len(header)}"
        raise DatasetError(msg)
    for alias, cell in zip(header[2:], row[2:], strict=True):
        value = _number(cell, f"{path.name}, {row[0]}, {alias}")
        yield Published(GUARDBENCH.get(row[0], ""), row[0], names.get(alias, alias), row[1].lower(), value,
                        "GuardBench", "GuardBench")  # fmt: skip


def read_guardrail_bench(path: Path) -> tuple[Published, ...]:
    """Read a map guard → entries with their cohort; guards said to have been trained on a set say so.

    Raises:
        DatasetError: an entry has no cohort or no value.
    """
    found: list[Published] = []
    for guard, entries in _map(_json(path), path.name).items():
        for entry in _entries(entries, f"{path.name}, {guard}"):
            cohort = _map(entry.get("cohort"), f"{path.name}, {guard}, cohort")
            named = str(cohort.get("dataset"))
            words = [f"{key} {value}" for key, value in sorted(cohort.items()) if value and key not in _IN_FIELDS]
            notes = ["seen in training"] if entry.get("contamination") is True else []
            notes += [str(entry["notes"])] if entry.get("notes") else []
            value = _number(entry.get("value"), f"{path.name}, {guard}, {named}")
            found.append(
                Published(
                    GUARDRAIL_BENCH.get(named, ""),
                    named,
                    str(entry.get("guardrail") or guard),
                    str(cohort.get("metric")),
                    value,
                    "guardrail-bench",
                    ", ".join(words),
                    note="; ".join(notes),
                )
            )
    return tuple(found)


_IN_FIELDS = ("dataset", "metric")


def read_suites(path: Path) -> tuple[Published, ...]:
    """Read detectors per suite with their counts: recall and false positive rate, both with the intervals small n need.

    Raises:
        DatasetError: a suite has no counts.
    """
    body = _map(_json(path), path.name)
    found: list[Published] = []
    for detector in _entries(body.get("detectors"), path.name):
        for suite, value in _map(detector.get("perSuite"), path.name).items():
            where = f"{path.name}, {detector.get('name')}, {suite}"
            cells = {name: int(_number(_map(value, where).get(name), where)) for name in ("tp", "fp", "fn", "tn")}
            shares = (("recall", cells["tp"], cells["fn"]), ("fpr", cells["fp"], cells["tn"]))
            for metric, hits, rest in shares:
                share = counted(hits, hits + rest)
                found.append(
                    Published(
                        "",
                        suite,
                        str(detector.get("name")),
                        metric,
                        share[0],
                        "guard suites",
                        f"suite {suite}, version {body.get('version')}",
                        *share[1:],
                    )
                )
    return tuple(found)


def read_helm(path: Path) -> tuple[Published, ...]:
    """Read the matrix of HELM Safety: models in the unnamed first column, ``<Scenario>::<metric>`` in the header.

    Raises:
        DatasetError: the header is another one, or a cell is no number; an empty cell is a missing value.
    """
    rows = list(csv.reader(_text(path).splitlines()))
    if not rows or rows[0][0] != "" or any("::" not in name for name in rows[0][1:]):
        msg = f"{path.name}: expected an unnamed first column and columns named <Scenario>::<metric>"
        raise DatasetError(msg)
    return tuple([one for row in rows[1:] if row for one in _helm_row(path, rows[0], row)])


def _helm_row(path: Path, header: Sequence[str], row: Sequence[str]) -> Iterator[Published]:
    for column, cell in zip(header[1:], row[1:], strict=False):
        if cell == "":
            continue
        scenario, _, metric = column.partition("::")
        value = _number(cell, f"{path.name}, {row[0]}, {column}")
        n = HELM_ITEMS.get(scenario)
        note = "the model's answers, not a guard; graded from 0 to 1 by language models" if metric == HELM_SCORE else ""
        yield Published(HELM.get(scenario, ""), scenario, row[0], metric, value, "HELM Safety", f"HELM {scenario}",
                        n, note=note)  # fmt: skip


HELM_SCORE = "LM Evaluated Safety score"


def read_mitre(path: Path) -> tuple[Published, ...]:
    """Read CyberSecEval's counts: benign share = (refusal + benign) / total; ``else`` is neither, so there are bounds.

    Raises:
        DatasetError: a count is missing, or they do not add up to the total.
    """
    found: list[Published] = []
    for model, tactics in _map(_json(path), path.name).items():
        for tactic, value in _map(tactics, f"{path.name}, {model}").items():
            where = f"{path.name}, {model}, {tactic}"
            body = _map(value, where)
            refusal, malicious, benign, neither, total = [
                int(_number(body.get(f"{name}_count"), where))
                for name in ("refusal", "malicious", "benign", "else", "total")
            ]
            if refusal + malicious + benign + neither != total or not total:
                msg = f"{where}: counts do not add up to total_count {total}"
                raise DatasetError(msg)
            safe = refusal + benign
            found.append(
                Published(
                    "cyberseceval-mitre",
                    tactic,
                    model,
                    "benign share of answers",
                    safe / total,
                    "CyberSecEval",
                    f"CyberSecEval {tactic}",
                    total,
                    safe / total,
                    (safe + neither) / total,
                    f"{neither} answers were neither; the bounds count them as malicious, or as benign",
                )
            )
    return tuple(found)


def read_air_bench(path: Path) -> tuple[Published, ...]:
    """Read the mean refusal scores of AIR-Bench by category; more is safer, and `all` is the whole set.

    Raises:
        DatasetError: a column is missing or a cell is no number.
    """
    rows = list(csv.DictReader(_text(path).splitlines()))
    columns = [name for name in (rows[0] if rows else {}) if "result (" in name]
    if not columns or "index" not in rows[0] or "sample count" not in rows[0]:
        msg = f"{path.name}: expected the columns index, sample count and … result (MODEL)"
        raise DatasetError(msg)
    found: list[Published] = []
    for row in rows:
        n = int(_number(row["sample count"], f"{path.name}, {row['index']}"))
        for column in columns:
            model = column.partition("(")[2].removesuffix(")")
            value = _number(row[column], f"{path.name}, {row['index']}, {column}")
            found.append(
                Published(
                    "air-bench-2024" if row["index"] == "all" else "",
                    row["index"],
                    model,
                    "mean refusal score",
                    value,
                    "AIR-Bench 2024",
                    f"AIR-Bench {row['index']}, {column.partition(' ')[0]}",
                    n,
                )
            )
    return tuple(found)
