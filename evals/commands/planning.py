"""`evals plan`: what a run would take, and what it could tell; no call is made (H-170)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from evals.commands.arguments import add_common, add_guard, add_running, add_selection, add_target, to_options
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.plan import PlannedTrial
from evals.prepare import Prepared, prepare
from evals.report.table import layout
from evals.statistics.jsonable import Json
from evals.statistics.power import minimum_detectable_difference
from evals.statistics.proportions import items_for_half_width
from supervisors.errors import ConfigError

_DISCORDANT = 0.1
"""Share of items two systems differ on, assumed for the smallest difference that would be found."""
_CHARS_A_TOKEN = 4


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "plan",
        help="what a run would take; no call",
        description="Count items, calls, tokens, money and time of a run, and say what differences it could find.",
        epilog="example: evals plan bells xstest --target local",
    )
    add_common(parser)
    parser.add_argument("sets", nargs="+", metavar="SET", help="data sets, by id or alias")
    add_target(parser)
    add_guard(parser)
    add_selection(parser)
    add_running(parser)
    parser.add_argument(
        "--half-width", type=float, default=0.05, help="wanted half width of an interval (default 0.05)"
    )
    parser.add_argument("--seconds-a-call", type=float, help="measured seconds of one call, for the minutes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals plan`."""
    if not 0 < args.half_width < 0.5:
        msg = f"--half-width {args.half_width}: expected a share between 0 and 0.5"
        raise ConfigError(msg)
    prepared = prepare(to_options(args, out, None), out.environ)
    groups: dict[str, list[PlannedTrial]] = {}
    for trial in prepared.plan:
        groups.setdefault(trial.dataset, []).append(trial)
    needed = items_for_half_width(0.5, args.half_width)
    sets: dict[str, dict[str, Json]] = {
        name: _describe(prepared, trials, needed, args.seconds_a_call) for name, trials in groups.items()
    }
    rows = [(name, *[_text(value) for value in facts.values()]) for name, facts in sets.items()]
    header = ("data set", *[name for facts in list(sets.values())[:1] for name in facts])
    value: dict[str, Json] = {name: dict(facts) for name, facts in sets.items()}
    out.result(value, layout(header, rows) if rows else ["no item is left"])
    out.note(f"{needed} items of one class reach a half width of {args.half_width} at any rate")
    return Exit.DONE if rows else Exit.FAILED


def _describe(
    prepared: Prepared, trials: Sequence[PlannedTrial], needed: int, seconds: float | None
) -> dict[str, Json]:
    sent = [trial for trial in trials if trial.skip is None]
    truths = Counter({trial.item_id: trial.truth for trial in trials}.values())
    calls = sum([trial.arm != "check" for trial in sent])
    judged = sum([trial.arm != "direct" for trial in sent])
    tokens_in = sum([trial.chars for trial in sent]) // _CHARS_A_TOKEN
    tokens_out = calls * prepared.options.sampling.max_tokens
    price = prepared.target.price
    smallest = min(truths["harmful"], truths["benign"])
    lanes = prepared.options.concurrency or 20
    return {
        "items": len({trial.item_id for trial in trials}),
        "harmful": truths["harmful"],
        "benign": truths["benign"],
        "skipped": len(trials) - len(sent),
        "model calls": calls,
        "judged": judged,
        "tokens in (estimate)": tokens_in,
        "tokens out (at most)": tokens_out,
        "USD (at most)": None if price is None else round(price.cost(tokens_in, tokens_out), 4),
        "minutes": None if seconds is None else round(calls * seconds / lanes / 60, 1),
        "smallest difference": _detectable(truths["harmful"]),
        "reaches half width": "yes" if smallest >= needed else f"no, {smallest} of {needed}",
    }


def _detectable(items: int) -> float | None:
    return round(minimum_detectable_difference(items, _DISCORDANT), 3) if items else None


def _text(value: Json) -> str:
    return "unknown" if value is None else str(value)
