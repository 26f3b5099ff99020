"""`evals list`: what is installed, and in which state."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evals.commands.arguments import add_common, data_dir, runs_dir
from evals.commands.output import Output, Subparsers
from evals.datasets import list_cards, state
from evals.datasets.load import how_to_obtain
from evals.exits import Exit
from evals.folder import RunFolder
from evals.manifest import read_manifest
from evals.published.shipped import shipped
from evals.report.table import layout
from evals.scoring import KINDS, RULE_CONFIG
from evals.state import progress_of
from evals.statistics.jsonable import Json
from evals.summary import load_run
from evals.transforms import TRANSFORMS
from supervisors.errors import StoreError
from supervisors.plugins import find_plugins

KIND_WORDS = ("datasets", "supervisors", "scorers", "runs", "transforms", "published")


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb."""
    parser = commands.add_parser(
        "list",
        help="what is installed",
        description="List data sets, kinds of supervisor, scorers, runs with their state, transforms, or the "
        "published numbers that reports show beside ours.",
        epilog="example: evals list datasets --data-dir data",
    )
    add_common(parser)
    parser.add_argument("what", nargs="?", choices=KIND_WORDS, default="datasets")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run `evals list`."""
    header, rows = _LISTS[args.what](args, out)
    values: Json = [dict(zip(header, row, strict=True)) for row in rows]
    out.result(values, layout(header, rows) if rows else [f"no {args.what}"])
    return Exit.DONE


_Table = tuple[Sequence[str], list[Sequence[str]]]


def _datasets(args: argparse.Namespace, out: Output) -> _Table:
    folder = data_dir(args, out)
    rows: list[Sequence[str]] = []
    for listed in list_cards():
        card = listed.card
        if card is None:
            rows.append((listed.id, "broken", "", listed.error or "", ""))
        else:
            found = state(card, folder)
            advice = how_to_obtain(card, folder) if found in ("missing", "gated") else ""
            rows.append((listed.id, found, card.licence_class, card.title, advice))
    return ("id", "state", "licence", "title", "how to get it"), rows


def _supervisors(args: argparse.Namespace, out: Output) -> _Table:
    return ("use", "class"), [(name, point.value) for name, point in sorted(find_plugins().items())]


def _scorers(args: argparse.Namespace, out: Output) -> _Table:
    words = {
        "rule": str(RULE_CONFIG["meaning"]),
        "judge": "one model asked through a chat endpoint: --panel with one judge",
        "panel": "three models by majority: --panel with three judges",
        "rubric": "the share of yes or no questions answered yes: --panel with task: rubric",
    }
    return ("scorer", "what it says"), [(kind, words[kind]) for kind in KINDS if kind in words]


def _runs(args: argparse.Namespace, out: Output) -> _Table:
    rows = [_run_row(path.parent) for path in sorted(runs_dir(args, out).glob("*/manifest.json"))]
    return ("run", "started", "state", "done", "errors", "target", "guard"), rows


def _run_row(path: Path) -> Sequence[str]:
    try:
        folder = RunFolder(path)
        manifest = read_manifest(folder)
        run = load_run(folder)
    except StoreError as error:
        return (path.name, "", f"broken: {error}", "", "", "", "")
    progress = progress_of(run.plan, run.counted)
    done = f"{progress.ok + progress.skipped}/{progress.planned}"
    word = "complete" if progress.complete else "incomplete"
    labels = manifest.labels
    return (path.name, manifest.started, word, done, str(progress.errors), labels["target"], labels["guard"])


def _transforms(_: argparse.Namespace, __: Output) -> _Table:
    rows: list[Sequence[str]] = [(rule.name, rule.version, rule.kind, rule.says) for rule in TRANSFORMS.values()]
    return ("name", "version", "kind", "what it does"), rows


def _published(_: argparse.Namespace, __: Output) -> _Table:
    groups: dict[tuple[str, ...], list[float]] = {}
    for one in shipped():
        groups.setdefault((one.dataset, one.metric, one.source), []).append(one.value)
    rows: list[Sequence[str]] = [
        (*key, str(len(values)), f"{min(values):.3f}", f"{max(values):.3f}") for key, values in sorted(groups.items())
    ]
    return ("data set", "metric", "source", "systems", "lowest", "highest"), rows


_LISTS = {
    "datasets": _datasets,
    "supervisors": _supervisors,
    "scorers": _scorers,
    "runs": _runs,
    "transforms": _transforms,
    "published": _published,
}
