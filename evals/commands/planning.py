"""`evals plan`: what a run would take, and what it could tell; no call is made (H-170)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from evals.commands.arguments import (
    add_common,
    add_guard,
    add_running,
    add_selection,
    add_target,
    check_number,
    to_options,
)
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
    items_for_paired,
    items_for_unpaired,
    minimum_detectable_difference,
    minimum_detectable_unpaired,
)
from evals.statistics.proportions import items_for_half_width, items_for_upper_limit
from supervisors.errors import ConfigError

_DISCORDANT = 0.1
"""Share of items two systems differ on, assumed for the smallest difference that would be found."""
_FAILURES = 4
"""How many numbers of failures, from none on, the items for a limit are given for."""
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
    parser.add_argument(
        "--difference", type=float, default=0.05, metavar="D", help="of two rates, that should be found (default 0.05)"
    )
    parser.add_argument(
        "--discordant",
        type=float,
        metavar="SHARE",
        help=f"of the items two systems differ on (default {_DISCORDANT}, or D if that is more; assumed)",
    )
    parser.add_argument(
        "--unpaired", type=float, metavar="RATE", help="the other system has other items, and this rate is expected"
    )
    parser.add_argument("--at-most", type=float, metavar="RATE", help="say how many items prove a rate to be below it")
    parser.add_argument("--seconds-a-call", type=float, help="measured seconds of one call, for the minutes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals plan`."""
    aim = _aim(args)
    if args.seconds_a_call is not None:
        check_number("--seconds-a-call", args.seconds_a_call, 0)
    prepared = prepare(to_options(args, out, None), out.environ)
    groups: dict[str, list[PlannedTrial]] = {}
    for trial in prepared.plan:
        groups.setdefault(trial.dataset, []).append(trial)
    sets: dict[str, dict[str, Json]] = {
        name: _describe(prepared, trials, aim, args.seconds_a_call) for name, trials in groups.items()
    }
    rows = [(name, *[_text(value) for value in facts.values()]) for name, facts in sets.items()]
    header = ("data set", *[name for facts in list(sets.values())[:1] for name in facts])
    value: dict[str, Json] = {name: dict(facts) for name, facts in sets.items()}
    out.result(value, layout(header, rows) if rows else ["no item is left"])
    out.note(f"{aim.items} items of one class reach a half width of {args.half_width} at any rate")
    out.note(aim.said)
    if args.at_most is not None:
        counts = [str(items_for_upper_limit(args.at_most, failures)) for failures in range(_FAILURES)]
        out.note(
            f"a rate of at most {args.at_most:g} (one-sided 95 %) takes {counts[0]} items without a failure, "
            f"{', '.join(counts[1:])} with 1, 2, 3"
        )
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
        needed: items of one class, in each run, that show the wanted difference when they are independent.
        smallest: independent items of one class → smallest difference they show, None if none at all.
        said: the needed items in words.
    """

    items: int
    icc: float
    needed: int
    smallest: Callable[[float], float | None]
    said: str


def _aim(args: argparse.Namespace) -> _Aim:
    """Return what the options want.

    Raises:
        ConfigError: an option is out of its range.
    """
    shares = {"--icc": args.icc, "--discordant": args.discordant, "--unpaired": args.unpaired}
    for name, value in shares.items():
        if value is not None and not 0 <= value <= 1:
            msg = f"{name} {value}: expected {'a correlation' if name == '--icc' else 'a share'} in 0..1"
            raise ConfigError(msg)
    for name, value, most in (
        ("--half-width", args.half_width, 0.5),
        ("--difference", args.difference, 1),
        ("--at-most", args.at_most, 1),
    ):
        if value is not None and not 0 < value < most:
            msg = f"{name} {value}: expected a share between 0 and {most}"
            raise ConfigError(msg)
    width = items_for_half_width(0.5, args.half_width)
    icc = DEFAULT_ICC if args.icc is None else args.icc
    return _aim_unpaired(args, width, icc) if args.unpaired is not None else _aim_paired(args, width, icc)


def _aim_paired(args: argparse.Namespace, width: int, icc: float) -> _Aim:
    share = max(_DISCORDANT, args.difference) if args.discordant is None else args.discordant
    if share < args.difference:
        msg = f"--discordant {share:g}: two rates cannot differ by {args.difference:g} on fewer items than that"
        raise ConfigError(msg)
    plan = items_for_paired(share, args.difference)
    source = "assumed" if args.discordant is None else "as given"
    said = (
        f"{plan.items} items of one class ({plan.items_connor} by Connor's form) show a difference of "
        f"{args.difference:g} where two systems differ on {share:g} of the items ({source})"
    )
    return _Aim(width, icc, plan.items, partial(minimum_detectable_difference, discordant=share), said)


def _aim_unpaired(args: argparse.Namespace, width: int, icc: float) -> _Aim:
    base = args.unpaired
    other = base + args.difference if base <= 0.5 else base - args.difference
    if not 0 <= other <= 1:
        msg = f"--difference {args.difference:g}: there is no rate that far from {base:g}"
        raise ConfigError(msg)
    needed = items_for_unpaired(base, other)
    said = f"{needed} items of one class in each run tell {base:g} from {other:g} where the items differ"
    return _Aim(width, icc, needed, lambda items: minimum_detectable_unpaired(base, items, items), said)


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
        "smallest difference": _detectable(harmful, aim),
        "smallest difference, benign": _detectable(benign, aim),
        "shows the difference": _reaches((harmful, benign), aim.needed, aim.icc),
        "reaches half width": _reaches((harmful, benign), aim.items, aim.icc),
    }


def _detectable(found: _Class, aim: _Aim) -> float | None:
    if not found.items:
        return None
    smallest = aim.smallest(found.items / design_effect(found.cluster_size, aim.icc))
    return None if smallest is None else round(smallest, 3)


def _reaches(classes: Sequence[_Class], wanted: int, icc: float) -> str:
    """Say whether both classes have the items it takes, or of the one that has the smaller part how many."""
    needed = [(one.items, inflate_for_clusters(wanted, one.cluster_size, icc)) for one in classes]
    items, least = min(needed, key=lambda one: one[0] / one[1])
    return "yes" if items >= least else f"no, {items} of {least}"


def _text(value: Json) -> str:
    return "unknown" if value is None else str(value)
