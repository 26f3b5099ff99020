"""The command `evals`; the only module of the harness that reads the environment."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

from evals.commands import (
    agreement,
    bells,
    comparing,
    data,
    frontier,
    gating,
    interchange,
    listing,
    merge,
    nessie,
    operating,
    planning,
    replay,
    resume,
    runs,
    scoring,
    traces,
    tuning,
    watch,
)
from evals.commands.output import Output
from evals.commands.paint import wants_colour
from evals.exits import Exit
from evals.written import read_mapping
from supervisors.command_line import CommandParser
from supervisors.errors import ConfigError, DatasetError, GuardrailError
from supervisors.nearest import did_you_mean
from supervisors.unread import end_unread

_MODULES = (
    listing,
    data,
    planning,
    replay,
    resume,
    scoring,
    runs,
    agreement,
    frontier,
    comparing,
    gating,
    operating,
    tuning,
    watch,
    bells,
    nessie,
    traces,
    interchange,
    merge,
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    return _build_parsers()[0]


def _build_parsers() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of all verbs, and those of each verb."""
    parser = CommandParser(
        prog="evals",
        description="Measure supervised language models.",
        epilog="exit codes: 0 done, 1 failed, 2 usage, 3 data drift, 10 gate failed, 11 inconclusive, 12 incomplete, "
        "130 interrupted, 141 nobody reads the output",
    )
    parser.add_argument("--version", action="version", version=version("guardrail-proxy"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="VERB")
    for module in _MODULES:
        module.add_parsers(commands)
    return parser, commands.choices


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """Parse a command line whose names may also stand between the options and behind them."""
    parser, verbs = _build_parsers()
    args, left = parser.parse_known_args(given)
    if not left:
        return args
    verb: str = args.command
    words = given[given.index(verb) + 1 :]
    return verbs[verb].parse_intermixed_args(words, argparse.Namespace(command=verb))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code (H-101); 141 when whoever reads, such as `head`, has read enough."""
    return end_unread(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    environ = dict(os.environ)  # noqa: TID251 - the one reader of the harness
    args = _parse(given)
    colour = wants_colour(environ, terminal=sys.stdout.isatty(), refused=bool(args.no_color))
    out = Output(as_json=bool(args.json), quiet=bool(args.quiet), environ=environ, colour=colour)
    logging.basicConfig(level=logging.INFO if args.verbose else logging.ERROR, stream=sys.stderr)
    try:
        if args.config is not None:
            args = _with_defaults(given, args.config)
        code: int = args.run(args, out)
    except DatasetError as error:
        out.problem(str(error))
        return Exit.DRIFT if error.drifted else Exit.USAGE
    except ConfigError as error:
        out.problem(str(error))
        return Exit.USAGE
    except GuardrailError as error:
        out.problem(str(error))
        return Exit.FAILED
    except KeyboardInterrupt:
        out.problem("interrupted before the run had started")
        return Exit.INTERRUPTED
    return Exit.UNREAD if code == Exit.DONE and out.stdout.left else code


def _with_defaults(given: Sequence[str], path: Path) -> argparse.Namespace:
    """Parse again with the defaults of a file; what is on the command line wins.

    Raises:
        ConfigError: the file cannot be read, or names an option the verb does not have.
    """
    tree = read_mapping(path, "--config", "options, such as target: local")
    options: dict[str, object] = {name.replace("-", "_"): value for name, value in tree.items()}
    known = vars(_parse(given))
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        meant = did_you_mean(unknown[0], known)
        msg = f"--config {path}: unknown options {', '.join(unknown)}; this verb has {', '.join(sorted(known))}{meant}"
        raise ConfigError(msg)
    words = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    return _parse([*given[:words], *_as_arguments(options), *given[words:]])


def _as_arguments(options: dict[str, object]) -> list[str]:
    """Return options of a file as arguments: true is the bare option, false none, a list repeats it."""
    arguments: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments += [option] if value else []
            continue
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        arguments += [f"{option}={one}" for one in values]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
