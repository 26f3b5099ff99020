"""`evals verify`, `evals report` and `evals show`: what is known of a run that has been made."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from evals.attempts import as_object
from evals.client import objects
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.datasets import list_cards
from evals.exits import Exit
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.report.beside import keep_published
from evals.report.files import all_tables, report_line, write_report
from evals.rows import Row, join, policy_verdict, to_outcome
from evals.scoring import apply_rule
from evals.statistics.jsonable import Json, to_json
from evals.summary import Loaded, load_run, write_summary
from evals.verify import verify
from supervisors.errors import ConfigError


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    proof = commands.add_parser(
        "verify",
        help="prove that a run is complete and unchanged",
        description="Check every file of a run against every other; the first broken line is named.",
        epilog="example: evals verify runs/mine",
    )
    add_common(proof)
    proof.add_argument("name", metavar="RUN", help="name or folder of the run")
    proof.set_defaults(run=run_verify)
    report = commands.add_parser(
        "report",
        help="tables, plots and one HTML file of a run",
        description="Make the summary again from the run folder, and every table, plot and page from the summary.",
        epilog="example: evals report runs/mine --out page",
    )
    add_common(report)
    report.add_argument("name", metavar="RUN", help="name or folder of the run")
    report.add_argument("--out", type=Path, metavar="DIR", help="folder to write to (default: report/ of the run)")
    report.add_argument(
        "--published",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="numbers of others to stand beside ours; kept in the run's folder; repeatable",
    )
    report.set_defaults(run=run_report)
    show = commands.add_parser(
        "show",
        help="everything known about one item",
        description="Show the verdicts, votes and decisions of one item of a run, and how it counts.",
        epilog="example: evals show runs/mine sample/all/000003",
    )
    add_common(show)
    show.add_argument("name", metavar="RUN", help="name or folder of the run")
    show.add_argument("item", metavar="ITEM", help="item id, or the beginning of one")
    show.add_argument("--with-text", action="store_true", help="also show the stored answer")
    show.add_argument("--with-sensitive", action="store_true", help="also that to an item of a sensitive data set")
    show.set_defaults(run=run_show)


def run_verify(args: argparse.Namespace, out: Output) -> int:
    """Run `evals verify`."""
    checks = verify(find_run(args, out, args.name))
    holds = all(check.broken is None for check in checks)
    out.result({"holds": holds, "checks": to_json(checks)}, [str(check) for check in checks])
    return Exit.DONE if holds else Exit.FAILED


def run_report(args: argparse.Namespace, out: Output) -> int:
    """Run `evals report`."""
    folder = find_run(args, out, args.name)
    run = load_run(folder)
    apply_rule(folder, run.plan, run.counted)
    summary = write_summary(folder)
    if args.published:
        keep_published(folder, args.published)
    pages = write_report(folder, summary, args.out)
    suites: list[Json] = [str(page) for page in pages[1:]]
    out.result({"report": str(pages[0]), "suites": suites, "summary": summary}, all_tables(summary))
    out.note(report_line(pages))
    return Exit.DONE


def run_show(args: argparse.Namespace, out: Output) -> int:
    """Run `evals show`."""
    folder = find_run(args, out, args.name)
    run = load_run(folder)
    wanted: str = args.item
    rows = join(run.plan, run.counted, None)
    found = [rows[place] for place, trial in enumerate(run.plan) if trial.item_id.startswith(wanted)]
    if not found:
        msg = f"no item {wanted!r} in {folder.path}; ids begin like {run.plan[0].item_id if run.plan else '-'}"
        raise ConfigError(msg)
    keys = {row.planned.trial_key for row in found}
    times = Counter(key for line in run.lines if (key := str(line.get("trial_key"))) in keys)
    hidden = {name for name in {row.planned.dataset for row in found} if _is_sensitive(name)}
    shown: list[Json] = []
    for row in found:
        withheld = not args.with_sensitive and row.planned.dataset in hidden
        described = _describe(folder, run, row, with_text=args.with_text and not withheld)
        described["lines_of_this_trial"] = times[row.planned.trial_key]
        if args.with_text and withheld:
            described["answer_withheld"] = "the data set is sensitive: --with-sensitive shows it"
        shown.append(described)
    out.result(shown, [line for one in shown for line in _lines(as_object(one))])
    return Exit.DONE


def _is_sensitive(dataset: str) -> bool:
    """Say whether a data set's card marks its texts; one without a card, such as traces, marks nothing."""
    return any(listed.card is not None and listed.card.sensitive for listed in list_cards() if listed.id == dataset)


def _describe(folder: RunFolder, run: Loaded, row: Row, *, with_text: bool) -> JsonObject:
    key = row.planned.trial_key
    label, cause = policy_verdict(row)
    scores: JsonObject = {scores.scorer_id: to_json(scores.by_key.get((key, "answer"))) for scores in run.scores}
    described: JsonObject = {
        "planned": to_json(row.planned),
        "line": row.fields,
        "policy": {"label": label.value if label else None, "cause": cause.value if cause else None},
        "scores": scores,
        "counts_as": to_json(to_outcome(row)),
    }
    if with_text:
        sha256 = as_object(row.fields.get("answer")).get("sha256")
        described["answer_text"] = folder.read_text(str(sha256)) if sha256 else None
    return described


def _lines(one: JsonObject) -> list[str]:
    planned, line, policy = as_object(one["planned"]), as_object(one["line"]), as_object(one["policy"])
    lines = [
        f"{planned['item_id']}",
        f"  truth {planned['truth']}, arm {planned['arm']}, target {planned['target']}, repeat {planned['repeat']}",
        "  " + ", ".join([f"{name} {value}" for name, value in _happened(line)]),
        f"  policy says {policy['label']}{_because(policy['cause'])}",
    ]
    lines += [
        f"    {v['supervisor']} ({v['stage']}{_watches(v)}): {v['label']}{_because(v['cause'])}{_score(v['score'])}"
        for v in objects(line.get("verdicts"))
    ]
    behaviour = as_object(line.get("behaviour"))
    if behaviour:
        cut = ", truncated" if behaviour.get("truncated") else ""
        lines.append(f"  behaviour {behaviour['kind']} by rule {behaviour['rule']}{cut}")
    for name, value in as_object(one["scores"]).items():
        score = as_object(value)
        if not score:
            lines.append(f"  scorer {name}: not scored: {_unscored(planned, line)}")
            continue
        lines.append(f"  scorer {name}: {score.get('label')}{_because(score.get('cause'))} {score.get('detail') or ''}")
        lines += [f"    {vote['judge']}: {vote.get('said')}" for vote in objects(score.get("votes"))]
    if "answer_text" in one:
        lines += ["  answer:", f"    {one['answer_text']}"]
    if "answer_withheld" in one:
        lines.append(f"  answer withheld: {one['answer_withheld']}")
    return [text.rstrip() for text in lines]


def _happened(line: JsonObject) -> list[tuple[str, Json]]:
    """Return what a trial came to, without what there is not."""
    found = [("status", line.get("status") or "missing: it was not sent"), ("cause", line.get("cause"))]
    found += [(name, line.get(key)) for name, key in (("gate", "gate"), ("record", "record_id"))]
    return [(name, value) for name, value in found if value is not None]


def _score(value: Json) -> str:
    """Return a score to four digits; most supervisors give none with an unknown."""
    return f", score {value:.4g}" if isinstance(value, int | float) else ""


def _unscored(planned: JsonObject, line: JsonObject) -> str:
    """Say why a scorer has no verdict of a trial's answer."""
    if planned["arm"] == "check":
        return "supervisors alone were asked, so there is no answer"
    if line.get("status") != "ok":
        return "there is no answer"
    if line.get("blocked"):
        return "the guard blocked it, so the answer is not the model's"
    return "`evals score` has not come to it" if line.get("answer") else "there is no answer"


def _watches(verdict: JsonObject) -> str:
    return ", shadow: not part of what the policy says" if verdict.get("mode") == "shadow" else ""


def _because(cause: Json) -> str:
    return f" ({cause})" if cause else ""
