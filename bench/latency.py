"""What a target adds to one request: the same request direct and through it, in turns, counted from intended times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.bodies import EXPECT, FIRST_CHUNKS, stream_body, whole_body
from bench.native import open_loop, streams
from bench.targets import Target


@dataclass(frozen=True, slots=True)
class Added:
    """Added milliseconds of one target.

    Args:
        name: of the target.
        p50: median of the paired differences.
        p95: their 95th percentile.
        p99: their 99th percentile.
        p99_shift: difference of the two 99th percentiles, which outliers on the direct way do not inflate.
        samples: number of pairs.
    """

    name: str
    p50: float
    p95: float
    p99: float
    p99_shift: float
    samples: int


def percentile(values: Sequence[float], q: float) -> float:
    """Return the nearest-rank percentile; q in 0..1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def added_latency(
    base: Target, others: Sequence[Target], *, rate: float, seconds: float, behaviour: str = "wait50"
) -> Mapping[str, Added]:
    """Measure whole replies, of a 50-ms upstream by default, at `rate` requests a second to each target."""
    return _paired(base, others, behaviour, whole_body(behaviour), EXPECT, rate, seconds, "total")


def added_first_token(
    base: Target, others: Sequence[Target], *, rate: float, seconds: float, behaviour: str = "first"
) -> Mapping[str, Added]:
    """Measure the time to the first chunk of one stream at a time."""
    return _paired(base, others, behaviour, stream_body(behaviour), str(FIRST_CHUNKS), rate, seconds, "first")


def first_token_alone(
    base: Target, others: Sequence[Target], *, rounds: int = 3, each: int = 60, behaviour: str = "first"
) -> Mapping[str, float]:
    """Measure what is added to the first chunk, in ms, when one stream follows another without a pause.

    At ten streams a second a process sleeps most of the time, and each stream pays for waking it: its processor has
    gone to sleep, and its caches hold what others needed. Both are measured; this one is "one stream" of PF-28.

    Args:
        base: the direct way.
        others: what is compared with it, in turns.
        rounds: medians of each target, of which the median counts.
        each: streams a round.
        behaviour: of the fake upstream.

    Returns:
        The added milliseconds by name of the target: difference of the two medians.
    """
    medians: dict[str, list[float]] = {}
    for _ in range(rounds):
        for target in (base, *others):
            load = streams(stream_body(behaviour), FIRST_CHUNKS, target.address(behaviour), connections=1, rounds=each)
            medians.setdefault(target.name, []).append(load.percentile("first", "p50") / 1000)
    direct = statistics.median(medians[base.name])
    return {one.name: statistics.median(medians[one.name]) - direct for one in others}


def _paired(  # noqa: PLR0913, PLR0917 - the parameters of one measurement
    base: Target,
    others: Sequence[Target],
    behaviour: str,
    body: bytes,
    expect: str,
    rate: float,
    seconds: float,
    which: str,
) -> Mapping[str, Added]:
    targets = [base, *others]
    load = open_loop(body, expect, [one.address(behaviour) for one in targets], rate=rate, seconds=seconds)
    direct = load.samples(f"{which}_0")
    found: dict[str, Added] = {}
    for position, target in enumerate(others, start=1):
        through = load.samples(f"{which}_{position}")
        kept = min(len(direct), len(through))
        added = [(there - here) / 1000 for here, there in zip(direct[:kept], through[:kept], strict=True)]
        found[target.name] = Added(
            target.name,
            statistics.median(added),
            percentile(added, 0.95),
            percentile(added, 0.99),
            (percentile(through, 0.99) - percentile(direct, 0.99)) / 1000,
            kept,
        )
    return found
