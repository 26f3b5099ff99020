"""`evals compare`: runs held against each other on the same items, or on different ones (H-163, H-164)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.comparison.measures import default_measures, find_measure
from evals.comparison.pairing import Plan, Report, compare_sides
from evals.comparison.sides import load_side
from evals.comparison.tables import comparison_lines, to_csv
from evals.exits import Exit
from evals.folder import make_folder, write_file
from evals.statistics.jsonable import to_json
from supervisors.errors import ConfigError


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "compare",
        help="hold runs against each other",
        description="Compare the first run with each of the others, trial by trial, with every p value adjusted.",
        epilog="example: evals compare base candidate --metric detection_rate --metric false_positive_rate",
    )
    add_common(parser)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="names or folders; the first is A")
    parser.add_argument("--metric", action="append", default=[], metavar="NAME", help="what is compared; repeatable")
    parser.add_argument("--unpaired", action="store_true", help="the runs hold different items")
    parser.add_argument("--by-target", action="store_true", help="tell the trials of different models apart")
    parser.add_argument("--scorer", metavar="ID", help="whose verdicts of answers (default: the report's)")
    parser.add_argument("--benjamini-hochberg", action="store_true", help="instead of Holm")
    parser.add_argument("--seed", type=int, default=0, help="of permutation draws (default 0)")
    parser.add_argument("--force", action="store_true", help="compare what is not comparable, marked as such")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="changed items listed (default 20)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write comparison.json, .txt and changes.csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals compare`."""
    if len(args.runs) < 2:
        msg = f"evals compare needs two runs or more, got only {args.runs[0]}"
        raise ConfigError(msg)
    if args.show < 0:
        msg = f"--show {args.show}: expected 0 or more"
        raise ConfigError(msg)
    sides = [load_side(find_run(args, out, name), args.scorer, by_target=args.by_target) for name in args.runs]
    named = tuple(dict.fromkeys([find_measure(name).name for name in args.metric]))  # twice would adjust for two
    plan = Plan(
        measures=named or default_measures([*sides[0].cases.values()]),
        design="unpaired" if args.unpaired else "paired",
        method="benjamini_hochberg" if args.benjamini_hochberg else "holm",
        seed=args.seed,
        forced=args.force,
    )
    report = compare_sides(sides, plan)
    lines = comparison_lines(report, args.show)
    out.result(to_json(report), lines)
    if args.out is not None:
        _write(report, lines, args.out)
        out.note(f"written to {args.out}")
    if not any(compared.differences for compared in report.compared):
        out.problem("nothing was compared: no trial of these runs is inside the metrics asked for")
        return Exit.FAILED
    return Exit.DONE


def _write(report: Report, lines: list[str], folder: Path) -> None:
    make_folder(folder)
    text = json.dumps(to_json(report), ensure_ascii=True, sort_keys=True, indent=1, allow_nan=False)
    write_file(folder / "comparison.json", text + "\n")
    write_file(folder / "comparison.txt", "".join([f"{line}\n" for line in lines]))
    write_file(folder / "changes.csv", to_csv(report))
