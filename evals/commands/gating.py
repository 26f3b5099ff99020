"""`evals gate` and `evals audit`: what a CI job acts on (H-165 to H-169, H-171)."""

from __future__ import annotations

import argparse
from pathlib import Path

from evals.audit import AuditReport, audit
from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.exits import Exit
from evals.gate.output import gate_lines, write_gate
from evals.gate.rules import load_rules
from evals.gate.run import Allowed, hold_gate
from evals.nouns import count_of
from evals.report.table import layout
from evals.statistics.jsonable import to_json


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs."""
    gate = commands.add_parser(
        "gate",
        help="pass, fail or inconclusive",
        description="Hold a run against rules, and against a base run; exit code 0 passed, 10 failed, 11 inconclusive.",
        epilog="example: evals gate candidate --against base --rules rules.yaml",
    )
    add_common(gate)
    gate.add_argument("name", metavar="RUN", help="name or folder of the run")
    gate.add_argument("--against", metavar="BASE", help="the run that relative rules compare with")
    gate.add_argument("--rules", type=Path, required=True, metavar="FILE", help="YAML file, see docs/evals.md")
    gate.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of gate.json, gate.md, gate.xml (default: RUN/gate)"
    )
    gate.add_argument("--allow-inconclusive", action="store_true", help="exit code 0 instead of 11, and say so")
    gate.add_argument("--allow-incomplete", action="store_true", help="decide although trials failed or are missing")
    gate.add_argument("--force", action="store_true", help="decide although the base is not comparable, and say so")
    gate.set_defaults(run=run_gate)
    checked = commands.add_parser(
        "audit",
        help="was what was flagged acted on",
        description="Hold the journal of a run against the proxy's records: flags without blocks, blocks without "
        "flags, openings on unknown, missing supervisors, verdicts without records and records without trials.",
        epilog="example: evals audit runs/mine",
    )
    add_common(checked)
    checked.add_argument("name", metavar="RUN", help="name or folder of the run")
    checked.add_argument("--show", type=int, default=5, metavar="N", help="ids listed of each class (default 5)")
    checked.set_defaults(run=run_audit)


def run_gate(args: argparse.Namespace, out: Output) -> int:
    """Run `evals gate`."""
    rules = load_rules(args.rules)
    folder = find_run(args, out, args.name)
    against = find_run(args, out, args.against) if args.against is not None else None
    allowed = Allowed(args.allow_incomplete, args.allow_inconclusive, args.force)
    verdict = hold_gate(folder, against, rules, allowed, out.environ)
    target: Path = args.out or folder.path / "gate"
    write_gate(verdict, target)
    out.result(to_json(verdict), gate_lines(verdict))
    out.note(f"written to {target}")
    return verdict.code


def run_audit(args: argparse.Namespace, out: Output) -> int:
    """Run `evals audit`; findings are alarms of a gate, so they end with the code of a failed one."""
    report = audit(find_run(args, out, args.name), out.environ)
    out.result(to_json(report), _lines(report, max(0, args.show)))
    return Exit.GATE_FAILED if report.alarms else Exit.DONE


def _lines(report: AuditReport, show: int) -> list[str]:
    rows = [
        (one.name, str(one.count), one.meaning, ", ".join(one.ids[:show]) + (" …" if one.count > show else ""))
        for one in report.findings
    ]
    seen = "the proxy's journal is elsewhere: records were not looked at" if report.records is None else ""
    again = "" if report.decided_again else "the policy cannot be read here: gates were not decided again"
    return [
        *layout(("class", "count", "meaning", "ids"), rows),
        *[f"note: {text}" for text in (seen, again) if text],
        f"{count_of(report.alarms, 'alarm')} in {count_of(report.trials, 'trial')} and "
        f"{count_of(report.records or 0, 'record')}"
        f" ({report.superseded} of trials that were sent again)",
    ]
