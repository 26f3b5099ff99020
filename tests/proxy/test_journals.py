"""The journal that a config names."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.declared import JournalConfig
from proxy.journals import open_configured
from proxy.record import Record
from proxy.store.testing import record


def count_nothing(_: Record) -> None:
    """Take a record."""


@pytest.mark.parametrize(("replica", "named"), [(None, "local"), ("blue-1", "blue-1")])
async def test_records_name_the_instance(tmp_path: Path, replica: str | None, named: str) -> None:  # O-16
    settings = JournalConfig(path=tmp_path / "j.sqlite3", replica=replica)
    journal = await open_configured(settings, count_nothing)
    try:
        journal.accept(record(1))
        await journal.flush()
        (found,) = await journal.get(record(1).id)
        assert found["replica"] == named
    finally:
        await journal.aclose()
