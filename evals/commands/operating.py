"""`evals thresholds`, `transfer` and `combine`: operating points from stored verdicts; no call is made (H-159)."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evals.commands.arguments import add_common, check_limits, check_number, find_run
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.folder import make_folder, write_file, write_json
from evals.operating.combine import Limits, combine_all
from evals.operating.logistic import joint_name
from evals.operating.scores import choose_members, choose_supervisor, supervisors_of, to_judged
from evals.operating.snippet import (
    at_score,
    data_lines,
    entry_of,
    evidence,
    read_policy,
    to_policy_file,
    with_supervisor,
)
from evals.operating.sources import Source, load_source, remove_shared
from evals.operating.tables import combination_lines, matrix_csv, matrix_lines, threshold_lines
from evals.operating.thresholds import BUDGETS, Thresholds, Wanted, set_thresholds, split
from evals.operating.transfer import Part, make_matrix, model_pairs, prepare_pairs
from evals.statistics.curves import Costs
from evals.statistics.jsonable import to_json
from evals.summary import load_run
from supervisors.errors import ConfigError

_TRANSFER_BUDGETS = (0.01, 0.05)


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    _add_thresholds(commands)
    _add_transfer(commands)
    _add_combine(commands)


def _add_thresholds(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "thresholds",
        help="operating points from stored scores",
        description="Set a threshold for each false positive budget on one run's scores, and test it on other items.",
        epilog="example: evals thresholds calibration --test held-out --out points",
    )
    add_common(parser)
    parser.add_argument("name", metavar="RUN", help="run whose scores the thresholds are set on")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--test", metavar="RUN", help="run they are tested on; shared items are removed from it")
    side.add_argument(
        "--split", type=float, metavar="SHARE", help="set on this share of the root items, test on the rest"
    )
    parser.add_argument("--supervisor", metavar="NAME", help="whose scores (default: the only one with scores)")
    parser.add_argument("--budget", action="append", type=float, default=[], metavar="FPR", help="repeatable")
    parser.add_argument("--guarantee", action="store_true", help="hold the upper limit of the FPR to the budget")
    parser.add_argument("--cost", metavar="MISS:FALSE:SHARE", help="also the cheapest point: costs, share of harmful")
    parser.add_argument("--seed", type=int, default=0, help="of split and bootstrap (default 0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write thresholds.json and a policy for each point")
    parser.set_defaults(run=run_thresholds)


def _add_transfer(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "transfer",
        help="thresholds set on one set, tested on others",
        description="Set a threshold on every data set of the runs and test it on every other one, overlap removed.",
        epilog="example: evals transfer run-a run-b --supervisor embedded --out transfer",
    )
    add_common(parser)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs with the same guard; each data set once")
    parser.add_argument(
        "--supervisor",
        action="append",
        default=[],
        metavar="NAME",
        help="whose scores (default: the only one with scores); repeatable with --logistic",
    )
    parser.add_argument(
        "--logistic",
        action="store_true",
        help="fit a logistic model over the scores of several supervisors on the row's set (extra train)",
    )
    parser.add_argument("--budget", action="append", type=float, default=[], metavar="FPR", help="repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of the halves on the diagonal and of folds (default 0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write transfer.json and transfer.csv")
    parser.set_defaults(run=run_transfer)


def _add_combine(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "combine",
        help="votes and cascades from stored verdicts",
        description="Recompute votes and cascades of the supervisors of a run, and say which nothing else beats.",
        epilog="example: evals combine mine --max-fpr 0.05 --max-p95 0.2",
    )
    add_common(parser)
    parser.add_argument("name", metavar="RUN", help="name or folder of the run")
    parser.add_argument("--supervisor", action="append", default=[], metavar="NAME", help="only these; repeatable")
    parser.add_argument("--size", type=int, default=3, metavar="N", help="most members of a combination (default 3)")
    parser.add_argument("--max-fpr", type=float, metavar="FPR", help="largest false positive rate")
    parser.add_argument("--max-p95", type=float, metavar="S", help="longest p95 in seconds")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="most for a thousand items")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="combinations listed (default 20)")
    parser.set_defaults(run=run_combine)


def run_thresholds(args: argparse.Namespace, out: Output) -> int:
    """Run `evals thresholds`."""
    folder = find_run(args, out, args.name)
    data_dir = None if args.data_dir is None else str(args.data_dir)
    removed = 0
    if args.test is not None:
        source = load_source(folder, data_dir)
        test, removed = remove_shared(load_source(find_run(args, out, args.test), data_dir), source)
        calibration, manifest = source.judged, source.manifest
        if not test:
            msg = (
                f"nothing to test on: {removed} trials of {args.test} are shared with {args.name}, and no other is left"
            )
            raise ConfigError(msg)
    else:
        run = load_run(folder)
        calibration, manifest, test = to_judged(run), run.manifest, ()
        if args.split is not None:
            calibration, test = split(calibration, args.split, args.seed)
    if not calibration:
        out.problem("nothing to set a threshold on: the run has no labelled trial with verdicts")
        return Exit.FAILED
    supervisor = choose_supervisor(calibration, args.supervisor)
    wanted = Wanted(tuple(args.budget) or BUDGETS, args.guarantee, _costs(args.cost), args.seed)
    found = set_thresholds(calibration, test, supervisor, wanted)
    out.result({**evidence(found), "removed": removed}, threshold_lines(found, removed))
    if args.out is not None:
        made = datetime.now(UTC).date().isoformat()
        head = [f"Made by `evals thresholds` on {made}.", "Calibrated on:", *data_lines(manifest, found.calibrated_on)]
        make_folder(args.out)
        write_json(args.out / "thresholds.json", {**evidence(found), "removed": removed, "date": made})
        for name, text in _policies(found, read_policy(manifest), head, out).items():
            write_file(args.out / name, text)
        out.note(f"written to {args.out}")
    return Exit.DONE


def _policies(found: Thresholds, policy: dict[str, object], head: Sequence[str], out: Output) -> dict[str, str]:
    files: dict[str, str] = {}
    name = found.supervisor.rpartition("@")[0]
    for point in found.points:
        if point.point is None or point.point.flags_nothing:
            out.note(f"{point.name}: no policy: {point.reason or 'no threshold keeps the budget'}")
            continue
        tuned = with_supervisor(policy, name, at_score(entry_of(policy, name), point.point.threshold))
        tested = (
            [
                f"Tested on {', '.join(found.tested_on)}: DR {point.tested.detection}",
                f"FPR {point.tested.false_positives}",
            ]
            if point.tested
            else ["Not tested."]
        )
        lines = [*head, f"{name}: unsafe from score {point.point.threshold!r} on ({point.name})"]
        lines += [f"DR there {point.point.detection}", f"FPR there {point.point.false_positives}", *tested]
        files[f"policy-{point.name.replace(' ', '-').replace('%', '').lower()}.yaml"] = to_policy_file(
            tuned, lines, out.environ
        )
    return files


def _costs(text: str | None) -> Costs | None:
    if text is None:
        return None
    try:
        miss, false, share = [float(part) for part in text.split(":")]
    except ValueError as error:
        msg = f"--cost {text}: expected MISS:FALSE:SHARE, such as 10:1:0.01"
        raise ConfigError(msg) from error
    if not all(0 <= one < math.inf for one in (miss, false)) or not 0 < share < 1:
        msg = f"--cost {text}: expected costs from 0 up and a share between 0 and 1"
        raise ConfigError(msg)
    return Costs(miss, false, share)


def run_transfer(args: argparse.Namespace, out: Output) -> int:
    """Run `evals transfer`."""
    data_dir = None if args.data_dir is None else str(args.data_dir)
    sources = [load_source(find_run(args, out, name), data_dir) for name in args.runs]
    guards = {str(source.manifest.identity.get("guard")) for source in sources}
    if len(guards) > 1:
        msg = f"the runs were made with {len(guards)} different guards; a threshold of one means nothing for another"
        raise ConfigError(msg)
    parts = _parts(sources)
    if not parts:
        out.problem("nothing was evaluated: no run has a labelled trial with verdicts")
        return Exit.FAILED
    judged = [one for part in parts for one in part.judged]
    prepared = prepare_pairs(parts, args.seed)
    if args.logistic:
        members = choose_members(judged, args.supervisor)
        supervisor, prepared = joint_name(members), model_pairs(prepared, members, args.seed)
    elif len(args.supervisor) > 1:
        msg = f"{len(args.supervisor)} supervisors are named; --logistic fits one model over their scores"
        raise ConfigError(msg)
    else:
        supervisor = choose_supervisor(judged, next(iter(args.supervisor), None))
    budgets = tuple(args.budget) or _TRANSFER_BUDGETS
    for budget in budgets:
        check_number("--budget", budget, 0, above=True, most=1)
    matrices = [make_matrix(prepared, supervisor, budget) for budget in budgets]
    out.result(to_json(matrices), [line for matrix in matrices for line in matrix_lines(matrix)])
    if args.out is not None:
        make_folder(args.out)
        write_json(args.out / "transfer.json", {"matrices": to_json(matrices)})
        write_file(args.out / "transfer.csv", matrix_csv(matrices))
        out.note(f"written to {args.out}")
    return Exit.DONE


def _parts(sources: Sequence[Source]) -> list[Part]:
    parts: dict[str, Part] = {}
    for source in sources:
        for name in dict.fromkeys([one.dataset for one in source.judged]):
            if name in parts:
                msg = f"data set {name} is in several runs; give each set once"
                raise ConfigError(msg)
            judged = tuple([one for one in source.judged if one.dataset == name])
            parts[name] = Part(name, judged, tuple([item for item in source.items if item.dataset == name]))
    return list(parts.values())


def run_combine(args: argparse.Namespace, out: Output) -> int:
    """Run `evals combine`."""
    if args.size < 1:
        msg = f"--size {args.size}: expected 1 or more"
        raise ConfigError(msg)
    judged = to_judged(load_run(find_run(args, out, args.name)))
    if not judged:
        out.problem("nothing was evaluated: the run has no labelled trial with verdicts")
        return Exit.FAILED
    known = supervisors_of(judged)
    names = [name for name in known if not args.supervisor or {name, name.rpartition("@")[0]} & set(args.supervisor)]
    missing = [name for name in args.supervisor if not any(name in (one, one.rpartition("@")[0]) for one in known)]
    if missing:
        msg = f"no supervisor {', '.join(missing)} in this run; it has {', '.join(known)}"
        raise ConfigError(msg)
    check_limits(args.max_p95, args.max_cost)
    if args.max_fpr is not None:
        check_number("--max-fpr", args.max_fpr, 0, most=1)
    found = combine_all(judged, names, Limits(args.max_fpr, args.max_p95, args.max_cost), args.size)
    out.result(to_json(found), combination_lines(found, max(0, args.show)))
    return Exit.DONE
