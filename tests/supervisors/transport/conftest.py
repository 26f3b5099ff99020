"""A fake upstream and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from supervisors.transport import HttpClient, TransportLimits
from tests.e2e.fake_upstream import FakeUpstream


@pytest.fixture
async def up() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(TransportLimits(connect_s=2.0, read_s=5.0)) as made:
        yield made
