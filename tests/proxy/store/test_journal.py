"""What a journal does in either database: what goes in comes out, chained, filtered, and by values only."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.policy import Action
from proxy.record import Begun, Record
from proxy.rows import shorten
from proxy.store.chain import canonical
from proxy.store.journal import StoredJournal
from proxy.store.postgres import open_postgres
from proxy.store.protocol import Filters, Journal, StoredRecord
from proxy.store.sqlite import open_journal
from proxy.store.testing import ARCHIVE, STARTED, VERSION, record, varied
from proxy.store.writer import BatchWriter, WriterSettings
from supervisors.errors import StoreError
from supervisors.types import Label
from tests.timing import HANGS_S, PATIENCE_S

FAST = WriterSettings(delay_s=0.001, retry_s=0.01)


@pytest.fixture(params=["file", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoredJournal]:
    """Open a journal in each database, and close it after the test."""
    if request.param == "file":
        opened = await open_journal(tmp_path / "journal.db", settings=FAST)
    else:
        opened = await open_postgres(request.getfixturevalue("database"), settings=FAST)
    await opened.archive_config(VERSION, ARCHIVE.to_text())
    yield opened
    await opened.aclose()


class Unread:
    """A database that nothing is written to, and whose look-ups take until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.closed = False

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        return batch

    def begin(self, begun: Begun) -> None:
        pass

    def forget(self, record_id: str) -> None:
        pass

    def tidy(self) -> bool:
        return False

    def archive(self, version: str, text: str) -> None:
        pass

    def fetch(self, key: str) -> Sequence[StoredRecord]:
        self.let_go.wait(HANGS_S)
        return ()

    def search(self, filters: Filters) -> Sequence[StoredRecord]:
        return self.fetch("")

    def close(self) -> None:
        self.closed = True


async def test_look_ups_that_wait_leave_the_threads_to_requests() -> None:
    sink = Unread()
    writer = BatchWriter(sink, FAST)
    writer.start()
    slow = StoredJournal(sink, writer, sink, "boot")
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        waiting = [group.create_task(slow.find(Filters())) for _ in range(64)]  # more than there are threads
        await asyncio.sleep(0)
        assert await asyncio.to_thread(lambda: "still served") == "still served"
        sink.let_go.set()
    assert [list(task.result()) for task in waiting] == [[]] * 64
    await slow.aclose()
    assert sink.closed


async def test_a_look_up_under_way_does_not_keep_the_journal_open() -> None:
    sink = Unread()
    writer = BatchWriter(sink, FAST)
    writer.start()
    slow = StoredJournal(sink, writer, sink, "boot")
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(slow.get("rec"))
        await asyncio.sleep(0)
        await slow.aclose()
        sink.let_go.set()
    assert list(task.result()) == []
    with pytest.raises(StoreError, match="closed"):
        await slow.get("rec")


def ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


async def test_an_accepted_record_is_read_back_by_id_and_by_request_id(journal: StoredJournal) -> None:  # W-37
    port: Journal = journal
    port.accept(record(1))
    port.accept(replace(record(2), request_id=record(1).request_id))
    await port.flush()
    (found,) = await port.get("rec-000000001")
    assert found["seq"] == 1
    assert found["policy"] == {"names": ["default"], "version": VERSION}
    assert ids(await port.get("req-000000001")) == ["rec-000000002", "rec-000000001"]
    assert await port.get("rec-000000003") == []


async def test_each_hash_covers_the_one_before_and_the_canonical_json(journal: StoredJournal) -> None:  # O-15
    for number in range(3):
        journal.accept(record(number))
    await journal.flush()
    first, second, third = reversed(await journal.find(Filters()))
    assert (second["prev"], third["prev"]) == (first["hash"], second["hash"])
    for row in (first, second, third):
        body = shorten({name: value for name, value in row.items() if name != "hash"})
        assert hashlib.sha256(str(row["prev"]).encode() + canonical(body)).hexdigest() == row["hash"]
    assert [row["seq"] for row in (first, second, third)] == [1, 2, 3]
    assert {row["boot"] for row in (first, second, third)} == {journal.boot}


async def test_a_second_record_with_the_same_id_is_reported_and_left_out(
    journal: StoredJournal, caplog: pytest.LogCaptureFixture
) -> None:  # O-11
    for number in (1, 1, 2):
        journal.accept(record(number))
    await journal.flush()
    assert [row["seq"] for row in await journal.find(Filters())] == [2, 1]
    assert "record id occurs twice, the second is not stored" in caplog.messages


@pytest.mark.parametrize(
    ("label", "decision", "supervisor"),
    [
        (Label.UNSAFE, None, None),
        (Label.UNKNOWN, None, "panel/b"),
        (None, "redact", None),
        (None, "block", "rules"),
        (Label.SAFE, "flag", "panel"),
    ],
)
async def test_filters_find_what_a_scan_finds(
    journal: StoredJournal, label: Label | None, decision: Action | None, supervisor: str | None
) -> None:  # W-37
    for number in range(200):
        journal.accept(varied(number))
    await journal.flush()
    everything = await journal.find(Filters(limit=1000))

    def wanted(row: Mapping[str, Any]) -> bool:
        verdicts = [v for v in row["verdicts"] if supervisor in (None, v["supervisor"])]
        labels = [v for v in verdicts if label is None or v["label"] == label]
        return bool(labels) and (decision is None or decision in [d["action"] for d in row["decisions"]])

    expected = ids([row for row in everything if wanted(row)])
    found = await journal.find(Filters(label=label, decision=decision, supervisor=supervisor, limit=1000))
    assert ids(found) == expected
    assert 0 < len(expected) < 200


async def test_pages_cover_every_record_once_and_bounds_are_half_open(journal: StoredJournal) -> None:  # W-37
    for number in range(25):
        journal.accept(replace(record(number), started=STARTED + number // 2))
    await journal.flush()
    seen: list[str] = []
    after: str | None = None
    while page := await journal.find(Filters(limit=10, after=after)):
        seen += ids(page)
        after = seen[-1]
    assert seen == [record(number).id for number in reversed(range(25))]
    between = await journal.find(Filters(since=STARTED + 1, until=STARTED + 3, model="small"))
    assert ids(between) == ["rec-000000005", "rec-000000004", "rec-000000002"]
    assert await journal.find(Filters(since=-1e30, until=1e30, limit=1)) != []


@pytest.mark.parametrize("filters", [Filters(limit=0), Filters(limit=1001), Filters(after="nobody")])
async def test_a_wrong_query_says_what_is_wrong(journal: StoredJournal, filters: Filters) -> None:
    with pytest.raises(StoreError, match=r"limit is|names no record"):
        await journal.find(filters)


async def test_quotes_in_a_query_are_values_not_sql(journal: StoredJournal) -> None:
    journal.accept(record())
    await journal.flush()
    for odd in ("' OR 1=1 --", '"; DROP TABLE records; --', "\x00", "\ud800", "%", "%s", "?", "x" * 100_000):
        assert await journal.get(odd) == []
        assert await journal.find(Filters(model=odd, supervisor=odd)) == []
    assert len(await journal.find(Filters())) == 1


async def test_a_config_version_has_one_text(journal: StoredJournal) -> None:
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    with pytest.raises(StoreError, match="archived with another text"):
        await journal.archive_config(VERSION, "{}")
    assert journal.healthy
    journal.accept(record())
    await journal.flush()
