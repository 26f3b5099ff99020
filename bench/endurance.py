"""Memory, sockets and records over many requests."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.bodies import EXPECT, whole_body
from bench.native import count
from bench.targets import Target, fake_upstream, ours


@dataclass(frozen=True, slots=True)
class Endurance:
    """One proxy over many requests.

    Args:
        idle_mb: resident memory before the first request.
        used_mb: after the first 10,000.
        grown_mb: after the further ones.
        further: number of those.
        per_s: requests a second meanwhile.
        rows_lost: requests answered without a record in the journal.
        sockets_left: open sockets at the end beyond those kept alive on purpose.
    """

    idle_mb: float
    used_mb: float
    grown_mb: float
    further: int
    per_s: float
    rows_lost: int
    sockets_left: int

    @property
    def growth(self) -> float:
        """Return the growth as a fraction."""
        return self.grown_mb / self.used_mb - 1


def measure_endurance(folder: Path, further: int) -> Endurance:
    """Run a fresh proxy through 10,000 requests and so many more, then count its records on disk."""
    connections = 64
    with fake_upstream(folder) as upstream:
        with ours(folder, upstream) as target:
            idle, before = target.process.rss_bytes(), target.process.sockets()
            _send(target, 10_000, connections)
            used = target.process.rss_bytes()
            second = _send(target, further, connections)
            grown = target.process.rss_bytes()
            left = _settled_sockets(target, before + connections) - before
        stored = count_records(target.journal)
        return Endurance(
            idle_mb=idle / 2**20,
            used_mb=used / 2**20,
            grown_mb=grown / 2**20,
            further=further,
            per_s=further / second,
            rows_lost=10_000 + further - stored,
            sockets_left=max(0, left - connections),  # those to the fake upstream are kept alive
        )


def _send(target: Target, requests: int, connections: int) -> float:
    load = count(whole_body("fast"), EXPECT, target.address("fast"), connections=connections, requests=requests)
    return load.seconds


def _settled_sockets(target: Target, expected: int) -> int:
    """Count sockets once the proxy has noticed that the generator closed its own."""
    until = time.monotonic() + 5
    while (open_now := target.process.sockets()) > expected and time.monotonic() < until:
        time.sleep(0.1)
    return open_now


def count_records(journal: Path | None) -> int:
    """Return the number of records in a closed journal."""
    if journal is None:
        return 0
    with closing(sqlite3.connect(journal)) as connection:
        return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])
