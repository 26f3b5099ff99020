"""`guardrail-proxy serve --workers N`: what the process above the workers prepares, and hands on to each of them."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Final

from proxy.config import read_variable
from proxy.extent import read_bounded
from proxy.workers.crew import Crew
from proxy.workers.shared import publish

MOST_WORKERS: Final = 64
_KEY_BYTES: Final = 32
_LONGEST_FOLDER: Final = 60
"""Bytes: the path of a socket in it has room in what the kernel takes."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What a worker gets from the process above it.

    Args:
        folder: common to all workers.
        listener: descriptor of the bound socket.
        parent: descriptor that ends with the process above.
        key: descriptor of a file without a name that holds the key of the digests.
    """

    folder: Path
    listener: int
    parent: int
    key: int

    @classmethod
    def parse(cls, text: str) -> Seat:
        """Read what `str` makes."""
        listener, parent, key, folder = text.split(":", 3)
        return cls(Path(folder), int(listener), int(parent), int(key))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a worker must inherit."""
        return self.listener, self.parent, self.key

    def __str__(self) -> str:
        return f"{self.listener}:{self.parent}:{self.key}:{self.folder}"

    def read_key(self) -> bytes:
        """Return the key of the digests, the same for all workers of a start."""
        return os.pread(self.key, _KEY_BYTES, 0)  # the place in the file is that of all workers

    def leave(self) -> None:
        """Remove the folder if the process above is gone, which otherwise does it."""
        gone, _, _ = select.select([self.parent], [], [], 0)  # nothing is ever written: it can be read at its end only
        if gone:
            shutil.rmtree(self.folder, ignore_errors=True)


def serve_crew(args: argparse.Namespace, listener: socket.socket, started: Callable[[], None]) -> int:
    """Run the workers until a signal ends them; returns the exit code.

    Args:
        args: of the command.
        listener: bound.
        started: called once requests are answered.
    """
    if sys.platform == "win32":
        sys.stderr.write("error: --workers needs the signals and sockets of a Unix\n")
        return 2
    # The variable that users of prometheus_client know for the folder that processes share.
    place = read_variable("PROMETHEUS_MULTIPROC_DIR")
    try:
        folder = Path(tempfile.mkdtemp(prefix="guardrail-", dir=place or None)).resolve()
    except OSError as error:
        sys.stderr.write(f"error: no folder for the workers: {error.strerror}; set PROMETHEUS_MULTIPROC_DIR to one\n")
        return 2
    try:
        if len(os.fsencode(folder)) > _LONGEST_FOLDER:
            sys.stderr.write(f"error: {folder} is too long for sockets in it; set PROMETHEUS_MULTIPROC_DIR\n")
            return 2
        publish(folder, read_bounded(args.config))
        return _run(args, listener, folder, started)
    except OSError as error:
        sys.stderr.write(f"error: the workers in {folder} cannot be served: {error}\n")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(args: argparse.Namespace, listener: socket.socket, folder: Path, started: Callable[[], None]) -> int:
    parent, ours = os.pipe()  # nobody writes: its end is what a worker waits for
    key = make_key()
    seat = Seat(folder, listener.fileno(), parent, key)
    command = [sys.executable, "-m", "proxy.cli", "serve", "--config", str(args.config), "--seat", str(seat)]
    for option in ("host", "port", "log_level"):
        value = getattr(args, option)
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    try:
        return asyncio.run(Crew(command, args.workers, folder, seat.descriptors, started).run())
    finally:
        for descriptor in (ours, parent, key):
            os.close(descriptor)


def make_key() -> int:
    """Return the descriptor of a new key: in no folder, so that nobody clears it away before the last worker starts."""
    with tempfile.TemporaryFile() as file:
        file.write(token_bytes(_KEY_BYTES))
        file.flush()
        return os.dup(file.fileno())
