"""PF-42: what CI holds of the speed: ratios within one run, never absolute figures. `make ratios` runs it alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.inprocess import least_us, stage_us
from bench.native import Invalid
from bench.streaming import measure_streams
from bench.targets import Target, fake_upstream, ours, relay
from bench.throughput import Round, measure_once

ASKED = os.environ.get("GUARDRAIL_RATIOS") == "1"  # noqa: TID251 - a setting of the test suite itself
pytestmark = pytest.mark.skipif(not ASKED, reason="GUARDRAIL_RATIOS=1 measures, on a machine that does nothing else")

TOLERANCE = 1.25
FOREIGN = 0.30


@dataclass(frozen=True, slots=True)
class Side:
    """The proxy and what it is compared with, over one fake upstream."""

    upstream: Target
    proxy: Target
    pass_through: Target
    relay: Target


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Generator[Side]:
    folder: Path = tmp_path_factory.mktemp("ratios")
    with ExitStack() as stack:
        try:
            upstream = stack.enter_context(fake_upstream(folder))
        except Invalid as missing:
            pytest.skip(str(missing))
        proxy = stack.enter_context(ours(folder, upstream))
        through = stack.enter_context(relay(folder, upstream, "aiohttp"))
        yield Side(upstream, proxy, through, stack.enter_context(relay(folder, upstream)))


def best_of(measure: Callable[[], float], limit: float, tries: int = 3) -> float:
    """Return the least of so many measurements; the first within the limit will do."""
    least = float("inf")
    for _ in range(tries):
        least = min(least, measure())
        if least <= limit:
            break
    return least


def undisturbed(target: Target, side: Side) -> Round:
    """Measure a target, failed requests raise; skip where others use the machine."""
    found = measure_once(target, side.upstream, seconds=1)
    if found.foreign_share > FOREIGN:
        pytest.skip(f"others used {found.foreign_share:.0%} of the machine")
    return found


def test_a_request_costs_little_more_than_passing_it_through(side: Side) -> None:  # PF-42, PF-35
    for target in (side.proxy, side.pass_through):
        measure_once(target, side.upstream, seconds=1)

    def ratio() -> float:
        return undisturbed(side.proxy, side).cpu_us / undisturbed(side.pass_through, side).cpu_us

    limit = 1.8 * TOLERANCE
    assert best_of(ratio, limit) <= limit


def test_a_judged_chunk_costs_little_more_than_a_relayed_one(side: Side) -> None:  # PF-42, PF-27, PF-35
    def ratio() -> float:
        undisturbed(side.proxy, side)
        found = measure_streams([side.proxy, side.relay], rounds=1, flood=True)
        return found[side.proxy.name].chunk_us / found[side.relay.name].chunk_us

    limit = 1.25 * TOLERANCE
    assert best_of(ratio, limit) <= limit


def test_one_more_supervisor_costs_less_than_the_rest_of_a_stage(side: Side) -> None:  # PF-42, PF-26
    """The floor is 2 µs; as a ratio: twenty times what awaiting a coroutine that does nothing costs."""

    async def nothing() -> None:
        pass

    async def many() -> None:
        for _ in range(200):
            await nothing()

    def ratio() -> float:
        three, thirteen = asyncio.run(stage_us(3, 60)), asyncio.run(stage_us(13, 60))
        return (thirteen - three) / 10 / asyncio.run(least_us(many, 200, 60))

    assert best_of(ratio, 20) <= 20
