"""What a streamed chunk costs, and how late it comes: 64 streams at a reading pace, and as many as fit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.bodies import FLOOD_CHUNKS, STREAM_CHUNKS, stream_body
from bench.native import streams
from bench.targets import Target

STREAMS: Final = 64


@dataclass(frozen=True, slots=True)
class Chunks:
    """One target relaying streams; medians over the rounds.

    Args:
        name: of the target.
        chunk_us: CPU time of the target a chunk.
        per_s: chunks a second.
        p50_ms: median time of a chunk from the upstream's write to the caller's read.
        p99_ms: its tail.
        first_ms: median time to the first chunk.
    """

    name: str
    chunk_us: float
    per_s: float
    p50_ms: float
    p99_ms: float
    first_ms: float


def measure_streams(targets: Sequence[Target], *, rounds: int, flood: bool) -> Mapping[str, Chunks]:
    """Read 64 streams through each target in turns: 100 chunks a second each, or 1,000 to saturate it."""
    found: dict[str, list[Chunks]] = {target.name: [] for target in targets}
    for target in targets:
        _measure_once(target, flood=False)
    for _ in range(rounds):
        for target in targets:
            found[target.name].append(_measure_once(target, flood=flood))
    return {name: _median(of) for name, of in found.items()}


def _measure_once(target: Target, *, flood: bool) -> Chunks:
    behaviour, chunks = ("flood", FLOOD_CHUNKS) if flood else ("stream", STREAM_CHUNKS)
    cpu = target.process.cpu_s()
    load = streams(stream_body(behaviour), chunks, target.address(behaviour), connections=STREAMS)
    cpu = target.process.cpu_s() - cpu
    relayed = STREAMS * chunks
    return Chunks(
        name=target.name,
        chunk_us=cpu / relayed * 1e6,
        per_s=relayed / load.seconds,
        p50_ms=load.percentile("chunk", "p50") / 1000,
        p99_ms=load.percentile("chunk", "p99") / 1000,
        first_ms=load.percentile("first", "p50") / 1000,
    )


def _median(of: Sequence[Chunks]) -> Chunks:
    def middle(field: str) -> float:
        return statistics.median([float(getattr(one, field)) for one in of])

    return Chunks(
        of[0].name, middle("chunk_us"), middle("per_s"), middle("p50_ms"), middle("p99_ms"), middle("first_ms")
    )
