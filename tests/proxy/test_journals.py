"""The journal that a config names."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.config import parse_config
from proxy.declared import JournalConfig
from proxy.journals import open_configured
from proxy.record import Record
from proxy.store.testing import record
from supervisors.errors import ConfigError
from tests.timing import PATIENCE_S


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


async def test_contents_are_erased_by_their_mode(tmp_path: Path) -> None:  # O-25
    settings = JournalConfig(path=tmp_path / "j.sqlite3", content_days={"full": 2})
    modes = ("full", "hashed")
    kept = [
        replace(record(n), started=1.0, content={"mode": mode, "input": "violet umbrella"})
        for n, mode in enumerate(modes)
    ]
    journal = await open_configured(settings, count_nothing)  # an old record is there before the next round
    for one in kept:
        journal.accept(one)
    await journal.flush()
    await journal.aclose()
    journal = await open_configured(settings, count_nothing)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while "input" in (await journal.get(kept[0].id))[0]["content"]:  # noqa: ASYNC110 - what looks is no task of ours
                await asyncio.sleep(0.01)
        assert (await journal.get(kept[1].id))[0]["content"] == kept[1].content
    finally:
        await journal.aclose()


@pytest.mark.parametrize("wrong", [{"off": 3}, {"full": 0}, {"full": "long"}])
def test_contents_are_erased_by_a_mode_that_keeps_some_after_whole_days(wrong: dict[str, object]) -> None:  # O-25
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:9/v1"}}, "journal": {"content_days": wrong}}
    with pytest.raises(ConfigError, match=r"journal\.content_days\."):
        parse_config(json.dumps(tree), {})
