"""`evals nessie`: minimal instruction-security cases, with and without the proxy (N-11)."""

from __future__ import annotations

import argparse
from pathlib import Path

from evals.cases import DATASET
from evals.commands.arguments import add_common, add_guard, add_running, to_options
from evals.commands.output import Output, Subparsers
from evals.commands.replay import start
from evals.exits import Exit
from evals.nessie.cases import SUITES
from evals.nessie.filling import MAX_TOKENS, check_rows
from evals.prepare import prepare, suite_of
from evals.statistics.jsonable import to_json
from supervisors.errors import ConfigError

CONDITIONS = ("plain", "distraction", "no-reasoning")
"""``no-reasoning`` asks a reasoning model not to think (N-10); the messages are those of ``plain``."""


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "nessie",
        help="minimal instruction-security cases",
        description="Send the NESSiE-shaped cases to a model with and without the proxy and match keywords. The cases "
        "are in our own wording, and values not comparable with published ones, unless --rows names an official file.",
        epilog="example: evals nessie --target local --suite rules --limit 5",
    )
    add_common(parser)
    parser.add_argument("--target", default="fake", help="fake, local or URL#MODEL (default fake)")
    parser.add_argument("--api-key-env", metavar="NAME", help="variable that holds the key of a URL target")
    parser.add_argument("--suite", choices=SUITES, help="one suite (default all)")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="rows of an official file instead of ours (comparable with published)"
    )
    parser.add_argument("--num-runs", type=int, default=1, metavar="R", help="draw the slots R times (default 1)")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N rows")
    parser.add_argument("--seed", type=int, default=0, help="of the slots (default 0)")
    parser.add_argument("--condition", choices=CONDITIONS, default="plain")
    parser.add_argument("--flatten", action="store_true", help="earlier turns in the system text")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help=f"output budget (default {MAX_TOKENS})")
    parser.add_argument("--temperature", type=float, default=0.0, help="default 0")
    add_guard(parser)
    add_running(parser)
    parser.set_defaults(
        run=run, sets=[DATASET], item_id=[], category=[], filter=[], sample=None, accept_drift=False, composition=None
    )


def run(args: argparse.Namespace, out: Output) -> int:
    """Run the suite, or check its data, slots and configuration with --dry-run."""
    if args.num_runs < 1 or (args.limit is not None and args.limit < 0):
        msg = f"--num-runs {args.num_runs} must be at least 1 and --limit {args.limit} at least 0"
        raise ConfigError(msg)
    guard: Path | None = args.guard
    args.reasoning_effort = "none" if args.condition == "no-reasoning" else None
    args.ledger = "both"
    options = to_options(args, out, None).with_suite(
        {
            "suite": args.suite or "",
            "runs": str(args.num_runs),
            "seed": str(args.seed),
            "condition": args.condition,
            "flatten": "yes" if args.flatten else "no",
            "limit": "" if args.limit is None else str(args.limit),
            "rows": "" if args.rows is None else str(args.rows),
        }
    )
    prepared = prepare(options, out.environ)
    if args.dry_run:
        checked = check_rows(suite_of(options).templates()[: args.limit], seed=args.seed, runs=args.num_runs)
        out.result(to_json(checked), [f"{name}: {value}" for name, value in _facts(checked).items()])
        out.note(f"guard {guard or 'built in'}: valid; no call was made")
        if not checked.rows:
            out.problem("nothing would be evaluated: no row is left; look at --suite, --limit and --rows")
        return Exit.DONE if checked.rows else Exit.FAILED
    return start(args, out, prepared)


def _facts(checked: object) -> dict[str, object]:
    value = to_json(checked)
    return dict(value) if isinstance(value, dict) else {}
