"""`evals bells score` and `evals bells table`: the BELLS score from verdicts or counts, or from a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.attempts import as_object
from evals.bells.open_results import read_open_results
from evals.bells.published import read_sample
from evals.bells.resampling import resample_cells
from evals.bells.score import BellsScore, load_cells, score
from evals.bells.table import DRAWS, SEED, Filter, build_tables, to_text
from evals.bells.verdicts import ItemVerdict, export_rows, read_verdicts
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.design import to_item_verdicts, without_seen
from evals.exits import Exit
from evals.folder import each_line
from evals.nouns import count_of
from evals.report.table import layout, span_of
from evals.rows import join
from evals.statistics.bootstrap import Bootstrap
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
        "source",
        metavar="FILE|RUN",
        help="verdicts (.jsonl), counts (.json), the published sample (.csv), a run, or a folder of BELLS-O results",
    )
    parser.add_argument("--max-fpr", type=float, help="table: only supervisors with at most this FPR")
    parser.add_argument("--min-score", type=float, help="table: only supervisors with at least this score")
    parser.add_argument("--family", help="table: only this jailbreak family")
    parser.add_argument(
        "--with-seen", action="store_true", help="a run: count the items seen in the guard's training, too"
    )
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
        _refuse_seen(args)
        _show_scores(_of_counts(path), out)
        return Exit.DONE
    verdicts = _verdicts(args, out, path)
    if not verdicts:
        out.problem(f"nothing was evaluated: {args.source} holds no verdict")
        return Exit.FAILED
    if args.action == "export":
        _export(verdicts, out)
        return Exit.DONE
    keep = Filter(min_score=args.min_score, max_fpr=args.max_fpr, family=args.family)
    tables = build_tables(verdicts, keep=keep)
    if args.action == "table":
        out.result(to_json(tables), to_text(tables).splitlines())
    else:
        _show_scores({table.supervisor: _Scored(table.score, table.resampled) for table in tables}, out)
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _Scored:
    score: BellsScore
    resampled: Bootstrap | None


def _of_counts(path: Path) -> Mapping[str, _Scored]:
    found: dict[str, _Scored] = {}
    for name, cells in load_cells(path).items():
        one = score(cells)
        resampled = None if one.score is None else resample_cells(cells, one.sizes, seed=SEED, draws=DRAWS)
        found[name] = _Scored(one, resampled)
    return found


def _show_scores(found: Mapping[str, _Scored], out: Output) -> None:
    spans = {name: to_json(one.resampled) for name, one in found.items()}
    rows = [
        (
            *(name, _text(one.score.score), span_of(to_json(one.score)), span_of(spans[name])),
            *(_text(one.score.dr_adv.estimate), str(one.score.dr_direct), str(one.score.fpr)),
        )
        for name, one in found.items()
    ]
    reasons = [f"{name}: no score: {one.score.reason}" for name, one in found.items() if one.score.score is None]
    value: Json = {name: {**as_object(to_json(one.score)), "resampled": spans[name]} for name, one in found.items()}
    out.result(value, [*layout(_SCORE_HEADER, rows), *reasons])


def _export(verdicts: Sequence[ItemVerdict], out: Output) -> None:
    """Write the verdicts as lines of JSON, which `evals bells` reads again; with ``--json`` as one list."""
    if out.as_json:
        out.result([*export_rows(verdicts)], ())
    else:
        out.text({}, each_line(as_object(row) for row in export_rows(verdicts)))


def _verdicts(args: argparse.Namespace, out: Output, path: Path) -> Sequence[ItemVerdict]:
    readers = {".jsonl": read_verdicts, ".csv": read_sample}
    if path.suffix in readers and path.is_file():
        _refuse_seen(args)
        return readers[path.suffix](path)
    if path.is_dir() and not (path / "manifest.json").exists():
        _refuse_seen(args)
        return read_open_results(path)
    found = load_run(find_run(args, out, args.source))
    rows = join(found.plan, found.counted, None)
    allowed = bool(args.with_seen or found.manifest.options.get("allow_contaminated"))
    kept = without_seen(rows, allowed=allowed)
    if len(kept) < len(rows):
        left = count_of(len(rows) - len(kept), "trial")
        out.note(f"{left} of items seen in training left out, as in reports; --with-seen counts them")
    return [*to_item_verdicts(kept)]


def _refuse_seen(args: argparse.Namespace) -> None:
    if args.with_seen:
        msg = f"--with-seen is for runs: {args.source} does not say what was seen in training"
        raise ConfigError(msg)


def _text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.6f}"
