"""`guardrail-proxy validate`: everything that can be known about a config without serving it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from proxy.checks import check_config
from proxy.commands.verify import Subparsers
from proxy.config import Examined, config_version, examine_config
from supervisors.errors import ConfigError


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "validate", help="check a config file without serving it", description="check a config file without serving it"
    )
    parser.add_argument("config", type=Path, help="config file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line a finding; returns 0 when there is no error, otherwise 2."""
    try:
        examined = examine_config(args.config)
    except ConfigError as error:
        examined = Examined(None, tuple(str(error).splitlines()))
    for line in (*examined.problems, *examined.missing):
        sys.stderr.write(f"error: {line}\n")
    config = examined.config
    if config is None:
        return 2
    findings = check_config(config)
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    if examined.missing or any(finding.severity == "error" for finding in findings):
        return 2
    sys.stdout.write(f"valid, version {config_version(config)[:12]}\n")
    return 0
