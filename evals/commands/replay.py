"""`evals replay` and `evals direct`: plan, ask if it costs, run, score by the rule, summarise, print."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from evals.attempts import as_object
from evals.cases import apply_keywords
from evals.client import BUILTIN_POLICIES
from evals.commands.arguments import (
    add_common,
    add_guard,
    add_running,
    add_selection,
    add_target,
    find_run,
    runs_dir,
    to_options,
)
from evals.commands.output import Output, Subparsers
from evals.commands.progress import progress_line
from evals.exits import Exit
from evals.folder import RunFolder, make_run_id
from evals.journal import JsonObject
from evals.judging import has_votes, score_by_stored_votes
from evals.prepare import Prepared, prepare, suite_of
from evals.replay import Ending, Runner
from evals.report.files import all_tables, write_report
from evals.report.stored import compare_with_file
from evals.rows import failing_items, join
from evals.scoring import apply_rule
from evals.session import Hooks, carry_out, check_same, create
from evals.state import Progress, progress_of
from evals.summary import load_run, write_summary
from supervisors.errors import ConfigError

_ASK_FROM = 1000
"""Calls from which a terminal is asked first."""


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    replay = commands.add_parser(
        "replay",
        help="run items through the proxy",
        description="Run the items of data sets through the proxy and a model, and keep everything.",
        epilog="example: evals replay smoke --target fake",
    )
    add_common(replay)
    replay.add_argument("sets", nargs="+", metavar="SET", help="data sets, by id or alias")
    add_target(replay)
    add_guard(replay)
    add_selection(replay)
    add_running(replay)
    replay.set_defaults(run=run_replay)
    direct = commands.add_parser(
        "direct",
        help="supervisors alone, no model",
        description="Ask the supervisors of a policy about the items; no model is called.",
        epilog="example: evals direct smoke --supervisor policy.yaml",
    )
    add_common(direct)
    direct.add_argument("sets", nargs="+", metavar="SET", help="data sets, by id or alias")
    direct.add_argument("--composition", metavar="RULE", help="how fields become messages (default: the card's)")
    add_guard(direct)
    direct.add_argument("--supervisor", dest="guard", type=Path, metavar="POLICY", help="the same as --guard")
    add_selection(direct)
    add_running(direct)
    direct.set_defaults(run=run_direct)


def run_replay(args: argparse.Namespace, out: Output) -> int:
    """Run `evals replay`."""
    options = to_options(args, out, _items_of(args, out))
    if options.guard is None and options.sets == ("bells-metacognitive",):
        options = options.with_guard(str(BUILTIN_POLICIES / "self-judge.yaml"))
    if options.proxy is not None and options.ledger == "shadow":
        msg = "--proxy enforces its own policy: use --ledger off, or --ledger paired with a URL target"
        raise ConfigError(msg)
    return start(args, out, prepare(options, out.environ))


def run_direct(args: argparse.Namespace, out: Output) -> int:
    """Run `evals direct`."""
    return start(args, out, prepare(to_options(args, out, _items_of(args, out), arms="check"), out.environ))


def _items_of(args: argparse.Namespace, out: Output) -> tuple[str, ...] | None:
    """Return the items of an earlier run that are to be done again, None when that was not asked."""
    wanted = {"failing": args.failing, "errors": args.errors_only}
    found: set[str] = set()
    for kind, name in wanted.items():
        if name is None:
            continue
        run = load_run(find_run(args, out, name))
        rows = join(run.plan, run.counted, run.scores[0] if run.scores else None)
        chosen = failing_items(rows) if kind == "failing" else [r.planned.item_id for r in rows if r.status == "error"]
        found |= set(chosen)
    return tuple(sorted(found)) if any(wanted.values()) else None


def describe_plan(prepared: Prepared) -> JsonObject:
    """Return the counts of a plan: trials, calls by kind."""
    sent = [trial for trial in prepared.plan if trial.skip is None]
    model_calls = sum([trial.arm != "check" for trial in sent])
    return {
        "trials": len(prepared.plan),
        "skipped": len(prepared.plan) - len(sent),
        "items": len({trial.item_id for trial in prepared.plan}),
        "model_calls": model_calls,
        "judged_exchanges": sum([trial.arm != "direct" for trial in sent]),
        "chars": sum([trial.chars for trial in sent]),
        "priced": prepared.target.price is not None,
        "target": prepared.target_label,
        "guard": prepared.guard.name,
    }


def start(args: argparse.Namespace, out: Output, prepared: Prepared) -> int:
    """Say what is planned, ask if it costs, and run it."""
    planned = describe_plan(prepared)
    out.note(
        f"{planned['items']} items, {planned['trials']} trials, {planned['model_calls']} model calls to "
        f"{planned['target']}; guard {planned['guard']}"
    )
    if not prepared.plan:
        out.problem("nothing was evaluated: no item is left; look at --limit, --filter, --category and --item-id")
        return Exit.FAILED
    if args.dry_run:
        out.result(planned, [f"{name}: {value}" for name, value in planned.items()])
        return Exit.DONE
    if not args.yes and not _agreed(prepared, out):
        return Exit.USAGE
    folder = _open(args, out, prepared)
    out.note(f"run folder: {folder.path}")
    return execute(folder, prepared, out)


def _agreed(prepared: Prepared, out: Output) -> bool:
    """Ask on a terminal when the run costs money or makes many calls; without one nothing is asked."""
    price = prepared.target.price
    costs = prepared.target.kind == "url" and (price is None or price.input + price.output > 0)
    calls = sum([trial.arm != "check" for trial in prepared.plan])
    if not sys.stdin.isatty() or not (costs or calls > _ASK_FROM):
        return True
    sys.stderr.write(f"{calls} calls{', which may cost money' if costs else ''}. Go on? [y/N] ")
    sys.stderr.flush()
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        out.problem("not started; --yes asks nothing")
    return agreed


def _open(args: argparse.Namespace, out: Output, prepared: Prepared) -> RunFolder:
    name: str = args.run_name or make_run_id()
    if prepared.options.shard is not None:
        name = f"{name}.{prepared.options.shard.replace('/', '-of-')}"
    path = runs_dir(args, out) / name
    if not (path / "manifest.json").exists():
        return create(prepared, path, sys.argv)
    if args.force_new:
        return create(prepared, path.with_name(f"{name}-{make_run_id()}"), sys.argv)
    check_same(RunFolder(path), prepared)
    return RunFolder(path)


def execute(folder: RunFolder, prepared: Prepared, out: Output) -> int:
    """Carry a run out, then score, summarise and print it."""
    ending = asyncio.run(_carry_out(folder, prepared, out))
    run = load_run(folder)
    apply_rule(folder, run.plan, run.counted)
    if has_votes(prepared.target.replies):
        asyncio.run(score_by_stored_votes(run, folder, prepared))
    if prepared.options.origin == "nessie":
        apply_keywords(folder, run.plan, run.counted, suite_of(prepared.options))
    summary = write_summary(folder)
    report = write_report(folder, summary)
    out.result(summary, all_tables(summary) + _comparison(prepared, summary))
    progress = progress_of(run.plan, run.counted)
    _say_next(folder, report, ending, progress, out)
    return exit_code(ending, progress)


def _comparison(prepared: Prepared, summary: JsonObject) -> list[str]:
    """Return ours beside the published columns, for a replay of the metacognitive file."""
    file = prepared.target.file
    if file is None or file.suffix != ".csv" or as_object(summary["results"]).get("coherence") is None:
        return []
    return ["", "compared with the columns of the file", *compare_with_file(summary, file).lines]


async def _carry_out(folder: RunFolder, prepared: Prepared, out: Output) -> Ending:
    loop = asyncio.get_running_loop()

    def started(runner: Runner) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, runner.interrupt)

    hooks = Hooks(lambda state: _show(state, out), started, 0.5 if sys.stderr.isatty() else 10.0)
    return await carry_out(folder, prepared, out.environ, hooks)


def _show(state: JsonObject, out: Output) -> None:
    out.event({"type": "progress", **state})
    out.progress(progress_line(state))


def _say_next(folder: RunFolder, report: Path, ending: Ending, progress: Progress, out: Output) -> None:
    out.note(f"report: {report}")
    if ending == "unauthorised":
        out.problem("the server refused the key on the first trial; check --api-key-env")
    elif ending == "too_many_errors":
        out.problem(f"stopped: {progress.errors} trials failed; look at `evals report`, or raise --max-errors")
    elif ending == "budget":
        out.problem("stopped: the budget is spent")
    if not progress.complete:
        out.note(f"next: evals resume {folder.path}   ({progress.errors} errors, {progress.missing} not done)")
    else:
        out.note(f"next: evals verify {folder.path}")


def exit_code(ending: Ending, progress: Progress) -> int:
    """Return the exit code of a run (H-101)."""
    if ending == "interrupted":
        return Exit.INTERRUPTED
    if ending == "unauthorised":
        return Exit.FAILED
    return Exit.DONE if progress.complete and ending == "done" else Exit.INCOMPLETE
