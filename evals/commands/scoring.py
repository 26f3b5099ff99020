"""`evals score`: new answer verdicts over stored answers; the model is not called (H-136)."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from evals.attempts import as_object
from evals.calibrating import calibrate_panel, draw_labelled
from evals.client import number
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.datasets import list_cards, load_card, read_dataset
from evals.exits import Exit
from evals.folder import RunFolder
from evals.journal import sha256_json
from evals.judging import score_answers
from evals.manifest import read_manifest, refuse_imported
from evals.options import read_options
from evals.panel import Panel, load_panel
from evals.preflight import check_judges, write_tried
from evals.prepare import load_items
from evals.report.files import all_tables, report_line, write_report
from evals.scoring import apply_rule, open_scores
from evals.summary import Loaded, load_run, write_summary
from supervisors.errors import ConfigError


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
        "--calibrate-sample", type=int, default=200, metavar="N", help="labelled answers to judge (default 200)"
    )
    parser.add_argument("--skip-preflight", action="store_true", help="go on though a judge fails a known case")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals score`."""
    folder = find_run(args, out, args.name)
    loaded = load_run(folder)
    if args.scorer == "rule":
        apply_rule(folder, loaded.plan, loaded.counted)
    else:
        refuse_imported(loaded.manifest, "score --panel")
        panel = load_panel(args.panel, out.environ, _sets_of(args, loaded))
        for name in dict.fromkeys([*(trial.dataset for trial in loaded.plan), *_calibration_set(args)]):
            panel.of(name)  # no questions for a set: said before anything is spent
        options = read_options(read_manifest(folder).options)
        if args.data_dir is not None:
            options = options.with_data_dir(str(args.data_dir))
        asyncio.run(_check(panel, folder, out, warn_only=args.skip_preflight))
        items = {item.item_id: item for item in load_items(options)}
        path = asyncio.run(score_answers(panel, loaded, folder, items))
        out.note(f"scores: {path}")
        if args.calibrate is not None:
            _calibrate(args, out, panel, folder, Path(options.data_dir))
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


def _calibrate(args: argparse.Namespace, out: Output, panel: Panel, folder: RunFolder, data_dir: Path) -> None:
    """Measure the panel on human-labelled answers and store what was found beside its scores.

    Raises:
        ConfigError: the panel is not asked about harm, or the sample is too small.
        DatasetError: the set is not on disk, or people have not labelled its answers.
    """
    if panel.task == "answer_kind":
        msg = (
            "--calibrate: people have labelled harm, and this panel is asked what kind of answer it is; use task: harm"
        )
        raise ConfigError(msg)
    if args.calibrate_sample < 2:
        msg = f"--calibrate-sample {args.calibrate_sample}: expected at least 2, one unsafe and one safe answer"
        raise ConfigError(msg)
    card = load_card(args.calibrate)
    read = read_dataset(card, data_dir)
    sha256 = sha256_json([fact.sha256 for fact in read.files])
    seed = int(number(as_object(read_manifest(folder).options.get("selection")).get("seed")) or 0)
    labelled = draw_labelled(card, sha256, read.items, args.calibrate_sample, seed)
    body = asyncio.run(calibrate_panel(panel, folder, labelled))
    lost = as_object(body["without_label"])
    out.note(
        f"calibrated on {card.id}: sensitivity {body['unsafe_right']}/{body['unsafe']}, specificity "
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
