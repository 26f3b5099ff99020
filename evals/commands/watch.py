"""`evals watch`: how far a run is, from its progress file and its journal; nothing is locked (H-183)."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from evals.commands.arguments import add_common, check_number, find_run
from evals.commands.output import Output, Subparsers
from evals.commands.progress import progress_line
from evals.exits import Exit
from evals.folder import RunFolder, read_json
from evals.journal import JsonObject, read_journal
from evals.nouns import count_of
from evals.plan import read_plan
from evals.state import Counting, progress_of
from evals.statistics.jsonable import to_json
from supervisors.errors import StoreError


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "watch",
        help="how far a run is",
        description="Show how far a run is, from its files alone; the run is not disturbed.",
        epilog="example: evals watch mine",
    )
    add_common(parser)
    parser.add_argument("name", metavar="RUN", help="name or folder of the run")
    parser.add_argument("--once", action="store_true", help="show it once and end")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between two views (default 2)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals watch` until the run is complete, ended, or has been shown once."""
    check_number("--every", args.every, 0, above=True)
    folder = find_run(args, out, args.name)
    while True:
        ended = _show(folder, out)
        if ended or args.once:
            return Exit.DONE
        time.sleep(args.every)


def _show(folder: RunFolder, out: Output) -> bool:
    """Show the run and say whether it has ended; lines written by a killed run count too."""
    plan = read_plan(folder.plan)
    counting = Counting(plan.keys)
    lines = read_journal(folder.journal, counting.take).lines if folder.journal.exists() else ()
    progress = progress_of(plan, counting.counted(lines))
    state = _state(folder.progress)
    last = str(lines[-1].get("type")) if lines else "not started"
    done = f"{progress.ok + progress.skipped}/{progress.planned} done"
    left = f"{count_of(progress.errors, 'error')}, {progress.missing} missing"
    shown = [f"{folder.path.name}: {done}, {left}; last line: {last}"]
    if state is not None and last != "run_end":
        shown.append(progress_line(state))
    out.result({"run": folder.path.name, "last": last, "progress": to_json(progress), "live": state}, shown)
    return last == "run_end"


def _state(path: Path) -> JsonObject | None:
    """Return the last state the run has written, None before the first or while it is of another version."""
    try:
        state = read_json(path)
    except StoreError:
        return None
    return state if {"per_s", "left_s", "planned"} <= state.keys() else None
