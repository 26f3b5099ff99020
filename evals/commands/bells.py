"""`evals bells score` and `evals bells table`: the BELLS score from verdicts or counts, or from a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evals.attempts import as_object
from evals.bells.open_results import read_open_results
from evals.bells.resampling import resample_cells
from evals.bells.score import load_cells, score
from evals.bells.table import DRAWS, SEED, Filter, build_tables, to_text
from evals.bells.verdicts import ItemVerdict, export_rows, read_verdicts
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.design import to_item_verdicts
from evals.exits import Exit
from evals.report.table import layout, span_of
from evals.rows import join
from evals.statistics.jsonable import Json, to_json
from evals.summary import load_run
from supervisors.errors import ConfigError

_SCORE_HEADER = ("supervisor", "BELLS", "interval", "resampled", "DR adversarial", "DR direct", "FPR direct")


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb with its actions."""
    parser = commands.add_parser(
        "bells",
        help="BELLS score and table",
        description="Score supervisors by the design of BELLS, from a file of verdicts or counts, or from a run.",
        epilog="example: evals bells table runs/mine",
    )
    add_common(parser)
    parser.add_argument("action", choices=("score", "table", "export"))
    parser.add_argument(
        "source", metavar="FILE|RUN", help="verdicts (.jsonl), counts (.json), a run, or a folder of BELLS-O results"
    )
    parser.add_argument("--max-fpr", type=float, help="table: only supervisors with at most this FPR")
    parser.add_argument("--min-score", type=float, help="table: only supervisors with at least this score")
    parser.add_argument("--family", help="table: only this jailbreak family")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run one action."""
    path = Path(args.source)
    filters = (args.max_fpr, args.min_score, args.family)
    if args.action != "table" and any(given is not None for given in filters):
        msg = f"evals bells {args.action}: --max-fpr, --min-score and --family choose rows; use `bells table`"
        raise ConfigError(msg)
    if path.suffix == ".json" and path.is_file():
        if args.action != "score":
            msg = f"evals bells {args.action}: {path.name} holds counts; a table needs verdicts (.jsonl) or a run"
            raise ConfigError(msg)
        found = {name: (cells, score(cells)) for name, cells in load_cells(path).items()}
        scores = {name: one for name, (_, one) in found.items()}
        resampled = {
            name: None if one.score is None else resample_cells(cells, one.sizes, seed=SEED, draws=DRAWS)
            for name, (cells, one) in found.items()
        }
    else:
        verdicts = _verdicts(args, out, path)
        if args.action == "export":
            rows = [*export_rows(verdicts)]
            out.result(rows, [str(to_json(row)) for row in rows])
            return Exit.DONE
        keep = Filter(min_score=args.min_score, max_fpr=args.max_fpr, family=args.family)
        tables = build_tables(verdicts, keep=keep)
        if args.action == "table":
            out.result(to_json(tables), to_text(tables).splitlines())
            return Exit.DONE
        scores = {table.supervisor: table.score for table in tables}
        resampled = {table.supervisor: table.resampled for table in tables}
    spans = {name: to_json(one) for name, one in resampled.items()}
    rows_ = [
        (
            *(name, _text(one.score), span_of(to_json(one)), span_of(spans[name]), _text(one.dr_adv.estimate)),
            *(str(one.dr_direct), str(one.fpr)),
        )
        for name, one in scores.items()
    ]
    reasons = [f"{name}: no score: {one.reason}" for name, one in scores.items() if one.score is None]
    value: Json = {name: {**as_object(to_json(one)), "resampled": spans[name]} for name, one in scores.items()}
    out.result(value, [*layout(_SCORE_HEADER, rows_), *reasons])
    return Exit.DONE


def _verdicts(args: argparse.Namespace, out: Output, path: Path) -> Sequence[ItemVerdict]:
    if path.suffix == ".jsonl" and path.is_file():
        return read_verdicts(path)
    if path.is_dir() and not (path / "manifest.json").exists():
        return read_open_results(path)
    found = load_run(find_run(args, out, args.source))
    rows = join(found.plan, found.counted, None)
    return [*to_item_verdicts(rows)]


def _text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.6f}"
