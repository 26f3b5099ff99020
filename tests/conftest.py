"""Fixtures every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import Cluster, run_cluster

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")  # a slow machine is no defect


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of public benchmark files, or skip with the reason."""
    named = os.environ.get("GUARDRAIL_DATA")  # noqa: TID251 - the one setting of the test suite itself
    here = Path(__file__).resolve().parent.parent
    candidates = [Path(named)] if named else [here.parent / "shared" / "data", here.parent.parent / "shared" / "data"]
    for candidate in candidates:
        if (candidate / "MANIFEST.csv").is_file():
            return candidate
    pytest.skip("public benchmark files are absent: set GUARDRAIL_DATA to their folder")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a running Postgres, or skip with the reason."""
    yield from run_cluster()


@pytest.fixture
def database(cluster: Cluster) -> str:
    """Return the connection string of an empty database."""
    return cluster.make_database()
