"""`evals replay` and `evals direct`: plan, ask if it costs, run, score by the rule, summarise, print."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from evals.alike import count_alike
from evals.attempts import as_object
from evals.cases import apply_keywords
from evals.cautions import describe_failures, say_if_unjudged
from evals.client import BUILTIN_POLICIES, objects
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
from evals.comparison.measures import default_measures
from evals.comparison.pairing import Plan, compare_sides
from evals.comparison.sides import load_side
from evals.comparison.tables import comparison_lines
from evals.exits import Exit
from evals.folder import RunFolder, make_run_id, read_json
from evals.hindsight import make_recorded_run
from evals.journal import JsonObject, now_text
from evals.judging import has_votes, score_by_stored_votes
from evals.metrics import FAILURES
from evals.nouns import count_of
from evals.options import RunOptions
from evals.prepare import Prepared, prepare, span_of, suite_of
from evals.replay import Ending, Runner
from evals.report.against import keep_against
from evals.report.files import all_tables, report_line, write_report
from evals.report.stored import compare_with_file
from evals.rows import Rows, failing_items, join
from evals.scoring import apply_rule
from evals.session import Hooks, carry_out, check_reachable, check_same, create
from evals.spending import count_unpriced
from evals.state import Progress, progress_of
from evals.statistics.jsonable import to_json
from evals.summary import load_run, write_summary
from evals.traffic import path_of, read_traffic
from supervisors.errors import ConfigError

_CHANGES = 20
"""Changed decisions that a replay of recorded traffic lists."""
_ASK_FROM = 1000
"""Calls from which a terminal is asked first."""


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    replay = commands.add_parser(
        "replay",
        help="run items through the proxy",
        description="Run the items of data sets through the proxy and a model, and keep everything.",
        epilog="example: evals replay sample --target fake",
    )
    add_common(replay)
    replay.add_argument("sets", nargs="+", metavar="SET", help="data sets, by id or alias")
    add_target(replay)
    add_guard(replay)
    add_selection(replay)
    add_running(replay)
    recorded = replay.add_argument_group("recorded traffic, with journal:FILE")
    recorded.add_argument("--since", metavar="TIME", help="records from this UTC time on, such as 2026-01-31T00:00:00Z")
    recorded.add_argument("--until", metavar="TIME", help="records before this UTC time (default: now)")
    recorded.add_argument("--keep-text", action="store_true", help="store the recorded texts in the run folder too")
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
    if path_of(options.sets) is not None:
        return _run_journal(args, out, options)
    if args.since or args.until or args.keep_text:
        msg = "--since, --until and --keep-text go with journal:FILE only"
        raise ConfigError(msg)
    if options.guard is None and options.sets == ("bells-metacognitive",):
        options = options.with_guard(str(BUILTIN_POLICIES / "self-judge.yaml"))
    if options.proxy is not None and options.ledger == "shadow":
        msg = "--proxy enforces its own policy: use --ledger off, or --ledger paired with a URL target"
        raise ConfigError(msg)
    return start(args, out, prepare(options, out.environ))


def _run_journal(args: argparse.Namespace, out: Output, options: RunOptions) -> int:
    """Judge recorded exchanges again by another policy, and hold its decisions against the recorded ones."""
    if options.target != "fake" or options.proxy is not None or options.ledger != "shadow":
        msg = "journal:FILE asks supervisors about recorded exchanges and calls no model: leave out --target, --proxy "
        raise ConfigError(f"{msg}and --ledger")
    until = args.until or now_text()
    for option, value in (("--since", args.since), ("--until", until)):
        _check_time(option, value)
    journal = options.with_journal(args.since, until, keep_texts=args.keep_text)
    prepared = prepare(journal, out.environ)
    traffic = read_traffic(path_of(options.sets) or Path(), span_of(journal))
    for reason, count in traffic.left_out.items():
        out.note(f"left out: {count_of(count, 'record')} ({reason})")
    name: str = args.run_name or make_run_id()
    if args.force_new and (runs_dir(args, out) / name).exists():
        name = f"{name}-{make_run_id()}"
    args.run_name = name
    path = runs_dir(args, out) / f"{name}-recorded"
    code = start(args, out, prepared)
    candidate = runs_dir(args, out) / name
    if args.dry_run or not (candidate / "summary.json").exists():
        return code
    if not (path / "manifest.json").exists():
        write_summary(make_recorded_run(prepared, traffic, path, sys.argv))
    sides = [load_side(RunFolder(path)), load_side(RunFolder(candidate))]
    report = compare_sides(sides, Plan(default_measures([*sides[0].cases.values()])))
    out.result(to_json(report), ["", *comparison_lines(report, _CHANGES)])
    summary = as_object(read_json(RunFolder(candidate).summary))
    keep_against(RunFolder(candidate), to_json(report), summary)
    write_report(RunFolder(candidate), summary)
    out.note(f"all differences: evals compare {path} {candidate} --out DIR")
    return code


def _check_time(option: str, value: str | None) -> None:
    try:
        datetime.fromisoformat(value or "2026-01-31")
    except ValueError as error:
        msg = f"{option} {value}: expected a UTC time such as 2026-01-31T00:00:00Z"
        raise ConfigError(msg) from error


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
    nouns = {"items": "item", "trials": "trial", "model_calls": "model call"}
    counts = ", ".join([count_of(int(str(planned[name])), noun) for name, noun in nouns.items()])
    out.note(f"{counts} to {planned['target']}; guard {planned['guard']}")
    if not prepared.plan:
        out.problem("nothing was evaluated: no item is left; look at --limit, --filter, --category and --item-id")
        return Exit.FAILED
    if args.dry_run:
        path = _path_of(args, out, prepared)
        if (path / "manifest.json").exists() and not args.force_new:
            check_same(RunFolder(path), prepared)
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
    sys.stderr.write(f"{count_of(calls, 'call')}{', which may cost money' if costs else ''}. Go on? [y/N] ")
    sys.stderr.flush()
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        out.problem("not started; --yes asks nothing")
    return agreed


def _path_of(args: argparse.Namespace, out: Output, prepared: Prepared) -> Path:
    name: str = args.run_name or make_run_id()
    if prepared.options.shard is not None:
        name = f"{name}.{prepared.options.shard.replace('/', '-of-')}"
    return runs_dir(args, out) / name


def _open(args: argparse.Namespace, out: Output, prepared: Prepared) -> RunFolder:
    path = _path_of(args, out, prepared)
    if (path / "manifest.json").exists() and not args.force_new:
        return reopen(RunFolder(path), prepared)
    if (path / "manifest.json").exists():
        path = path.with_name(f"{path.name}-{make_run_id()}")
    check_reachable(prepared)
    return create(prepared, path, sys.argv)


def reopen(folder: RunFolder, prepared: Prepared) -> RunFolder:
    """Return a run that is to be continued; its servers are needed only when something is left to do.

    Raises:
        ConfigError: it is another run, or nobody listens at the address of its target or proxy.
    """
    check_same(folder, prepared)
    if prepared.target.kind == "url" or prepared.options.proxy is not None:
        run = load_run(folder)
        if not progress_of(run.plan, run.counted).complete:
            check_reachable(prepared)
    return folder


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
    pages = write_report(folder, summary)
    out.result(summary, all_tables(summary) + _comparison(prepared, summary))
    _say_unpriced(prepared, run.counted.values(), out)
    progress = progress_of(run.plan, run.counted)
    rows = join(run.plan, run.counted, None)
    alike = count_alike(rows)
    failures = describe_failures(alike, proxied=prepared.options.proxy is not None) or "no trial failed"
    out.note(report_line(pages))
    _say_next(folder, ending, progress, failures, out)
    code, unjudged = exit_code(ending, progress), say_if_unjudged(alike)
    if code == Exit.DONE and unjudged:
        out.problem(unjudged + _first_failure(rows))
        return Exit.FAILED
    return code


def _say_unpriced(prepared: Prepared, lines: Iterable[JsonObject], out: Output) -> None:
    """Say of a run with a budget whose cost it could not count."""
    if prepared.options.limits.max_cost is None:
        return
    found = [f"{name} in {count_of(times, 'trial')}" for name, times in count_unpriced(lines).items()]
    if found:
        out.note(f"not in the budget, for nobody says what it cost: {', '.join(found)}")


def _first_failure(rows: Rows) -> str:
    """Return what the first failed supervisor said of why, nothing where none did."""
    verdicts = (verdict for row in rows for verdict in objects(row.fields.get("verdicts")))
    detail = next((one.get("detail") for one in verdicts if one.get("cause") in FAILURES), None)
    return f"; the first: {detail}" if detail else ""


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

    every_s = 0.5 if sys.stderr.isatty() else 10.0
    hooks = Hooks(lambda s: _show(s, out), started, every_s, lambda whole, left: out.note(found_line(whole, left)))
    return await carry_out(folder, prepared, out.environ, hooks)


def found_line(planned: int, left: int) -> str:
    """Say of a run that was started before what is done again and what is not."""
    if left:
        return f"this run was started before: {planned - left} of {count_of(planned, 'trial')} done, {left} left"
    done = count_of(planned, "trial is done and is not", "trials are done and none is")
    return (
        f"this run is finished: {done} made again; its summary and report are made "
        "anew (another --run-name, or --force-new, starts a new run)"
    )


def _show(state: JsonObject, out: Output) -> None:
    out.event({"type": "progress", **state})
    out.progress(progress_line(state))


def _say_next(folder: RunFolder, ending: Ending, progress: Progress, failures: str, out: Output) -> None:
    if ending == "unauthorised":
        out.problem(f"stopped: {failures}")
    elif ending == "too_many_errors":
        out.problem(f"stopped: {failures}; put it right and resume, or raise --max-errors")
    elif progress.errors:
        out.problem(failures)
    elif ending == "budget":
        out.problem("stopped: the budget is spent")
    if not progress.complete:
        out.note(
            f"next: evals resume {folder.path}   ({count_of(progress.errors, 'error')}, {progress.missing} not done)"
        )
    else:
        out.note(f"next: evals verify {folder.path}")


def exit_code(ending: Ending, progress: Progress) -> int:
    """Return the exit code of a run (H-101)."""
    if ending == "interrupted":
        return Exit.INTERRUPTED
    if ending == "unauthorised":
        return Exit.FAILED
    return Exit.DONE if progress.complete and ending == "done" else Exit.INCOMPLETE
