"""`guardrail-proxy validate`: everything that can be known about a config without serving it."""

from __future__ import annotations

import argparse
import sys

from proxy.arguments import Subparsers, say_errors, take_config
from proxy.checks import check_examined
from proxy.config import Examined, config_version, examine_config
from proxy.extent import refusing
from proxy.locating import name_file
from proxy.outside import find_missing
from supervisors.errors import ConfigError


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "validate", help="check a config file without serving it", description="check a config file without serving it"
    )
    take_config(parser, run)


def run(args: argparse.Namespace) -> int:
    """Print one line a finding; returns 0 when there is no error, otherwise 2."""
    try:
        with refusing(args.config):
            return _run(args)
    except ConfigError as error:
        say_errors(error, args.config)
        return 2


def _run(args: argparse.Namespace) -> int:
    try:
        examined = examine_config(args.config)
    except ConfigError as error:
        examined = Examined(None, tuple(str(error).splitlines()))
    findings = check_examined(examined)
    wrong = [("error", line) for line in (*examined.problems, *examined.missing)]
    wrong += [(finding.severity, f"{finding.path}: {finding.message}") for finding in findings]
    if examined.config is not None:
        absent = [f"{one.path}: {one.message}" for one in find_missing(examined.config)]
        wrong += [("warning", f"{line} (the start would end with code 3)") for line in absent]
    for severity in ("error", "warning"):
        for line in name_file(args.config, [line for of, line in wrong if of == severity]).splitlines():
            sys.stderr.write(f"{severity}: {line}\n")
    if examined.config is None or any(severity == "error" for severity, _ in wrong):
        return 2
    sys.stdout.write(f"valid, version {config_version(examined.config)[:12]}\n")
    return 0
