"""Records and journals for the tests of the store; nothing here touches anything but the test's own folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.store.journal import StoredJournal
from proxy.store.sqlite import open_journal
from proxy.store.writer import WriterSettings

FAST = WriterSettings(delay_s=0.001, retry_s=0.01)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[StoredJournal]:
    """Open a journal that writes at once, and close it after the test."""
    opened = await open_journal(tmp_path / "journal.db", settings=FAST)
    yield opened
    await opened.aclose()
