"""The journal in a file: what goes in comes out, chained, counted, filtered, and kept private."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.record import Begun, Record
from proxy.store.audit import open_audit
from proxy.store.journal import StoredJournal
from proxy.store.protocol import Filters
from proxy.store.retention import Retention, forget
from proxy.store.schema import LOG_BYTES
from proxy.store.sqlite import SqliteReader, open_journal
from proxy.store.testing import ARCHIVE, STARTED, VERSION, record
from proxy.store.writer import WriterSettings
from supervisors.errors import StoreError
from tests.timing import PATIENCE_S, cpu_seconds, work_a_while

FAST = WriterSettings(delay_s=0.001, retry_s=0.01)


def rows_of(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


async def test_a_closed_journal_is_one_file(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "journal.db")
    journal.accept(record())
    await journal.aclose()
    assert names_in(tmp_path) == ["journal.db"]


async def test_the_log_beside_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await open_journal(path, settings=FAST)
    largest = 0
    for number in range(100):  # each is a transaction of its own, and writes many a page
        journal.accept(record(number))
        await journal.flush()
        largest = max(largest, path.with_name("journal.db-wal").stat().st_size)
    await journal.aclose()
    assert LOG_BYTES // 2 < largest < 2 * LOG_BYTES


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of file sizes there")
async def test_a_disk_that_has_room_again_is_written_again(tmp_path: Path) -> None:  # O-16
    import resource  # noqa: PLC0415 - not on Windows

    path = tmp_path / "journal.db"
    journal = await open_journal(path, settings=FAST)
    journal.accept(record(0))
    await journal.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("journal.db-wal").stat().st_size, hard))
    try:
        journal.accept(record(1))
        with pytest.raises(StoreError):
            await journal.flush()
        with pytest.raises(StoreError, match="takes no writes"):
            journal.accept(record(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    async with asyncio.timeout(PATIENCE_S):
        while not journal.healthy:  # noqa: ASYNC110 - polls as the readiness probe does
            await asyncio.sleep(0.01)
    journal.accept(record(3))
    await journal.aclose()
    again = await open_journal(path, settings=FAST)
    assert ids(await again.find(Filters())) == [record(3).id, record(1).id, record(0).id]
    await again.aclose()


async def test_the_genesis_value_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # O-15
    with caplog.at_level(logging.INFO, "proxy.store.sqlite"):
        journal = await open_journal(tmp_path / "journal.db")
        journal.accept(record())
        await journal.flush()
        (row,) = await journal.get("rec-000000000")
        await journal.aclose()
    opened = next(entry for entry in caplog.records if entry.message == "journal opened")
    closed = next(entry for entry in caplog.records if entry.message == "journal closed")
    assert vars(opened)["genesis"] == row["prev"]
    assert (vars(closed)["seq"], vars(closed)["hash"]) == (1, row["hash"])


async def test_only_the_owner_can_read_the_file(tmp_path: Path, journal: StoredJournal) -> None:
    assert stat.S_IMODE((tmp_path / "journal.db").stat().st_mode) == 0o600
    assert journal.healthy


async def test_every_record_is_counted_once_when_it_is_on_disk(tmp_path: Path) -> None:  # O-16, §4.3
    counted: list[Record] = []
    journal = await open_journal(tmp_path / "journal.db", settings=FAST, counted=counted.append)
    sent = [record(number) for number in range(50)]
    for one in sent:
        journal.accept(one)
    await journal.flush()
    assert counted == sent
    await journal.aclose()


async def test_a_restart_begins_a_new_chain_behind_the_old_one(tmp_path: Path) -> None:  # O-15, O-16
    path = tmp_path / "journal.db"
    boots: list[str] = []
    for number in range(2):
        journal = await open_journal(path)
        journal.accept(record(number))
        boots.append(journal.boot)
        await journal.aclose()
    rows = rows_of(path, "SELECT boot, CAST(genesis AS TEXT), hash FROM boots ORDER BY boot")
    assert [row[0] for row in rows] == sorted(boots)
    assert orjson.loads(str(rows[1][1]))["previous"] == {"boot": boots[0], "seq": 1, "hash": rows[0][2]}


async def test_two_workers_share_one_file(tmp_path: Path) -> None:  # L-10
    path = tmp_path / "journal.db"
    one, two = await open_journal(path, settings=FAST), await open_journal(path, settings=FAST)
    for number in range(0, 100, 2):
        one.accept(record(number))
        two.accept(record(number + 1))
    await one.flush()
    await two.flush()
    found = await one.find(Filters(limit=1000))
    assert len(found) == 100
    for boot in (one.boot, two.boot):
        assert sorted([row["seq"] for row in found if row["boot"] == boot]) == list(range(1, 51))
    await one.aclose()
    await two.aclose()


async def test_what_json_cannot_say_is_replaced_and_the_record_kept(journal: StoredJournal) -> None:
    deep: object = "end"
    for _ in range(500):
        deep = [deep]
    odd = replace(record(), model="\ud800", usage={"n": 10**300, "deep": deep, "bytes": b"x", "nan": float("nan")})
    journal.accept(odd)
    await journal.flush()
    (row,) = await journal.get(odd.id)
    assert (row["model"], row["usage"]["bytes"], row["usage"]["nan"]) == ("?", "(bytes)", None)
    assert row["usage"]["n"] == str(10**300)


async def test_expired_contents_are_erased_and_expired_records_leave_an_anchor(tmp_path: Path) -> None:  # O-15, O-25
    path = tmp_path / "journal.db"
    journal = await open_journal(path, settings=FAST)
    kept = {"mode": "full", "input": [{"text": "violet umbrella"}]}
    day = 86_400.0
    now = STARTED + 10 * day
    for number, age in enumerate((9, 8, 3, 1)):
        journal.accept(replace(record(number), started=now - age * day, content=kept))
    await journal.flush()
    await journal.aclose()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert not forget(connection, Retention(record_days=5, content_days={"full": 2}), now)
    assert rows_of(path, "SELECT seq, content IS NULL FROM records ORDER BY seq") == [(3, 1), (4, 0)]
    assert rows_of(path, "SELECT seq FROM anchors") == [(2,)]


async def test_content_is_stored_apart_and_read_back_in_place(tmp_path: Path, journal: StoredJournal) -> None:  # O-25
    content = {"mode": "full", "input": [{"path": "/messages/0/content", "text": "violet umbrella"}]}
    journal.accept(replace(record(), content=content))
    await journal.flush()
    (row,) = await journal.get(record().id)
    assert row["content"] == content
    ((text,),) = rows_of(tmp_path / "journal.db", "SELECT CAST(body AS TEXT) FROM records")
    assert orjson.loads(str(text))["content"]["mode"] == "full"
    assert "violet" not in str(text)


async def test_a_file_that_is_no_journal_is_refused_and_untouched(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    with pytest.raises(StoreError, match="is not a journal"):
        await open_journal(other)
    newer = tmp_path / "newer.db"
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("CREATE TABLE records (id)")
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreError, match="has schema 2; this program reads and writes journals with schema 1"):
        await open_journal(newer)
    with pytest.raises(StoreError, match="cannot open the journal"):
        await open_journal(tmp_path / "missing" / "journal.db")


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from proxy.store.audit import open_audit
from proxy.store.sqlite import open_journal
from proxy.store.testing import record
from proxy.store.writer import WriterSettings
from supervisors.errors import StoreError

async def main(path):
    journal = await open_journal(Path(path), settings=WriterSettings(delay_s=0.001, retry_s=0.02))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    accepted = 0
    try:
        while True:
            journal.accept(record(accepted))
            accepted += 1
            await journal.flush()
    except StoreError as error:
        print("refused", journal.healthy, error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    async with asyncio.timeout(60):
        while not journal.healthy:
            await asyncio.sleep(0.01)
    await journal.flush()
    journal.accept(record(accepted))
    await journal.aclose()
    print("wrote", accepted + 1, "lost", journal.lost)

asyncio.run(main(sys.argv[1]))
"""


def test_a_disk_that_is_full_for_a_while_loses_no_accepted_record(tmp_path: Path) -> None:  # O-15, O-16
    path = tmp_path / "journal.db"
    words = [sys.executable, "-c", FULL_DISK, str(path)]
    root = Path(__file__).resolve().parents[3]
    told = subprocess.run(words, check=True, cwd=root, capture_output=True, text=True, timeout=60)
    first, last = told.stdout.splitlines()
    assert first.startswith("refused False ")
    number = int(last.split()[1])
    assert (number > 10, last.split()[3]) == (True, "0")
    assert rows_of(path, "SELECT count(*), max(seq) FROM records") == [(number, number)]


async def test_a_record_is_readable_soon_without_being_asked_for(tmp_path: Path) -> None:  # W-37
    journal = await open_journal(tmp_path / "journal.db")
    journal.accept(record(1))
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await journal.get(record(1).id)):
            pass  # each look-up gives the loop away
    assert len(found) == 1
    await journal.aclose()


@pytest.mark.parametrize("how", ["moved", "removed"])
async def test_a_file_that_is_moved_away_takes_no_more_records(tmp_path: Path, how: str) -> None:  # O-15
    path, kept = tmp_path / "journal.db", tmp_path / "kept.db"
    journal = await open_journal(path, settings=WriterSettings(delay_s=0.001, retry_s=0.01))
    journal.accept(record(1))
    await journal.flush()
    path.rename(kept)
    journal.accept(record(2))
    with pytest.raises(StoreError, match="No such file"):
        await journal.flush()
    if how == "removed":
        path.touch()
        with pytest.raises(StoreError, match="was moved or replaced; put it back, or restart"):
            await journal.flush()
    kept.rename(path)
    await journal.flush()
    assert journal.healthy
    await journal.aclose()
    assert rows_of(path, "SELECT count(*) FROM records") == [(2,)]


async def test_a_forgotten_note_is_not_in_the_file(tmp_path: Path) -> None:  # O-16
    path = tmp_path / "journal.db"
    journal = await open_journal(path)
    for number in (1, 2, 3):
        journal.begin(begun(number))
    journal.forget(begun(1).id)
    await journal.flush()
    journal.forget(begun(2).id)
    await journal.flush()
    assert rows_of(path, "SELECT id FROM begun") == [(begun(3).id,)]
    await journal.aclose()


@pytest.mark.slow
async def test_five_thousand_records_a_second_are_accepted_cheaply_and_none_is_lost(tmp_path: Path) -> None:  # PF-30
    journal = await open_journal(tmp_path / "journal.db")
    records = [record(number) for number in range(5000)]
    costs: list[float] = []
    loop = asyncio.get_running_loop()
    started = loop.time()
    for first in range(0, 5000, 50):
        await asyncio.sleep(max(0.0, started + first / 5000 - loop.time()))
        before = time.thread_time()
        for one in records[first : first + 50]:
            journal.accept(one)
        costs.append(time.thread_time() - before)
    await journal.flush(PATIENCE_S)
    assert statistics.median(costs) < 10 * cpu_seconds(work_a_while, 10)
    assert journal.lost == 0
    await journal.aclose()
    assert rows_of(tmp_path / "journal.db", "SELECT count(*) FROM records") == [(5000,)]


def begun(number: int) -> Begun:
    row = record(number)
    return Begun(
        row.id, row.request_id, row.started, row.route, row.key_id, row.model, row.upstream, ("default",), VERSION
    )


async def test_a_stream_without_a_record_is_found_at_the_next_start(tmp_path: Path) -> None:  # O-16
    path = tmp_path / "journal.db"
    first = await open_journal(path, settings=FAST)
    await first.archive_config(VERSION, ARCHIVE.to_text())
    for number in (1, 2, 3):
        first.begin(begun(number))
    await first.flush()
    first.accept(record(2))
    first.begin(begun(4))
    first.accept(record(4))
    await first.aclose()
    second = await open_journal(path, settings=FAST)
    assert [(one.id, text) for one, text in second.leftovers] == [
        (record(number).id, ARCHIVE.to_text()) for number in (1, 3)
    ]
    assert second.leftovers[0][0] == begun(1)
    for one, _ in second.leftovers:
        second.accept(one.to_record())
    await second.aclose()
    third = await open_journal(path, settings=FAST)
    assert third.leftovers == []
    await third.aclose()


async def test_who_is_not_alone_leaves_the_streams_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    first = await open_journal(path, settings=FAST)
    first.begin(begun(1))
    await first.flush()
    second = await open_journal(path, settings=FAST)
    assert list(second.leftovers) == []
    await first.aclose()
    await second.aclose()
    third = await open_journal(path, settings=FAST)
    assert [one.id for one, _ in third.leftovers] == [record(1).id]
    await third.aclose()


async def test_an_audit_leaves_nothing_beside_a_closed_journal_and_no_byte_in_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    opened = await open_journal(path, settings=FAST)
    opened.accept(record(1))
    await opened.aclose()
    before = path.read_bytes()
    beside = sorted(names_in(tmp_path))
    with open_audit(path) as audit:
        assert [row.id for row in audit.rows()] == ["rec-000000001"]
    assert sorted(names_in(tmp_path)) == beside
    assert path.read_bytes() == before


async def test_an_audit_leaves_the_log_of_a_journal_at_work_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    opened = await open_journal(path, settings=FAST)
    opened.accept(record(1))
    await opened.flush()
    beside = sorted(names_in(tmp_path))
    with open_audit(path) as audit:
        assert len([*audit.rows()]) == 1
    assert sorted(names_in(tmp_path)) == beside
    opened.accept(record(2))
    await opened.aclose()
    assert rows_of(path, "SELECT count(*) FROM records") == [(2,)]


async def test_an_audit_during_which_a_writer_begins_takes_nothing_from_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await open_journal(path, settings=FAST)).aclose()
    with open_audit(path) as audit:
        assert [*audit.rows()] == []
        opened = await open_journal(path, settings=FAST)
        opened.accept(record(1))
        await opened.flush()
    opened.accept(record(2))
    await opened.aclose()
    assert rows_of(path, "SELECT count(*) FROM records") == [(2,)]


async def test_a_look_up_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "journal.sqlite3")
    for number in range(2000):
        journal.accept(record(number))
    await journal.flush()
    hasty = SqliteReader(tmp_path / "journal.sqlite3", longest_s=0.0)
    with pytest.raises(StoreError, match="interrupted"):
        hasty.search(Filters(supervisor="nobody"))
    hasty.close()
    assert await journal.find(Filters(supervisor="nobody")) == []
    await journal.aclose()
