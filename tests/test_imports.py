"""What an import costs and does: nothing but defining names (house limits; performance gate of start-up)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("litellm", "pandas", "torch", "transformers", "sklearn", "numpy", "xllamacpp")
BUDGET_S = 1.0

_TIMED = """
import sys, time
started = time.process_time()
import {module}
print(time.process_time() - started)
print(*[name for name in {heavy} if name in sys.modules])
"""

_ALL = """
import importlib, pkgutil, sys, threading
import evals, proxy, supervisors
sys.argv = ["nothing"]
for package in (supervisors, proxy, evals):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
assert threading.active_count() == 1, threading.enumerate()
assert "litellm" not in sys.modules
"""


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["supervisors", "supervisors.types", "proxy.app"])
def test_an_import_costs_less_than_a_second_and_brings_nothing_heavy(module: str) -> None:
    seconds: list[float] = []
    for _ in range(3):
        cost, heavy = run_python(_TIMED.format(module=module, heavy=HEAVY)).splitlines()
        assert not heavy
        seconds.append(float(cost))
        if seconds[-1] < BUDGET_S:
            return
    # CPU time of the process, so that a busy machine does not decide; the best of three starts with a cold cache.
    assert min(seconds) < BUDGET_S, seconds


def test_importing_every_module_prints_nothing_and_starts_nothing() -> None:
    assert run_python(_ALL) == ""
