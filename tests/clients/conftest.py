"""Environments of real clients: each SDK version in one of its own, made where `make clients` asks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def client_python() -> Callable[[str, str], Path]:
    """Return the function that gives the Python of an environment with these packages, or skips with the reason.

    `GUARDRAIL_CLIENT_ENVS` names the folder that keeps the environments. Without it these tests skip: making them
    needs a package index, and the test suite needs none.
    """
    named = os.environ.get("GUARDRAIL_CLIENT_ENVS")  # noqa: TID251 - a setting of the test suite itself
    if not named:
        pytest.skip("real SDK clients run with `make clients` (GUARDRAIL_CLIENT_ENVS names their folder)")
    folder = Path(named)

    def find(name: str, requirement: str) -> Path:
        python = folder / name / "bin" / "python"
        marker = folder / name / "complete"
        if not marker.exists():
            try:
                subprocess.run(
                    [sys.executable, "-m", "venv", str(folder / name)], check=True, capture_output=True, timeout=120
                )
                install = [str(python), "-m", "pip", "install", "-q", requirement]
                subprocess.run(install, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"cannot install {requirement}: {type(error).__name__}")
            marker.touch()
        return python

    return find
