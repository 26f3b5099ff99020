"""What a test may say about time: how work grows, and what it costs beside known work; never a number of seconds.

The machine that runs the tests may be several times slower than the one a bound was measured on, and busy besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from time import process_time

PATIENCE_S = 60.0
"""How long a test waits for what is going to happen; only a failure takes this long."""

AT_ONCE_S = 30.0
"""What "at once" may take on a busy machine; what is not at once waits for `HANGS_S` or for ever."""

HANGS_S = 600.0
"""How long something takes that a test must not wait for."""

_ROUNDS = 5
_STEP = 4
_LINEAR = 10
"""Four times the size: linear work takes 4 times as long, quadratic work 16 times."""
_TABLE = {f"key {number}": [number, "violet umbrella", {"deep": [True, None, 0.5]}] for number in range(40)}
_WORD = re.compile(r"\b\w+a\b")


def work_a_while() -> int:
    """Do the work that other work is measured beside: half a millisecond or so of bytecode, JSON and expressions."""
    text = json.dumps(_TABLE)
    found = len(_WORD.findall(text)) + len(json.loads(text))
    for number in range(5_000):
        found += number & 3
    return found


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the CPU time of some work: the least of several runs."""
    costs: list[float] = []
    for _ in range(times):
        started = process_time()
        work()
        costs.append(process_time() - started)
    return min(costs)


def assert_cost(work: Callable[[], object], at_most: float) -> None:
    """Require that work costs at most so many times `work_a_while` done beside it; the best of a few tries."""
    costs: list[float] = []
    for _ in range(_ROUNDS):
        unit = cpu_seconds(work_a_while, 10)
        costs.append(cpu_seconds(work) / unit)
        if costs[-1] <= at_most:
            return
    raise AssertionError(f"{min(costs):.1f} times the work beside it; {at_most} times are allowed")


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Require that four times the size takes about four times as long, not sixteen; the best of a few tries."""
    small = large = float("inf")
    for _ in range(_ROUNDS):
        small = min(small, max(cpu_seconds(lambda: work(size)), cpu_seconds(work_a_while)))
        large = min(large, cpu_seconds(lambda: work(_STEP * size)))
        if large <= _LINEAR * small:
            return
    raise AssertionError(f"{_STEP} times the size takes {large / small:.1f} times as long; {_LINEAR} are allowed")
