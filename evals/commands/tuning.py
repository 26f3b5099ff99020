"""`evals tune`: thresholds and cascades under a budget, written back as a policy with the evidence beside it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evals.commands.arguments import add_common, check_limits, find_run
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.folder import make_folder, write_file, write_json
from evals.manifest import Manifest
from evals.nouns import count_of
from evals.operating.candidates import Budget
from evals.operating.scores import Judged, supervisors_of, to_judged
from evals.operating.snippet import data_lines, evidence, read_policy, to_policy_file, with_choice
from evals.operating.sources import load_source, remove_shared
from evals.operating.tables import tuned_lines
from evals.operating.tune import Tuned, tune, tune_and_test
from evals.summary import load_run
from supervisors.errors import ConfigError


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "tune",
        help="choose thresholds and cascades under a budget",
        description="Choose a threshold, a pair of thresholds or a cascade from a run's stored scores, under a false "
        "positive, latency and cost budget; measure the choice on items it was not made on; write it as a policy.",
        epilog="example: evals tune mine --max-fpr 0.05 --max-p95 0.2 --out tuned",
    )
    add_common(parser)
    parser.add_argument("name", metavar="RUN", help="run whose scores are chosen from")
    parser.add_argument("--max-fpr", type=float, required=True, metavar="FPR", help="largest false positive rate")
    parser.add_argument("--max-p95", type=float, metavar="S", help="longest p95 in seconds")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="most for a thousand items")
    parser.add_argument("--supervisor", action="append", default=[], metavar="NAME", help="only these; repeatable")
    parser.add_argument("--stage", choices=("input", "output"), default="input", help="default input")
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="of the cross-validation (default 5)")
    parser.add_argument("--test", metavar="RUN", help="measure on this run instead; shared items are removed from it")
    parser.add_argument("--seed", type=int, default=0, help="of the folds (default 0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write policy.yaml and evidence.json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals tune`; a held-out FPR that breaks the budget ends with the code of a failed gate."""
    if not 0 < args.max_fpr < 1:
        msg = f"--max-fpr {args.max_fpr:g}: expected a rate between 0 and 1"
        raise ConfigError(msg)
    check_limits(args.max_p95, args.max_cost)
    budget = Budget(args.max_fpr, args.max_p95, args.max_cost)
    folder = find_run(args, out, args.name)
    if args.test is None:
        loaded = load_run(folder)
        judged, manifest = to_judged(loaded), loaded.manifest
        names = _names(args, judged)
        found = tune(judged, names, budget, args.folds, args.seed)
    else:
        data_dir = None if args.data_dir is None else str(args.data_dir)
        source = load_source(folder, data_dir)
        judged, manifest = source.judged, source.manifest
        names = _names(args, judged)
        test, removed = remove_shared(load_source(find_run(args, out, args.test), data_dir), source)
        found = tune_and_test(
            judged, test, names, budget, f"run {args.test}, {count_of(removed, 'shared trial')} removed"
        )
    out.result(evidence(found), tuned_lines(found))
    if found.chosen is None:
        out.problem("nothing keeps the budget: raise --max-fpr, --max-p95 or --max-cost")
        return Exit.GATE_FAILED
    if args.out is not None:
        _write(found, manifest, [one.dataset for one in judged], args, out)
    return {"yes": Exit.DONE, "no": Exit.GATE_FAILED}.get(found.keeps_budget, Exit.INCONCLUSIVE)


def _names(args: argparse.Namespace, judged: Sequence[Judged]) -> list[str]:
    """Return the supervisors that may be chosen from: of one stage, with scores in 0..1.

    Raises:
        ConfigError: there is none, or one that was named has no scores.
    """
    known = [name for name in supervisors_of(judged) if name.endswith(f"@{args.stage}") and _scores(judged, name)]
    if not args.supervisor:
        names = known
    else:
        names = [name for name in known if {name, name.rpartition("@")[0]} & set(args.supervisor)]
        missing = [one for one in args.supervisor if not any(one in (n, n.rpartition("@")[0]) for n in names)]
        if missing:
            msg = f"no scores of {', '.join(missing)} at {args.stage}; there are {', '.join(known) or 'none'}"
            raise ConfigError(msg)
    if not names:
        msg = f"no supervisor at {args.stage} gave scores in 0..1; nothing can be tuned"
        raise ConfigError(msg)
    return names


def _scores(judged: Sequence[Judged], name: str) -> bool:
    scores = [score for one in judged if (score := one.scored(name).score) is not None]
    return bool(scores) and all(0 <= score <= 1 for score in scores)


def _write(found: Tuned, manifest: Manifest, sets: Sequence[str], args: argparse.Namespace, out: Output) -> None:
    if found.chosen is None:
        return
    made = datetime.now(UTC).date().isoformat()
    policy = with_choice(read_policy(manifest), found.chosen, found.supervisors)
    names = list(dict.fromkeys(sets))
    head = [f"Made by `evals tune` on {made} from run {manifest.run_id}; evidence.json has every number.", "Chosen on:"]
    text = to_policy_file(policy, [*head, *data_lines(manifest, names), *tuned_lines(found)], out.environ)
    folder: Path = args.out
    make_folder(folder)
    write_file(folder / "policy.yaml", text)
    data = {name: manifest.lock[name] for name in names}
    write_json(
        folder / "evidence.json", {**evidence(found), "date": made, "run_id": manifest.run_id, "data": evidence(data)}
    )
    out.note(f"written to {folder}")
