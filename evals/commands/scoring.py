"""`evals score`: new answer verdicts over stored answers; the model is not called (H-136)."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from evals.attempts import as_object
from evals.calibrating import Labelled, calibrate_panel, draw_labelled
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.datasets import list_cards, load_card, read_dataset
from evals.exits import Exit
from evals.folder import RunFolder
from evals.journal import sha256_json
from evals.judging import score_answers
from evals.manifest import refuse_imported
from evals.options import read_options
from evals.panel import Panel, load_panel
from evals.preflight import check_judges, write_tried
from evals.prepare import load_items
from evals.report.files import all_tables, report_line, write_report
from evals.scoring import apply_rule, open_scores
from evals.summary import Loaded, load_run, write_summary
from supervisors.errors import ConfigError

_SAMPLE = 200
"""Labelled answers that a calibration judges unless somebody says otherwise."""


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "score",
        help="new answer verdicts over stored answers",
        description="Judge the stored answers of a run by the offline rule, by one judge, or by a panel of three, "
        "which are asked for a label or for the answers to a list of questions.",
        epilog="example: evals score runs/mine --panel judges.yaml",
    )
    add_common(parser)
    parser.add_argument("name", metavar="RUN", help="name or folder of the run")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--scorer", choices=("rule",), help="the offline rule")
    group.add_argument("--panel", type=Path, metavar="FILE", help="file with one judge or three, see docs/evals.md")
    parser.add_argument(
        "--calibrate", metavar="SET", help="measure the judges on answers people have labelled, and correct the rates"
    )
    parser.add_argument(
        "--calibrate-sample", type=int, metavar="N", help=f"labelled answers to judge (default {_SAMPLE})"
    )
    parser.add_argument("--skip-preflight", action="store_true", help="go on though a judge fails a known case")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals score`."""
    _refuse_idle(args)
    folder = find_run(args, out, args.name)
    loaded = load_run(folder)
    if args.scorer == "rule":
        apply_rule(folder, loaded.plan, loaded.counted)
    else:
        refuse_imported(loaded.manifest, "score --panel")
        panel = load_panel(args.panel, out.environ, _sets_of(args, loaded))
        for name in dict.fromkeys([trial.dataset for trial in loaded.plan]):
            panel.of(name)  # no questions for a set: said before anything is spent
        options = read_options(loaded.manifest.options)
        if args.data_dir is not None:
            options = options.with_data_dir(str(args.data_dir))
        labelled = _labelled(args, panel, loaded, Path(options.data_dir))
        asyncio.run(_check(panel, folder, out, warn_only=args.skip_preflight))
        items = {item.item_id: item for item in load_items(options)}
        path = asyncio.run(score_answers(panel, loaded, folder, items))
        out.note(f"scores: {path}")
        if labelled is not None:
            _calibrate(out, panel, folder, labelled)
    summary = write_summary(folder)
    pages = write_report(folder, summary)
    out.result(summary, all_tables(summary))
    out.note(report_line(pages))
    return Exit.DONE


def _sets_of(args: argparse.Namespace, run: Loaded) -> list[str]:
    """Return the data sets with a card whose answers are judged."""
    planned = dict.fromkeys([trial.dataset for trial in run.plan])
    wanted = [*planned, *_calibration_set(args)]
    known = {one.card.id for one in list_cards() if one.card is not None}
    return [name for name in wanted if name in known]


def _calibration_set(args: argparse.Namespace) -> list[str]:
    return [] if args.calibrate is None else [load_card(args.calibrate).id]


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse options that would do nothing.

    Raises:
        ConfigError: the first one, and what it goes with.
    """
    given = {
        "--calibrate": args.calibrate is not None,
        "--calibrate-sample": args.calibrate_sample is not None,
        "--skip-preflight": bool(args.skip_preflight),
    }
    idle = [name for name, value in given.items() if value]
    if args.scorer is not None and idle:
        msg = f"evals score: {idle[0]} is about judges: it goes with --panel, not with --scorer {args.scorer}"
        raise ConfigError(msg)
    if args.calibrate is None and args.calibrate_sample is not None:
        msg = "evals score: --calibrate-sample goes with --calibrate SET"
        raise ConfigError(msg)


_NO_CALIBRATION = {
    "answer_kind": "this panel is asked what kind of answer it is",
    "rubric": "nobody has labelled what the questions of a rubric ask",
}


def _labelled(args: argparse.Namespace, panel: Panel, run: Loaded, data_dir: Path) -> Labelled | None:
    """Return the labelled answers of a calibration, found before any judge is asked; None without one.

    Raises:
        ConfigError: the panel is not asked about harm, or the sample is too small.
        DatasetError: the set is not on disk, or people have not labelled its answers.
    """
    if args.calibrate is None:
        return None
    if panel.task in _NO_CALIBRATION:
        msg = f"--calibrate: people have labelled harm, and {_NO_CALIBRATION[panel.task]}; use task: harm or severity"
        raise ConfigError(msg)
    size: int = _SAMPLE if args.calibrate_sample is None else args.calibrate_sample
    if size < 2:
        msg = f"--calibrate-sample {size}: expected at least 2, one unsafe and one safe answer"
        raise ConfigError(msg)
    card = load_card(args.calibrate)
    read = read_dataset(card, data_dir)
    sha256 = sha256_json([fact.sha256 for fact in read.files])
    return draw_labelled(card, sha256, read.items, size, read_options(run.manifest.options).selection.seed)


def _calibrate(out: Output, panel: Panel, folder: RunFolder, labelled: Labelled) -> None:
    """Measure the panel on human-labelled answers and store what was found beside its scores."""
    body = asyncio.run(calibrate_panel(panel, folder, labelled))
    lost = as_object(body["without_label"])
    out.note(
        f"calibrated on {labelled.card.id}: sensitivity {body['unsafe_right']}/{body['unsafe']}, specificity "
        f"{body['safe_right']}/{body['safe']}; no label: {lost['unsafe']} unsafe, {lost['safe']} safe"
    )


async def _check(panel: Panel, folder: RunFolder, out: Output, *, warn_only: bool) -> None:
    """Try every judge on known cases before any money is spent on it, and store what each said (H-139).

    Raises:
        ConfigError: a judge failed, with what it said of which case.
    """
    found = await check_judges(panel)
    path, _ = open_scores(folder, panel.name, panel.config)
    write_tried(path, found)
    for one in found:
        out.note(f"pre-flight: {one}")
    failed = [one for one in found if not one.passed]
    if not failed:
        return
    said = f"{len(failed)} of {len(found)} pre-flight cases failed"
    if not warn_only:
        cases = "\n  ".join(map(str, failed))
        msg = f"{said}; --skip-preflight goes on all the same\n  {cases}"
        raise ConfigError(msg)
    out.note(f"warning: {said}: these judges are not to be believed")
