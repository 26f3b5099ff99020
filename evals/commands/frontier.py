"""`evals frontier`: the supervisors of one or several runs in one table, with the Pareto front drawn."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.folder import make_folder, write_file
from evals.journal import JsonObject
from evals.report.frontier import draw_frontier, read_frontier, to_markdown
from evals.rows import Row, join
from evals.statistics.jsonable import to_json
from evals.summary import load_run, write_summary


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    frontier = commands.add_parser(
        "frontier",
        help="supervisors of several runs in one table",
        description="Put the supervisors of runs into one table with intervals, times and costs, and draw the front.",
        epilog="example: evals frontier runs/local runs/judges --out table",
    )
    add_common(frontier)
    frontier.add_argument("names", nargs="+", metavar="RUN", help="names or folders of runs of `evals direct`")
    frontier.add_argument(
        "--all", action="append", default=[], metavar="RUN", help="a run over more prompts of the same sets; no times"
    )
    frontier.add_argument("--out", type=Path, metavar="DIR", help="also write frontier.md, frontier.svg, frontier.csv")
    frontier.set_defaults(run=run_frontier)


def run_frontier(args: argparse.Namespace, out: Output) -> int:
    """Run `evals frontier`."""
    frontier = read_frontier(_read_runs(args.names, args, out))
    if args.all:
        larger = read_frontier(_read_runs(args.all, args, out))
        frontier = replace(frontier, larger={one.name: one for one in larger.measured})
    if not frontier.measured:
        out.problem("no supervisor judged anything in these runs")
        return Exit.FAILED
    lines = to_markdown(frontier)
    figure = draw_frontier(frontier)
    if args.out is not None:
        make_folder(args.out)
        write_file(args.out / "frontier.md", "".join([f"{line}\n" for line in lines]))
        write_file(args.out / "frontier.svg", figure.to_svg() + "\n")
        write_file(args.out / "frontier.csv", figure.to_csv())
    out.result(to_json(frontier), lines)
    return Exit.DONE


def _read_runs(
    names: Sequence[str], args: argparse.Namespace, out: Output
) -> Iterator[tuple[JsonObject, Sequence[Row]]]:
    for name in names:
        folder = find_run(args, out, name)
        run = load_run(folder)
        yield write_summary(folder), join(run.plan, run.counted, run.scores[0] if run.scores else None)
