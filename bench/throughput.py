"""Requests a second and CPU time a request, closed loop, all targets in interleaved rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.bodies import EXPECT, whole_body
from bench.native import closed
from bench.process import machine_busy_s
from bench.targets import Target

CONNECTIONS: Final = 16
BUSY: Final = 0.9
"""Share of the tools' core above which a run is limited by the tools: its requests a second are a lower bound."""


@dataclass(frozen=True, slots=True)
class Round:
    """One target under load once.

    Args:
        per_s: requests a second of wall-clock time, foreign load included.
        cpu_us: CPU time of the target a request, all its processes and threads.
        loop_us: the same of its main thread alone.
        p50_ms: median latency.
        p99_ms: tail latency.
        tools_share: share of its core that generator and upstream used.
        foreign_share: share of the machine that others used meanwhile.
    """

    per_s: float
    cpu_us: float
    loop_us: float
    p50_ms: float
    p99_ms: float
    tools_share: float
    foreign_share: float


@dataclass(frozen=True, slots=True)
class Throughput:
    """Medians over the rounds of one target."""

    name: str
    rounds: tuple[Round, ...]

    def median(self, field: str) -> float:
        """Return the median of one field of `Round`."""
        return statistics.median([float(getattr(one, field)) for one in self.rounds])

    @property
    def per_core_s(self) -> float:
        """Return requests a second of CPU time: what one whole core would do."""
        return 1e6 / self.median("cpu_us")

    @property
    def generator_limited(self) -> bool:
        """Say whether the tools, not the target, set the wall-clock rate."""
        return self.median("tools_share") > BUSY


def measure_once(
    target: Target, upstream: Target, *, seconds: float, connections: int = CONNECTIONS, body_bytes: int = 811
) -> Round:
    """Put load on one target and read what it cost."""
    body = whole_body("fast", body_bytes)
    tools = 0.0 if target is upstream else upstream.process.cpu_s()
    cpu, loop, busy, wall = target.process.cpu_s(), target.process.main_thread_s(), machine_busy_s(), time.monotonic()
    load = closed(body, EXPECT, target.address("fast"), connections=connections, seconds=seconds)
    cpu, loop = target.process.cpu_s() - cpu, target.process.main_thread_s() - loop
    elapsed = time.monotonic() - wall
    tools = load.generator_cpu_s + (cpu if target is upstream else upstream.process.cpu_s() - tools)
    own = tools + (0.0 if target is upstream else cpu)
    return Round(
        per_s=load.completed / load.seconds,
        cpu_us=cpu / load.completed * 1e6,
        loop_us=loop / load.completed * 1e6,
        p50_ms=load.percentile("total", "p50") / 1000,
        p99_ms=load.percentile("total", "p99") / 1000,
        tools_share=tools / load.seconds,
        foreign_share=max(0.0, machine_busy_s() - busy - own) / elapsed,
    )


def warm_up(targets: Sequence[Target], upstream: Target) -> None:
    """Put load on every target for as long as it needs to reach its speed."""
    for target in targets:
        measure_once(target, upstream, seconds=target.warm_s)


def measure(
    targets: Sequence[Target], upstream: Target, *, rounds: int, seconds: float, connections: int = CONNECTIONS
) -> Mapping[str, Throughput]:
    """Measure all targets in turns; `warm_up` comes before."""
    found: dict[str, list[Round]] = {target.name: [] for target in targets}
    for _ in range(rounds):
        for target in targets:
            found[target.name].append(measure_once(target, upstream, seconds=seconds, connections=connections))
    return {name: Throughput(name, tuple(of)) for name, of in found.items()}
