"""The writer's thread: bounded, in order, loud when it fails, and nothing lost that was accepted."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence

import pytest

from proxy.record import Begun, Record
from proxy.store.testing import record
from proxy.store.writer import BatchWriter, WriterSettings
from supervisors.errors import StoreError

QUICK = WriterSettings(delay_s=0.001, retry_s=0.005, queue_limit=4, batch_limit=2, close_s=5.0)
GOING_ON = WriterSettings("continue", delay_s=0.001, retry_s=0.005, queue_limit=4, batch_limit=2, close_s=5.0)


class Disk:
    """A sink that can be full, and that can be held still."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.rows: list[str] = []
        self.batches: list[int] = []
        self.notes: list[str] = []
        self.free = threading.Event()
        self.free.set()
        self.tried = threading.Event()
        self.closed = False

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        self.tried.set()
        self.free.wait(5.0)
        if self.full:
            msg = "disk full"
            raise StoreError(msg)
        self.rows += [one.id for one in batch]
        self.batches.append(len(batch))
        return list(batch)

    def begin(self, begun: Begun) -> None:
        self.notes.append(begun.id)

    def forget(self, record_id: str) -> None:
        self.notes.remove(record_id)

    def tidy(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def begun(number: int) -> Begun:
    row = record(number)
    return Begun(row.id, row.request_id, row.started, row.route, None, row.model, row.upstream, (), row.version)


async def test_a_note_is_handed_on_before_its_record_and_written_without_one() -> None:  # O-16
    disk = Disk()
    writer = BatchWriter(disk, WriterSettings(delay_s=0.001, batch_limit=10))
    writer.begin(begun(1))
    writer.start()
    await writer.run(None, 5.0)
    assert (disk.notes, disk.batches) == ([begun(1).id], [0])
    writer.begin(begun(2))
    writer.accept(record(2))
    await writer.run(None, 5.0)
    assert (disk.notes, disk.rows) == ([begun(1).id, begun(2).id], [record(2).id])
    await writer.aclose()


async def test_a_note_that_is_forgotten_is_dropped_whenever_it_was_handed_on() -> None:
    disk = Disk()
    writer = BatchWriter(disk, WriterSettings(delay_s=0.001, batch_limit=10))
    writer.begin(begun(1))
    writer.begin(begun(2))
    writer.start()
    await writer.run(None, 5.0)
    writer.forget(begun(1).id)
    await writer.run(None, 5.0)
    assert disk.notes == [begun(2).id]
    await writer.aclose()


async def test_a_write_that_hangs_is_as_good_as_one_that_failed() -> None:
    disk = Disk()
    disk.free.clear()
    writer = BatchWriter(disk, WriterSettings(delay_s=0.001, stuck_s=0.05))
    writer.start()
    writer.accept(record(1))
    await asyncio.sleep(0.5)
    assert (writer.healthy, writer.failure) == (False, None)
    disk.free.set()
    await writer.run(None, 5.0)
    assert (writer.healthy, writer.failure) == (True, None)
    await writer.aclose()


async def test_records_are_written_in_order_and_in_batches() -> None:
    disk = Disk()
    writer = BatchWriter(disk, WriterSettings(delay_s=0.001, batch_limit=10))
    for number in range(25):
        writer.accept(record(number))
    writer.start()
    await writer.run(None, 5.0)
    assert disk.rows == [record(number).id for number in range(25)]
    assert disk.batches == [10, 10, 5]
    await writer.aclose()
    assert disk.closed


async def test_a_full_disk_refuses_new_records_and_keeps_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    disk, counted = Disk(full=True), list[Record]()
    writer = BatchWriter(disk, QUICK, counted.append)
    writer.start()
    writer.accept(record(1))
    with pytest.raises(StoreError, match="disk full"):
        await writer.run(None, 5.0)
    assert writer.failure == "disk full"
    with pytest.raises(StoreError, match="the journal takes no writes: disk full"):
        writer.accept(record(2))
    disk.full = False
    await writer.run(None, 5.0)
    assert writer.healthy
    writer.accept(record(3))
    await writer.aclose()
    assert disk.rows == [record(1).id, record(3).id]
    assert [one.id for one in counted] == disk.rows
    assert writer.lost == 0
    messages = [entry.message for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert messages == ["journal cannot be written", "journal writes again"]


async def test_the_record_of_an_answer_that_has_left_is_kept_while_the_disk_is_full() -> None:
    disk = Disk(full=True)
    writer = BatchWriter(disk, QUICK)
    writer.start()
    writer.accept(record(1))
    with pytest.raises(StoreError, match="disk full"):
        await writer.run(None, 5.0)
    writer.keep(record(2))
    assert (writer.failure, writer.accepted, writer.lost) == ("disk full", 2, 0)
    disk.full = False
    await writer.run(None, 5.0)
    assert disk.rows == [record(1).id, record(2).id]
    await writer.aclose()
    writer.keep(record(3))
    assert (writer.accepted, writer.lost) == (3, 1)


async def test_an_answer_that_has_left_and_finds_the_queue_full_is_lost_at_once() -> None:
    writer = BatchWriter(Disk(), QUICK)
    for number in range(6):
        writer.keep(record(number))
    assert (writer.accepted, writer.backlog, writer.lost) == (6, 4, 2)
    await writer.aclose()


async def test_a_place_that_is_taken_is_kept_for_its_record() -> None:
    writer = BatchWriter(Disk(), QUICK)
    assert [writer.reserve() for _ in range(2)] == [True, True]
    for number in range(2):
        writer.accept(record(number))
    assert not writer.healthy
    with pytest.raises(StoreError, match="4 records wait to be written, the limit is 4"):
        writer.accept(record(9))
    with pytest.raises(StoreError, match="4 records wait to be written, the limit is 4"):
        writer.reserve()
    writer.keep(record(9))
    assert (writer.backlog, writer.lost) == (2, 1)
    for number in range(2, 4):
        writer.keep(record(number), reserved=True)
    assert (writer.backlog, writer.lost) == (4, 1)
    await writer.aclose()


async def test_a_record_with_a_place_is_refused_by_a_failure_only_and_gives_it_back() -> None:
    disk = Disk()
    writer = BatchWriter(disk, QUICK)
    assert [writer.reserve() for _ in range(4)] == [True] * 4
    with pytest.raises(StoreError, match="4 records wait to be written, the limit is 4"):
        writer.accept(record(9))
    for number in range(4):
        writer.accept(record(number), reserved=True)
    assert (writer.backlog, writer.lost, writer.healthy) == (4, 0, False)
    await writer.aclose()
    with pytest.raises(StoreError, match="the journal is closed"):
        writer.accept(record(5), reserved=True)


async def test_without_a_place_a_record_may_be_lost_under_continue_and_after_the_end() -> None:
    writer = BatchWriter(Disk(), GOING_ON)
    assert [writer.reserve() for _ in range(5)] == [True] * 4 + [False]
    await writer.aclose()
    writer.keep(record(1), reserved=True)
    assert writer.lost == 1
    with pytest.raises(StoreError, match="the journal is closed"):
        writer.reserve()


async def test_a_limit_below_the_size_of_a_batch_holds() -> None:
    writer = BatchWriter(Disk(), WriterSettings(queue_limit=2))
    for number in range(2):
        writer.accept(record(number))
    with pytest.raises(StoreError, match="2 records wait to be written, the limit is 2"):
        writer.accept(record(2))
    await writer.aclose()


async def test_a_full_queue_refuses_under_block() -> None:
    disk = Disk()
    disk.free.clear()
    writer = BatchWriter(disk, QUICK)
    for number in range(4):
        writer.accept(record(number))
    with pytest.raises(StoreError, match="4 records wait to be written, the limit is 4"):
        writer.accept(record(4))
    assert not writer.healthy
    writer.start()
    disk.free.set()
    await writer.run(None, 5.0)
    assert len(disk.rows) == 4
    await writer.aclose()


async def test_continue_counts_what_is_given_up_and_writes_the_rest_later() -> None:
    disk = Disk(full=True)
    writer = BatchWriter(disk, GOING_ON)
    for number in range(6):
        writer.accept(record(number))
    assert (writer.lost, writer.backlog) == (2, 4)
    writer.start()
    with pytest.raises(StoreError, match="disk full"):
        await writer.run(None, 5.0)
    disk.full = False
    await writer.run(None, 5.0)
    await writer.aclose()
    assert disk.rows == [record(number).id for number in range(4)]
    assert writer.lost == 2


async def test_closing_a_failed_journal_says_how_many_records_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(full=True)
    writer = BatchWriter(disk, QUICK)
    for number in range(3):
        writer.accept(record(number))
    writer.start()
    await writer.aclose()
    assert writer.lost == 3
    assert disk.closed
    last = caplog.records[-1]
    assert (last.message, vars(last)["lost"]) == ("journal closed with unwritten records", 3)
    with pytest.raises(StoreError, match="closed"):
        writer.accept(record())
    with pytest.raises(StoreError, match="closed"):
        await writer.run(None, 1.0)


async def test_waiting_for_a_stuck_disk_ends_in_time() -> None:
    disk = Disk()
    disk.free.clear()
    writer = BatchWriter(disk, QUICK)
    writer.start()
    writer.accept(record())
    with pytest.raises(StoreError, match=r"did not catch up within 0\.05 s"):
        await writer.run(None, 0.05)
    disk.free.set()
    await writer.aclose()
    assert disk.rows == [record().id]


async def test_a_job_runs_in_its_turn_and_its_failure_is_the_callers_alone() -> None:
    disk = Disk()
    writer = BatchWriter(disk, QUICK)
    writer.start()
    writer.accept(record(1))
    seen: list[int] = []
    await writer.run(lambda: seen.append(len(disk.rows)), 5.0)
    assert seen == [1]

    def fail() -> None:
        msg = "no"
        raise StoreError(msg)

    with pytest.raises(StoreError, match="no"):
        await writer.run(fail, 5.0)
    assert writer.healthy
    await writer.aclose()


class Broken(Disk):
    """A sink with a bug."""

    def write(self, batch: Sequence[Record]) -> Sequence[Record]:
        msg = "bug"
        raise ValueError(msg)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_the_writer_is_a_failed_journal_not_a_silent_one() -> None:
    writer = BatchWriter(Broken(), QUICK)
    writer.start()
    writer.accept(record())
    with pytest.raises(StoreError, match="the writer has died"):
        await writer.run(None, 5.0)
    assert not writer.healthy
    with pytest.raises(StoreError, match="the writer has died"):
        writer.accept(record())
    await writer.aclose()
    assert writer.lost == 1
