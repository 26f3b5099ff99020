"""`evals agreement`: how far the people or judges of a labelled set agree; no call is made."""

from __future__ import annotations

import argparse

from evals.commands.arguments import add_common, data_dir
from evals.commands.output import Output, Subparsers
from evals.datasets import list_cards, load, load_card
from evals.exits import Exit
from evals.raters import PairOfRaters, RaterReport, report_raters
from evals.report.table import layout
from evals.statistics.bootstrap import Bootstrap
from evals.statistics.jsonable import Json, to_json
from supervisors.errors import ConfigError


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "agreement",
        help="how far the raters of labelled sets agree",
        description="Read the ratings of human-labelled sets: votes, majority, Fleiss' and Cohen's kappa, "
        "Krippendorff's alpha, and how many independent votes the raters are worth.",
        epilog="example: evals agreement past-tense-responses --by-split",
    )
    add_common(parser)
    parser.add_argument("sets", nargs="+", metavar="SET", help="data sets whose cards name raters")
    parser.add_argument("--by-split", action="store_true", help="each file of a set as well")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run the verb."""
    folder = data_dir(args, out)
    reports: list[RaterReport] = []
    for name in args.sets:
        card = load_card(name)
        if len(card.raters) < 2:
            known = [one.id for one in list_cards() if one.card is not None and len(one.card.raters) > 1]
            msg = (
                f"evals agreement: {card.id} has no ratings of several people or judges; these have: {', '.join(known)}"
            )
            raise ConfigError(msg)
        reports += report_raters(card, load(name, folder), by_split=args.by_split)
    value: Json = [to_json(report) for report in reports]
    lines = [line for report in reports for line in (*describe(report), "")]
    out.result(value, lines[:-1])
    return Exit.DONE


def describe(report: RaterReport) -> list[str]:
    """Return one set as lines."""
    votes = ", ".join([f"{unsafe}: {n}" for unsafe, n in report.unsafe_votes.items()])
    lines = [
        f"{report.name}: {report.items} items rated by all of {', '.join(report.raters)}; {report.left_out} left out"
    ]
    if report.majority is not None:
        lines.append(f"  unsafe votes {votes}; majority unsafe {report.majority} of {report.items}")
    fleiss = report.fleiss
    lines += [
        f"  unanimous {report.unanimous} of {report.items}",
        f"  Fleiss kappa {_text(fleiss.kappa)} (observed {_text(fleiss.observed)}, expected {_text(fleiss.expected)})",
        f"  Krippendorff alpha nominal {_text(report.alpha_nominal)}{_span(report.alpha_nominal_span)}, "
        f"ordinal {_text(report.alpha_ordinal)}{_span(report.alpha_ordinal_span)}, "
        f"interval {_text(report.alpha_interval)}{_span(report.alpha_interval_span)}",
        f"  effective votes {_text(report.effective)} of {len(report.raters)}",
    ]
    header = ("pair", "n", "observed", "kappa", "phi", "safe-safe, safe-unsafe, unsafe-safe, unsafe-unsafe")
    return lines + [f"  {line}" for line in layout(header, [_pair(pair) for pair in report.pairs])]


def _span(found: Bootstrap | None) -> str:
    return "" if found is None or found.lo is None or found.hi is None else f" [{found.lo:.6f}, {found.hi:.6f}]"


def _pair(pair: PairOfRaters) -> tuple[str, ...]:
    found = pair.agreement
    cells = " ".join(map(str, pair.table)) or "–"
    return (
        f"{pair.left} – {pair.right}", str(found.n), _text(found.observed), _text(found.kappa), _text(pair.phi), cells
    )  # fmt: skip


def _text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.6f}"
