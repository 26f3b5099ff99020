from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from evals.fingerprint import to_plain
from supervisors.secret import Secret

ROOT = Path(__file__).resolve().parents[2]


def _hash_in_new_process(seed: str) -> str:
    code = "from evals.client import load_guard; print(load_guard(None, {}).sha256)"
    environ = {**os.environ, "PYTHONHASHSEED": seed}  # noqa: TID251 - the child needs the test's own environment
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, cwd=ROOT, check=True
    )
    return done.stdout.strip()


def test_a_guard_has_the_same_hash_in_every_process() -> None:  # H-114
    found = {_hash_in_new_process(seed) for seed in ("1", "2", "3")}
    assert len(found) == 1


def test_a_secret_stands_by_its_reference() -> None:  # H-103
    assert to_plain({"key": Secret("env:KEY", "hidden")}) == {"key": "env:KEY"}


def test_sets_are_sorted() -> None:
    assert to_plain(frozenset({"b", "a", "c"})) == ["a", "b", "c"]
