"""`evals merge`: the shards of a run, made on machines apart, become one run with proof."""

from __future__ import annotations

import argparse
import sys

from evals.commands.arguments import add_common, find_run, run_name, runs_dir
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.folder import RunFolder
from evals.merging import find_missing, merge_parts, read_parts
from evals.nouns import count_of
from evals.report.files import all_tables, report_line, write_report
from evals.scoring import apply_rule
from evals.state import progress_of
from evals.statistics.jsonable import to_json
from evals.summary import load_run, write_summary


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "merge",
        help="put the shards of a run together",
        description="Prove that shards are all the parts of one plan, each once, and make one run of them.",
        epilog="example: evals merge runs/mine.1-of-2 runs/mine.2-of-2 --run-name mine",
    )
    add_common(parser)
    parser.add_argument("shards", nargs="+", metavar="SHARD", help="names or folders of the shards, in any order")
    parser.add_argument("--run-name", type=run_name, required=True, metavar="NAME", help="folder of the whole run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals merge`."""
    parts = read_parts([find_run(args, out, name) for name in args.shards])
    missing = find_missing(parts)
    if missing:
        absent = count_of(len(missing), "shard is", "shards are")
        out.problem(f"{absent} missing: {', '.join(missing)}; nothing was merged")
        return Exit.INCOMPLETE
    folder = RunFolder(runs_dir(args, out) / args.run_name)
    merged = merge_parts(parts, folder, sys.argv)
    loaded = load_run(folder)
    apply_rule(folder, loaded.plan, loaded.counted)
    summary = write_summary(folder)
    pages = write_report(folder, summary)
    progress = progress_of(loaded.plan, loaded.counted)
    counted = {"shard": len(parts), "trial": merged.trials, "line": merged.lines}
    said = ", ".join([count_of(count, noun) for noun, count in counted.items()])
    out.note(f"{said}; run folder: {folder.path}")
    for name in merged.left:
        out.note(f"scores {name} are not in every shard and were left; `evals score` makes them anew")
    for name in merged.uncalibrated:
        out.note(f"the calibration of {name} is not the same in every shard and was left; `evals score` makes it anew")
    out.result({"run": str(folder.path), "progress": to_json(progress), "summary": summary}, all_tables(summary))
    out.note(report_line(pages))
    if progress.complete:
        return Exit.DONE
    left = f"{count_of(progress.errors, 'error')}, {progress.missing} missing"
    out.problem(f"{left}; `evals resume {folder.path}` does them")
    return Exit.INCOMPLETE
