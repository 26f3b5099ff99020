"""`evals traces`: supervisors over the calls of recorded traces, judged call by call and trace by trace (BT-04)."""

from __future__ import annotations

import argparse
from pathlib import Path

from evals.commands.arguments import add_common, add_guard, add_running, to_options
from evals.commands.output import Output, Subparsers
from evals.commands.replay import start
from evals.prepare import prepare
from evals.tracing import DATASET, ORIGIN


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "traces",
        help="supervisors over recorded traces",
        description="Judge every call of the traces of a file in the format of BELLS 2024; a trace is flagged if one "
        "of its calls is. No model is called.",
        epilog="example: evals traces traces.jsonl --guard policy.yaml",
    )
    add_common(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="traces, or the calls of one recorded conversation")
    add_guard(parser)
    add_running(parser)
    parser.set_defaults(
        run=run, sets=[DATASET], item_id=[], category=[], filter=[], sample=None, limit=None, seed=0,
        accept_drift=False, composition=None,
    )  # fmt: skip


def run(args: argparse.Namespace, out: Output) -> int:
    """Run the verb."""
    options = to_options(args, out, None, arms="check")
    return start(args, out, prepare(options.with_suite({"file": str(args.file)}, ORIGIN), out.environ))
