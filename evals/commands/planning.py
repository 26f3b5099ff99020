"""`evals plan`: what a run would take, and what it could tell; no call is made (H-170)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evals.commands.arguments import add_common, add_guard, add_running, add_selection, add_target, to_options
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.plan import PlannedTrial
from evals.prepare import Prepared, prepare
from evals.report.table import layout
from evals.statistics.jsonable import Json
from evals.statistics.power import (
    DEFAULT_ICC,
    design_effect,
    inflate_for_clusters,
    minimum_detectable_difference,
)
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
    parser.add_argument(
        "--icc",
        type=float,
        metavar="RHO",
        help=f"correlation of items that come from one, as an earlier run found it (default {DEFAULT_ICC}, assumed)",
    )
    parser.add_argument("--seconds-a-call", type=float, help="measured seconds of one call, for the minutes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals plan`."""
    if not 0 < args.half_width < 0.5:
        msg = f"--half-width {args.half_width}: expected a share between 0 and 0.5"
        raise ConfigError(msg)
    if args.icc is not None and not 0 <= args.icc <= 1:
        msg = f"--icc {args.icc}: expected a correlation in 0..1"
        raise ConfigError(msg)
    prepared = prepare(to_options(args, out, None), out.environ)
    groups: dict[str, list[PlannedTrial]] = {}
    for trial in prepared.plan:
        groups.setdefault(trial.dataset, []).append(trial)
    aim = _Aim(items_for_half_width(0.5, args.half_width), DEFAULT_ICC if args.icc is None else args.icc)
    sets: dict[str, dict[str, Json]] = {
        name: _describe(prepared, trials, aim, args.seconds_a_call) for name, trials in groups.items()
    }
    rows = [(name, *[_text(value) for value in facts.values()]) for name, facts in sets.items()]
    header = ("data set", *[name for facts in list(sets.values())[:1] for name in facts])
    value: dict[str, Json] = {name: dict(facts) for name, facts in sets.items()}
    out.result(value, layout(header, rows) if rows else ["no item is left"])
    out.note(f"{aim.items} items of one class reach a half width of {args.half_width} at any rate")
    if any(facts["roots"] != facts["items"] for facts in sets.values()):
        source = "assumed" if args.icc is None else "as given"
        out.note(
            f"items of one root are alike: the smallest difference and the items needed allow for a correlation of "
            f"{aim.icc:g} ({source})"
        )
    return Exit.DONE if rows else Exit.FAILED


@dataclass(frozen=True, slots=True)
class _Aim:
    """What a plan is held against.

    Args:
        items: of one class that reach the wanted half width when they are independent.
        icc: correlation of items that come from one root.
    """

    items: int
    icc: float


@dataclass(frozen=True, slots=True)
class _Class:
    """The items of one truth: how many, and how many of a root an item has beside it on average, itself included."""

    items: int
    cluster_size: float


def _class_of(trials: Sequence[PlannedTrial], truth: str) -> _Class:
    """Return the items of a class; m is Σm²/Σm, so that roots of different sizes weigh as they should (Q-23)."""
    roots = Counter({trial.item_id: trial.cluster_id for trial in trials if trial.truth == truth}.values())
    items = roots.total()
    return _Class(items, sum([size * size for size in roots.values()]) / items if items else 1.0)


def _describe(prepared: Prepared, trials: Sequence[PlannedTrial], aim: _Aim, seconds: float | None) -> dict[str, Json]:
    sent = [trial for trial in trials if trial.skip is None]
    calls = sum([trial.arm != "check" for trial in sent])
    judged = sum([trial.arm != "direct" for trial in sent])
    tokens_in = sum([trial.chars for trial in sent]) // _CHARS_A_TOKEN
    tokens_out = calls * prepared.options.sampling.max_tokens
    price = prepared.target.price
    harmful, benign = _class_of(trials, "harmful"), _class_of(trials, "benign")
    lanes = prepared.options.concurrency or 20
    return {
        "items": len({trial.item_id for trial in trials}),
        "roots": len({trial.cluster_id for trial in trials}),
        "harmful": harmful.items,
        "benign": benign.items,
        "skipped": len(trials) - len(sent),
        "model calls": calls,
        "judged": judged,
        "tokens in (estimate)": tokens_in,
        "tokens out (at most)": tokens_out,
        "USD (at most)": None if price is None else round(price.cost(tokens_in, tokens_out), 4),
        "minutes": None if seconds is None else round(calls * seconds / lanes / 60, 1),
        "smallest difference": _detectable(harmful, aim.icc),
        "reaches half width": _reaches(harmful, benign, aim),
    }


def _detectable(found: _Class, icc: float) -> float | None:
    if not found.items:
        return None
    independent = found.items / design_effect(found.cluster_size, icc)
    return round(minimum_detectable_difference(independent, _DISCORDANT), 3)


def _reaches(harmful: _Class, benign: _Class, aim: _Aim) -> str:
    """Say whether both classes have the items it takes, or of the one that has the smaller part how many."""
    needed = {one: inflate_for_clusters(aim.items, one.cluster_size, aim.icc) for one in (harmful, benign)}
    least = min(needed, key=lambda one: one.items / needed[one])
    return "yes" if least.items >= needed[least] else f"no, {least.items} of {needed[least]}"


def _text(value: Json) -> str:
    return "unknown" if value is None else str(value)
