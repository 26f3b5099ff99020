"""`evals import` and `evals export`: logs of other harnesses in, our verdicts out (harness §12)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from evals.commands.arguments import add_common, find_run, run_name, runs_dir
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.folder import RunFolder, each_line, make_run_id, write_pieces
from evals.interchange.conversations import conversation_lines
from evals.interchange.foreign import ForeignLog, ImportOptions
from evals.interchange.formats import FORMATS, ROW_FORMATS, SUMMARY_FORMATS, to_csv, write_parquet
from evals.interchange.garak import read_garak
from evals.interchange.inspect_log import read_inspect
from evals.interchange.promptfoo import read_promptfoo
from evals.interchange.store import Imported, Wanted, store_log, write_import_report
from evals.interchange.traces import to_traces
from evals.interchange.verdicts import read_verdicts
from evals.journal import JsonObject
from evals.nouns import count_of
from evals.options import read_options
from evals.prepare import load_items
from evals.report.files import report_line, write_report
from evals.statistics.jsonable import to_json
from evals.summary import Loaded, load_run, summarise, write_summary
from evals.traffic import PREFIX
from supervisors.errors import ConfigError
from supervisors.types import Label

READERS: Mapping[str, Callable[[Path, ImportOptions], ForeignLog]] = {
    "inspect": read_inspect,
    "garak": read_garak,
    "promptfoo": read_promptfoo,
}


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    reader = commands.add_parser(
        "import",
        help="read a log of inspect_ai, garak or promptfoo, or our own exported verdicts",
        description="Make a run folder of another harness's log. What it does not say stays unknown.",
        epilog="example: evals import inspect log.eval --map match:C=safe --map match:I=unsafe",
    )
    add_common(reader)
    reader.add_argument("source", choices=(*READERS, "jsonl"))
    reader.add_argument("file", type=Path, metavar="FILE")
    reader.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="SCORER:VALUE=LABEL",
        help="inspect: what a value means; repeatable",
    )
    reader.add_argument("--truth", choices=("harmful", "benign", "unknown"), default="unknown", help="of every item")
    reader.add_argument("--truth-field", metavar="NAME", help="metadata field or variable that holds harmful or benign")
    reader.add_argument("--hash-only", action="store_true", help="write no text anywhere, only hashes")
    reader.add_argument("--run-name", type=run_name, metavar="NAME", help="folder of the run")
    reader.add_argument("--tag", action="append", default=[], metavar="K=V", help="kept in the manifest; repeatable")
    reader.add_argument("--force", action="store_true", help="go on when totals of the log do not fit its rows")
    reader.set_defaults(run=run_import)
    writer = commands.add_parser(
        "export",
        help="verdicts and tables of a run for other tools",
        description="Write verdicts or tables of a run; no text of an item or an answer is in any of them.",
        epilog="example: evals export runs/mine --format csv --out verdicts.csv",
    )
    add_common(writer)
    writer.add_argument("name", metavar="RUN", help="name or folder of the run, or journal:FILE of a proxy")
    writer.add_argument("--format", choices=FORMATS, default="jsonl", help="default jsonl")
    writer.add_argument("--out", type=Path, metavar="FILE", help="default: stdout")
    writer.add_argument(
        "--conversation", metavar="RECORD", help="bells-trace of a journal: only the conversation with this record"
    )
    writer.add_argument("--excel-safe", action="store_true", help="csv: no cell begins like a formula")
    writer.set_defaults(run=run_export)


def run_import(args: argparse.Namespace, out: Output) -> int:
    """Run `evals import`."""
    if not args.file.is_file():
        msg = f"{args.file}: no such file"
        raise ConfigError(msg)
    folder = RunFolder(runs_dir(args, out) / (args.run_name or make_run_id()))
    if args.source == "jsonl":
        return _import_own(args, out, folder)
    options = ImportOptions(_mapping(args), args.truth, args.truth_field)
    log = READERS[args.source](args.file, options)
    if not log.trials:
        out.problem(f"nothing was evaluated: {args.file} holds no trial")
        return Exit.FAILED
    for line in log.mismatches:
        out.problem(f"{args.file}: {line}")
    if log.mismatches and not args.force:
        out.problem("the totals of the log do not fit its rows; --force imports it all the same")
        return Exit.DRIFT
    tags = dict([_tag(text) for text in args.tag])
    found = store_log(folder, log, Wanted(sys.argv, args.hash_only, tags, options))
    described = _describe(folder, log, found)
    write_import_report(folder, described)
    _finish(folder, out)
    out.result(described, _lines(log, found))
    if not log.complete or found.states.get("missing"):
        out.problem("the log is incomplete: what it planned and does not hold is missing, not safe")
        return Exit.INCOMPLETE
    return Exit.DONE


def _import_own(args: argparse.Namespace, out: Output, folder: RunFolder) -> int:
    given = {"--map": args.map, "--truth-field": args.truth_field, "--truth": args.truth != "unknown"}
    wrong = [name for name, value in given.items() if value]
    if wrong:
        msg = f"{wrong[0]} says what a foreign log does not; our own verdicts have labels and truth"
        raise ConfigError(msg)
    counts = read_verdicts(args.file, folder, sys.argv)
    if not counts["trials"]:
        out.problem(f"nothing was evaluated: {args.file} holds no trial")
        return Exit.FAILED
    _finish(folder, out)
    out.result({"run": str(folder.path), **counts}, [f"{name}: {count}" for name, count in counts.items()])
    return Exit.INCOMPLETE if counts["missing"] else Exit.DONE


def _finish(folder: RunFolder, out: Output) -> None:
    pages = write_report(folder, write_summary(folder))
    out.note(f"run folder: {folder.path}")
    out.note(report_line(pages))


def _mapping(args: argparse.Namespace) -> dict[tuple[str, str], Label]:
    """Return what values mean.

    Raises:
        ConfigError: an entry is not SCORER:VALUE=safe or =unsafe, or one value has two meanings.
    """
    if args.map and args.source != "inspect":
        msg = f"--map is for inspect; scores of {args.source} have a direction of their own"
        raise ConfigError(msg)
    found: dict[tuple[str, str], Label] = {}
    for text in args.map:
        left, _, label = text.rpartition("=")
        scorer, colon, value = left.partition(":")
        if label not in ("safe", "unsafe") or not colon or not scorer:
            msg = f"--map {text}: expected SCORER:VALUE=safe or SCORER:VALUE=unsafe, such as match:I=unsafe"
            raise ConfigError(msg)
        if found.setdefault((scorer, value), Label(label)) != Label(label):
            msg = f"--map {text}: {scorer}:{value} was given the other label before"
            raise ConfigError(msg)
    return found


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        msg = f"--tag {text}: expected K=V"
        raise ConfigError(msg)
    return name, value


def _describe(folder: RunFolder, log: ForeignLog, found: Imported) -> JsonObject:
    return {
        "run": str(folder.path),
        "source": log.source,
        "sha256": log.sha256,
        "facts": log.facts,
        "complete": log.complete,
        "trials": len(log.trials),
        "states": dict(found.states),
        "labels": to_json(found.labels),
        "unmapped": to_json(found.unmapped),
        "mismatches": list(log.mismatches),
        "ignored": dict(log.ignored),
    }


def _lines(log: ForeignLog, found: Imported) -> list[str]:
    states = ", ".join([f"{count} {state}" for state, count in found.states.items()])
    lines = [f"{log.source}: {count_of(len(log.trials), 'trial')} ({states})"]
    for name, labels in found.labels.items():
        lines.append(f"  {name}: {', '.join([f'{count} {label}' for label, count in labels.items()]) or 'no answer'}")
    for name, values in found.unmapped.items():
        said = ", ".join([f"{value} {count} times" for value, count in values.items()])
        lines.append(f"  {name}: without a label: {said}; --map {name}:VALUE=safe or =unsafe gives one")
    lines += [f"  not used: {count} {name}" for name, count in log.ignored.items()]
    return lines


def run_export(args: argparse.Namespace, out: Output) -> int:
    """Run `evals export`."""
    if args.name.startswith(PREFIX):
        return _export_journal(args, out)
    if args.conversation is not None:
        msg = "--conversation is for journal:FILE; a run has one exchange an item"
        raise ConfigError(msg)
    folder = find_run(args, out, args.name)
    run = load_run(folder)
    if args.format == "parquet":
        if args.out is None:
            msg = "--format parquet needs --out FILE"
            raise ConfigError(msg)
        write_parquet(run, args.out)
        return _written(args.out, out)
    if args.excel_safe and args.format != "csv":
        msg = f"--excel-safe is for --format csv, not {args.format}"
        raise ConfigError(msg)
    return _deliver(_pieces(run, folder, args), args, out)


def _pieces(run: Loaded, folder: RunFolder, args: argparse.Namespace) -> Iterable[str]:
    """Return the text of an export, piece by piece."""
    if args.format == "bells-trace":
        items = {item.item_id: item for item in load_items(read_options(run.manifest.options))}
        return each_line(to_traces(run, folder, items))
    if args.format in SUMMARY_FORMATS:
        return (SUMMARY_FORMATS[args.format](summarise(folder, run)),)
    return to_csv(run, excel_safe=True) if args.excel_safe else ROW_FORMATS[args.format](run)


def _export_journal(args: argparse.Namespace, out: Output) -> int:
    """Write the conversations of a proxy's own journal as traces (BT-03)."""
    if args.format != "bells-trace":
        msg = f"{args.name}: a journal is exported with --format bells-trace, not {args.format}"
        raise ConfigError(msg)
    lines = conversation_lines(Path(args.name.removeprefix(PREFIX)), args.conversation)
    return _deliver(each_line(lines), args, out)


def _deliver(pieces: Iterable[str], args: argparse.Namespace, out: Output) -> int:
    if args.out is not None:
        write_pieces(args.out, pieces)
        return _written(args.out, out)
    out.text({"format": args.format}, pieces)
    return Exit.DONE


def _written(path: Path, out: Output) -> int:
    out.result({"written": str(path)}, [str(path)])
    return Exit.DONE
