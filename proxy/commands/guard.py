"""``guardrail-proxy guard``: train and calibrate the embedded guard; list, try, pull and check all guards."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import cast

from proxy.arguments import Subparsers, read_text
from proxy.guards import VERBS, add_verbs
from supervisors.embedded.calibrate import Threshold, ThresholdsFile, find_threshold, parse_budget, write_thresholds
from supervisors.embedded.check import compare_build
from supervisors.embedded.evaluate import wilson_interval
from supervisors.embedded.guard import EmbeddedGuard
from supervisors.embedded.heldout import drop_repeats, read_calibration
from supervisors.embedded.model import HeadName, Weights, score_text
from supervisors.embedded.report import describe_guard, write_card, write_notice
from supervisors.embedded.shipped import shipped_weights
from supervisors.embedded.train import Build, train_guard
from supervisors.errors import ConfigError, DatasetError, GuardrailError
from supervisors.types import Exchange, Segment

_ENOUGH = 10
"""Texts times budget from which the interval of the rate ends below twice the budget, roughly."""
EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_DRIFT = 3
EXIT_GATE = 10


def add_parser(subparsers: Subparsers) -> None:
    """Declare the command with its verbs."""
    text = "list, try, pull, check, train and calibrate guards"
    guard = subparsers.add_parser("guard", help=text, description=text)
    guard.set_defaults(run=run)
    verbs = guard.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_train(verbs.add_parser("train", help="train the embedded guard from public data (extra: train)"))
    _add_calibrate(verbs.add_parser("calibrate", help="set thresholds from your own benign texts"))
    show = verbs.add_parser("show", help="print what a guard is and what was measured")
    show.add_argument("card", choices=["embedded"], help="name of the guard")
    score = verbs.add_parser("score", help='judge one text, e.g. guard score "How do I bake bread?"')
    score.add_argument("text", help="text to judge; - reads standard input")
    add_verbs(verbs)


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=["clean", "full"], default="clean", help="which sources (default clean)")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of public benchmark files")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the files go; required unless --check-only")
    parser.add_argument("--bits", type=int, choices=range(8, 21), default=15, metavar="8..20", help="default 15")
    parser.add_argument("--trained-at", type=_read_date, metavar="DATE", help="for the header, default today (UTC)")
    parser.add_argument("--check-only", action="store_true", help="compare with the shipped files, write nothing")


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--card", choices=["embedded"], default="embedded")
    parser.add_argument(
        "--benign", type=Path, required=True, metavar="FILE", help="one text a line, or JSON lines with prompt or text"
    )
    parser.add_argument("--budget", action="append", required=True, metavar="F", help="e.g. 0.01; may be repeated")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="thresholds file to write")


def run(args: argparse.Namespace) -> int:
    """Run one verb and return its exit code.

    0 done, 1 error or unknown, 2 usage, 3 data drift or offline, 10 a quality gate failed.
    """
    verbs = {"train": _train, "calibrate": _calibrate, "show": _show, "score": _score, **VERBS}
    try:
        return verbs[args.verb](args)
    except DatasetError as error:
        _complain(str(error))
        return EXIT_DRIFT if error.drifted else EXIT_ERROR
    except ConfigError as error:
        _complain(str(error))
        return EXIT_USAGE
    except BrokenPipeError:
        raise  # nobody reads on: no error, and cli.py knows what to do
    except (GuardrailError, OSError) as error:
        _complain(str(error))
        return EXIT_ERROR
    except ModuleNotFoundError as error:
        if error.name not in {"numpy", "scipy", "sklearn", "threadpoolctl"}:
            raise
        _complain(f"{error.name} is missing: pip install 'guardrail-proxy[train]'")
        return EXIT_USAGE


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _complain(line: str) -> None:
    sys.stderr.write(f"guardrail-proxy guard: {line}\n")


def _read_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        msg = f"{text!r} is not a date such as 2026-01-31"
        raise argparse.ArgumentTypeError(msg) from error


def _train(args: argparse.Namespace) -> int:
    if args.check_only == (args.out is not None):
        msg = "give either --out DIR or --check-only"
        raise ConfigError(msg)
    if args.check_only and args.trained_at is not None:
        msg = "--trained-at is for --out: a check takes the date of the shipped files"
        raise ConfigError(msg)
    trained_at: str = args.trained_at or datetime.now(UTC).date().isoformat()
    if args.check_only:
        trained_at = shipped_weights().header.trained_at
    build = train_guard(args.data, args.profile, args.bits, trained_at)
    missed = [gate for gate in build.gates if not gate.passed]
    for gate in build.gates:
        sign = ">=" if gate.at_least else "<="
        _say(f"{'ok  ' if gate.passed else 'FAIL'} {gate.name}: {gate.found:.4g} (must be {sign} {gate.limit:g})")
    if args.check_only:
        missed_or_wrong = bool(missed) | _check(args.data, build)
        return EXIT_GATE if missed_or_wrong else EXIT_OK
    name = "embedded" if args.profile == "clean" else f"embedded-{args.profile}"
    _write_files(
        args.out,
        {
            f"{name}.gpeg": build.weights,
            f"{name}.items": build.items,
            f"{name}.manifest.json": build.manifest,
            "MODEL_CARD.md": write_card(build).encode(),
            "NOTICE": write_notice(build.header).encode(),
        },
    )
    _say(f"wrote {name}.gpeg to {args.out}, weights sha256 {build.header.weights_sha256}")
    return EXIT_GATE if missed else EXIT_OK


def _check(data: Path, build: Build) -> bool:
    folder = files("supervisors.embedded")
    shipped, items = (folder / "embedded.gpeg").read_bytes(), (folder / "embedded.items").read_bytes()
    wrong = compare_build(build, shipped, items, read_calibration(data))
    for sentence in wrong:
        _complain(sentence)
    _say(
        "identical to the shipped files" if build.weights == shipped else f"{len(wrong)} difference(s) beyond tolerance"
    )
    return bool(wrong)


def _write_files(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        draft = folder / f"{name}.part"
        draft.write_bytes(content)
        draft.replace(folder / name)


def _calibrate(args: argparse.Namespace) -> int:
    weights = shipped_weights()
    texts = drop_repeats(read_texts(args.benign))
    _check_enough(len(texts), args.budget)
    logits = _score_all(weights, texts)
    digest = hashlib.sha256(args.benign.read_bytes()).hexdigest()
    wanted: list[str] = args.budget
    found: dict[HeadName, dict[str, Threshold]] = {
        head: {budget: find_threshold(values, budget) for budget in wanted} for head, values in logits.items()
    }
    thresholds: dict[HeadName, dict[str, float]] = {
        head: {budget: threshold.z for budget, threshold in budgets.items()} for head, budgets in found.items()
    }
    write_thresholds(
        args.out,
        ThresholdsFile(
            card=args.card,
            weights_sha256=weights.header.weights_sha256,
            calibrated_on=f"{args.benign.name} sha256:{digest}",
            texts=len(texts),
            thresholds=thresholds,
        ),
    )
    for head, budgets in found.items():
        for budget, threshold in budgets.items():
            _report(head, budget, threshold)
    return EXIT_OK


def _report(head: str, budget: str, threshold: Threshold) -> None:
    low, high = wilson_interval(threshold.flagged, threshold.total)
    count = f"flags {threshold.flagged} of {threshold.total}"
    _say(f"{head} {budget}: z > {threshold.z:.4f} {count}; false positive rate {low:.2%} to {high:.2%} (95 % interval)")
    share = float(parse_budget(budget))
    if share and high > 2 * share:
        needed = f"{ceil(_ENOUGH / share)} texts or more would bound it"
        _complain(f"warning: {head} {budget}: the true rate may be {high / share:.1f} x it; {needed}")


def _check_enough(count: int, budgets: Sequence[str]) -> None:
    """Refuse budgets that so few texts cannot tell from zero."""
    for budget in budgets:
        share = parse_budget(budget)
        if share and count * share < 1:
            texts = "1 text" if count == 1 else f"{count} distinct texts"
            msg = f"{texts} cannot measure a rate of {budget}: give at least {ceil(1 / share)}"
            raise ConfigError(msg)


def read_texts(path: Path) -> list[str]:
    """Read benign texts: JSON lines when the name ends in .jsonl, else one text a line; blank lines do not count.

    Raises:
        ConfigError: nothing to read, or a line without a text.
    """
    try:
        lines = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    if not lines:
        msg = f"{path} has no text: thresholds need benign texts, a thousand or more for a budget of 0.01"
        raise ConfigError(msg)
    if path.suffix != ".jsonl":
        return lines
    return [_read_row(line, number, path) for number, line in enumerate(lines, 1)]


def _read_row(line: str, number: int, path: Path) -> str:
    try:
        row = cast("object", json.loads(line))
    except ValueError as error:
        msg = f"{path} line {number} is not JSON"
        raise ConfigError(msg) from error
    fields = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    text = fields.get("prompt", fields.get("text"))
    if not isinstance(text, str) or not text.strip():
        msg = f"{path} line {number} has no text under 'prompt' or 'text'"
        raise ConfigError(msg)
    return text


def _score_all(weights: Weights, texts: list[str]) -> dict[HeadName, list[float]]:
    logits: dict[HeadName, list[float]] = {head: [] for head in weights.tables}
    for text in texts:
        for head, z in (score_text(weights, text) or {}).items():
            logits[head].append(z)
    return logits


def _show(args: argparse.Namespace) -> int:
    for line in describe_guard(shipped_weights().header):
        _say(line)
    return EXIT_OK


def _score(args: argparse.Namespace) -> int:
    segment = Segment("/messages/0/content", "user", "text", read_text(args.text))
    verdict = EmbeddedGuard().judge(Exchange("score", "none", "input", (segment,)))
    facts = {
        "label": verdict.label.value,
        "cause": verdict.cause,
        "score": verdict.score,
        "categories": verdict.categories,
        "transform": verdict.transform,
        "logits": verdict.extras.get("logits", {}),
    }
    _say(json.dumps(facts))
    return EXIT_OK
