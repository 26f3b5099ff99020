"""What the commands share: how the config file is given, and how its problems are said."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Final, Protocol

from proxy.locating import name_file
from supervisors.errors import ConfigError

_LAST_PORT: Final = 65535
Run = Callable[[argparse.Namespace], int]


class Subparsers(Protocol):
    """What `argparse` returns from `add_subparsers`; its own name for it is private."""

    def add_parser(self, name: str, *, help: str, description: str) -> argparse.ArgumentParser:  # noqa: A002 - its name
        """Add a sub-command."""
        ...


class MadeUp(Mapping[str, str]):
    """An environment that has every variable: nothing is called, so no secret is needed."""

    def __getitem__(self, name: str) -> str:
        """Return a value that is the same for the same name."""
        return sha256(name.encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


def take_config(parser: argparse.ArgumentParser, run: Run, *, required: bool = True, says: str = "config file") -> None:
    """Let a command take its config file as an argument or as ``--config``, and run with it in ``args.config``.

    Args:
        parser: of the command.
        run: runs it.
        required: without a file the command ends with code 2.
        says: help of the argument.
    """
    parser.add_argument("config", metavar="FILE", type=Path, nargs="?", help=says)
    parser.add_argument("--config", dest="named", metavar="FILE", type=Path, help="the same file, given by name")

    def run_with_config(args: argparse.Namespace) -> int:
        if args.config is not None and args.named is not None:
            parser.error(f"the config file is given twice, as {args.config} and as --config {args.named}; give it once")
        args.config = args.config or args.named
        if required and args.config is None:
            parser.error(f"give the config file, as in: {parser.prog} proxy.yaml")
        return run(args)

    parser.set_defaults(run=run_with_config)


def read_port(text: str) -> int:
    """Return a port given by the user; raises `argparse.ArgumentTypeError` for what is none."""
    if not text.isdecimal() or int(text) > _LAST_PORT:
        msg = f"{text!r} is no port; give a number from 0 to {_LAST_PORT}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def read_seconds(text: str) -> float:
    """Return a time given by the user; raises `argparse.ArgumentTypeError` for what is none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        msg = f"{text!r} is no number of seconds above 0"
        raise argparse.ArgumentTypeError(msg)
    return seconds


def read_text(given: str) -> str:
    """Return a text given as an argument, or that of standard input for ``-``.

    Raises:
        ConfigError: it is not UTF-8.
    """
    try:
        text = sys.stdin.read() if given == "-" else given
        text.encode()
    except UnicodeError as error:
        source = "standard input" if given == "-" else "the text"
        msg = f"{source} is not UTF-8: no request could carry it, so there is nothing to judge"
        raise ConfigError(msg) from error
    return text


def say_errors(error: Exception, file: Path | None) -> None:
    """Write one line for each problem of a config."""
    for line in name_file(file, str(error).splitlines()).splitlines():
        sys.stderr.write(f"error: {line}\n")
