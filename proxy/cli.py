"""The command `guardrail-proxy`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

from proxy.commands import attack, explain, guard, importing, local, matrix, schema, serve, validate, verify
from supervisors.command_line import CommandParser
from supervisors.unread import end_unread


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; 141 when whoever reads, such as `head`, has read enough."""
    return end_unread(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    parser = CommandParser(prog="guardrail-proxy", description="Supervise language models at a proxy.")
    parser.add_argument("--version", action="version", version=version("guardrail-proxy"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (serve, validate, explain, matrix, schema, verify, local, guard, importing, attack):
        module.add_parser(commands)
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


if __name__ == "__main__":
    sys.exit(main())
