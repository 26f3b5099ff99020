"""Where the verbs write: results on stdout, everything else on stderr (H-177)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from shutil import get_terminal_size
from typing import Protocol

from evals.commands.paint import paint
from evals.statistics.jsonable import Json


class Subparsers(Protocol):
    """The part of argparse's private class of sub-commands that verbs use."""

    def add_parser(self, name: str, *, help: str, description: str, epilog: str) -> argparse.ArgumentParser:  # noqa: A002 - argparse's own word
        """Declare a verb."""
        ...


_CHARS = 65_536
"""Characters of a long text that are written together."""


@dataclass(slots=True)
class Stdout:
    """Standard output, and whether its reader has left, as `head` does: the rest goes nowhere and the verb goes on."""

    left: bool = False

    def write(self, text: str) -> None:
        """Write and flush."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self.left = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


@dataclass(frozen=True, slots=True)
class Output:
    """How a verb speaks.

    Args:
        as_json: results are JSON, one value a line.
        quiet: only errors on stderr.
        environ: environment variables, read once by the command.
        colour: results are painted.
        stdout: where results go.
    """

    as_json: bool
    quiet: bool
    environ: Mapping[str, str]
    colour: bool = False
    stdout: Stdout = field(default_factory=Stdout)

    def result(self, value: Json, lines: Iterable[str]) -> None:
        """Write a result: the value with ``--json``, else its lines."""
        self._clear()
        if self.as_json:
            self.stdout.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")
        else:
            self.stdout.write("".join([f"{paint(line) if self.colour else line}\n" for line in lines]))

    def text(self, facts: Mapping[str, Json], pieces: Iterable[str]) -> None:
        """Write a text as it is, without holding it; with ``--json`` as the member `text` of an object of facts."""
        self._clear()
        if self.as_json:
            head = json.dumps({**facts, "text": ""}, ensure_ascii=True, allow_nan=False).removesuffix('"}')
            pieces = chain((head,), (json.dumps(piece, ensure_ascii=True)[1:-1] for piece in pieces), ('"}\n',))
        waiting: list[str] = []
        size = 0
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= _CHARS:
                self.stdout.write("".join(waiting))
                waiting, size = [], 0
            if self.stdout.left:
                return
        self.stdout.write("".join(waiting))

    def event(self, value: Json) -> None:
        """Write an event of a long verb, with ``--json`` only."""
        if self.as_json:
            self.stdout.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")

    def note(self, text: str) -> None:
        """Say something beside the result."""
        if not self.quiet:
            self._clear()
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def progress(self, text: str) -> None:
        """Say how far something is: over the line before on a terminal, as a line of its own elsewhere."""
        if self.quiet:
            return
        if not sys.stderr.isatty():
            self.note(text)
            return
        self._clear()
        columns = get_terminal_size().columns
        sys.stderr.write(text[: columns - 1])
        sys.stderr.flush()

    def _clear(self) -> None:
        """Wipe a line of progress; without a terminal there is none."""
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def problem(self, text: str) -> None:
        """Say what went wrong, quiet or not."""
        self._clear()
        sys.stderr.write(f"evals: {text}\n")
        sys.stderr.flush()
