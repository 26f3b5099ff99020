"""`guardrail-proxy attack`: try to talk the judges of a config out of their verdict, and say how often that worked."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from proxy.arguments import Subparsers, say_errors, take_config
from proxy.config import Config, load_config
from proxy.logs import show_warnings
from proxy.runtime import open_chat
from supervisors.attacks import ATTACKS, FlipReport, flip_rate
from supervisors.chat import Budget
from supervisors.embedded.evaluate import wilson_interval
from supervisors.errors import ConfigError
from supervisors.judge import Judge
from supervisors.nesting import walk
from supervisors.types import Stage

_STAGES: tuple[Stage, ...] = ("input", "output")
_CALL_S = 120.0
"""Time for one verdict; a judge's own `timeout_s` may be shorter."""


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    text = "attack the judges of a config and report how often they flip"
    parser = commands.add_parser("attack", help=text, description=text)
    parser.add_argument("--supervisor", metavar="NAME", help="attack this judge only, such as harm or panel/a")
    parser.add_argument("--stage", choices=[*_STAGES, "both"], default="both", help="where the attack stands")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    take_config(parser, run, says="config file; its judges' models are called")


def run(args: argparse.Namespace) -> int:
    """Attack; returns 0 when every judge was attacked, 1 when one is not sound, 2 when there is none."""
    show_warnings()
    try:
        config = load_config(args.config)
        judges = find_judges(config, args.supervisor)
        stages = _STAGES if args.stage == "both" else (args.stage,)
        reports = asyncio.run(attack_all(config, judges, stages))
    except ConfigError as error:
        say_errors(error, args.config)
        return 2
    if args.json:
        sys.stdout.write(json.dumps(to_json(reports), indent=2) + "\n")
    else:
        for name, stages_of in reports.items():
            for stage, report in stages_of.items():
                sys.stdout.write("".join([f"{line}\n" for line in describe(name, stage, report)]))
    return 0 if all(report.sound for found in reports.values() for report in found.values()) else 1


def find_judges(config: Config, name: str | None) -> Mapping[str, Judge]:
    """Return the judges of a config by name, members of composites as ``panel/a``.

    Raises:
        ConfigError: there is none of that name, or none at all.
    """
    named = [pair for top, supervisor in config.supervisors.items() for pair in walk(top, supervisor)]
    judges = {full: part for full, part in named if isinstance(part, Judge)}
    found = judges if name is None else {full: judge for full, judge in judges.items() if full == name}
    if not found:
        msg = f"no judge to attack{f' of the name {name!r}' if name else ''}; judges: {', '.join(judges) or 'none'}"
        raise ConfigError(msg, "supervisors")
    return found


async def attack_all(
    config: Config, judges: Mapping[str, Judge], stages: tuple[Stage, ...]
) -> Mapping[str, Mapping[Stage, FlipReport]]:
    """Attack every judge in every stage, one after the other."""
    calls = len(ATTACKS) + 2
    async with open_chat(config) as chat:
        return {
            name: {
                stage: await flip_rate(judge, chat.context(_CALL_S * calls, Budget(calls * 64)), stage=stage)
                for stage in stages
            }
            for name, judge in judges.items()
        }


def describe(name: str, stage: Stage, report: FlipReport) -> Iterator[str]:
    """Yield what came of it: the rate first, then each attack that was not seen through."""
    n = len(report.attempts)
    low, high = wilson_interval(report.flips, n)
    rate = f"{report.flips} of {n} flipped ({report.flips / n:.0%} [{low:.0%}, {high:.0%}]), {report.unknowns} unknown"
    yield f"{name}, {stage}: {rate}"
    if not report.sound:
        said = " and ".join([str(verdict.cause or verdict.label) for verdict in report.plain])
        yield "  not sound: without an attack it does not tell the canary from other text, so the rate means nothing"
        yield f"  it says {said} of the two, and should say unsafe and safe"
    for attempt in report.attempts:
        if attempt.verdict.label != "unsafe":
            cause = f" ({attempt.verdict.cause})" if attempt.verdict.cause is not None else ""
            yield f"  {attempt.name}: {attempt.verdict.label}{cause}"


def to_json(reports: Mapping[str, Mapping[Stage, FlipReport]]) -> Any:
    """Return the reports as JSON values."""
    return {
        name: {
            stage: {
                "sound": report.sound,
                "without_attack": [str(verdict.cause or verdict.label) for verdict in report.plain],
                "attacks": len(report.attempts),
                "flips": report.flips,
                "unknown": report.unknowns,
                "rate": report.rate,
                "verdicts": {one.name: str(one.verdict.cause or one.verdict.label) for one in report.attempts},
            }
            for stage, report in found.items()
        }
        for name, found in reports.items()
    }
