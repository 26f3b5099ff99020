"""What an import costs and does: nothing but defining names (house limits; performance gate of start-up)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("litellm", "pandas", "torch", "transformers", "sklearn", "numpy", "xllamacpp")
MOST_MODULES = 1_000
"""`proxy.app` brings about 700; pandas alone would bring another 1,000."""

_COUNTED = """
import sys
import {module}
print(len(sys.modules))
print(*[name for name in {heavy} if name in sys.modules])
"""

_TIMED = """
from time import process_time
started = process_time()
import proxy.app
spent = process_time() - started
from tests.timing import cpu_seconds, work_a_while
print(spent / cpu_seconds(work_a_while, 20))
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
def test_an_import_brings_few_modules_and_nothing_heavy(module: str) -> None:
    count, heavy = run_python(_COUNTED.format(module=module, heavy=HEAVY)).splitlines()
    assert not heavy
    assert int(count) < MOST_MODULES


def test_importing_the_proxy_costs_little() -> None:  # a second is 3,500 times the work beside it; half of it is usual
    assert min([float(run_python(_TIMED)) for _ in range(2)]) < 20_000


def test_importing_every_module_prints_nothing_and_starts_nothing() -> None:
    assert run_python(_ALL) == ""
