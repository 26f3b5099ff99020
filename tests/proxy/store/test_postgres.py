"""The journal in a real Postgres: what the one in a file does, and what only a server can do to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from proxy.record import Begun, Record
from proxy.store.chain import Link, Origin
from proxy.store.driver import Connection, Cursor, Driver, load_driver
from proxy.store.journal import StoredJournal
from proxy.store.lookup import open_postgres_audit
from proxy.store.postgres import PostgresSink, open_postgres
from proxy.store.protocol import Filters
from proxy.store.retention import Retention
from proxy.store.testing import ARCHIVE, STARTED, VERSION, record, varied
from proxy.store.writer import WriterSettings
from proxy.verify import Request, Verification
from supervisors.errors import StoreError
from tests.e2e.serving import until
from tests.postgres import Cluster

FAST = WriterSettings(delay_s=0.001, retry_s=0.01)


@pytest.fixture
async def journal(database: str) -> AsyncIterator[StoredJournal]:
    opened = await open_postgres(database, settings=FAST)
    await opened.archive_config(VERSION, ARCHIVE.to_text())
    yield opened
    await opened.aclose()


def rows_of(address: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(load_driver().connect(address, "test")) as session:
        return session.execute(sql).fetchall()


def change(address: str, sql: str) -> None:
    with closing(load_driver().connect(address, "test")) as session:
        session.execute(sql)


def ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def differences(address: str, request: Request | None = None) -> list[str]:
    with open_postgres_audit(address) as audit:
        return [one.line() for one in Verification(audit, request).differences()]


async def test_a_journal_that_was_written_can_be_proven_and_a_changed_one_cannot(database: str) -> None:  # O-15
    journal = await open_postgres(database, settings=FAST)
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    for number in range(300):
        journal.accept(varied(number))
    await journal.aclose()
    assert differences(database) == []
    change(database, "UPDATE guardrail_records SET judged = judged || 'nobody'::text WHERE seq = 3")
    change(database, "UPDATE guardrail_records SET model = 'other' WHERE seq = 5")
    change(database, "DELETE FROM guardrail_records WHERE seq = 8")
    found = differences(database)
    assert [(line.split()[3].rstrip(":"), line.split()[1]) for line in found] == [
        ("field=judged", "seq=3"),
        ("field=model", "seq=5"),
        ("field=seq", "seq=9"),
    ]


async def test_replicas_share_one_database_each_with_a_chain(database: str) -> None:  # O-15, L-10
    counted: list[Record] = []
    several = [await open_postgres(database, settings=FAST, counted=counted.append) for _ in range(3)]
    await several[0].archive_config(VERSION, ARCHIVE.to_text())
    for number in range(150):
        several[number % 3].accept(record(number))
    for one in several:
        await one.flush()
    found = await several[0].find(Filters(limit=1000))
    for one in several:
        assert sorted([row["seq"] for row in found if row["boot"] == one.boot]) == list(range(1, 51))
        await one.aclose()
    assert (len(found), len(counted), differences(database)) == (150, 150, [])


async def test_a_restart_begins_a_new_chain_behind_the_old_one(database: str) -> None:  # O-15
    for number in range(2):
        journal = await open_postgres(database)
        await journal.archive_config(VERSION, ARCHIVE.to_text())
        journal.accept(record(number))
        await journal.aclose()
    query = "SELECT count(*) FROM guardrail_boots WHERE convert_from(genesis, 'UTF8')::json ->> 'previous' IS NOT NULL"
    assert rows_of(database, query) == [(1,)]
    assert differences(database) == []


async def test_what_json_cannot_say_is_replaced_and_the_record_kept(journal: StoredJournal) -> None:
    odd = replace(record(), model="\ud800", usage={"n": 10**300, "bytes": b"x", "nul": "\x00"})
    journal.accept(odd)
    await journal.flush()
    (row,) = await journal.get(odd.id)
    assert (row["model"], row["usage"]["bytes"], row["usage"]["nul"]) == ("?", "(bytes)", "\x00")


def make_sink(address: str, boot: str = "boot-a", **options: Any) -> PostgresSink:
    driver: Driver = options.pop("driver", None) or load_driver()
    return PostgresSink(driver, address, Origin(boot, "here"), options.pop("retention", Retention()), **options)


async def test_retention_leaves_an_anchor_and_a_journal_that_can_be_proven(database: str) -> None:  # O-15, O-25
    day = 86_400.0
    now = [STARTED]
    retention = Retention(record_days=8, content_days={"full": 2})
    sink = make_sink(database, retention=retention, now=lambda: now[0])
    sink.archive(VERSION, ARCHIVE.to_text())
    kept = {"mode": "full", "input": [{"text": "violet umbrella"}]}
    batch = [replace(record(number), started=STARTED + number * day, content=kept) for number in range(4)]
    sink.write(batch)
    now[0] = STARTED + 10 * day
    assert not sink.tidy()
    assert rows_of(database, "SELECT seq, content IS NULL FROM guardrail_records ORDER BY seq") == [
        (3, True),
        (4, True),
    ]
    assert rows_of(database, "SELECT seq FROM guardrail_anchors") == [(2,)]
    now[0] = STARTED + 10.9 * day
    assert not sink.tidy()
    assert rows_of(database, "SELECT seq FROM guardrail_anchors") == [(3,)]
    assert differences(database) == []
    sink.close()


async def test_a_server_that_is_killed_and_comes_back_costs_no_record(cluster: Cluster, database: str) -> None:  # O-16
    counted: list[Record] = []
    journal = await open_postgres(database, settings=FAST, counted=counted.append)
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    sent = [record(number) for number in range(2000)]
    async with asyncio.TaskGroup() as group:
        for number, one in enumerate(sent):
            journal.keep(one)
            if number == 700:
                group.create_task(asyncio.to_thread(restart, cluster))
            if number % 20 == 0:
                await asyncio.sleep(0.002)  # the load lasts longer than the server
    await until(lambda: not journal.backlog)
    await journal.flush()
    assert (counted == sent, journal.lost, journal.healthy) == (True, 0, True)
    assert rows_of(database, "SELECT count(*), count(DISTINCT id), max(seq) FROM guardrail_records") == [(2000,) * 3]
    assert len(await journal.find(Filters(limit=10))) == 10  # the reader is back, too
    await journal.aclose()
    assert differences(database) == []


def restart(cluster: Cluster) -> None:
    cluster.stop(signal.SIGKILL)
    cluster.start()


async def test_while_the_server_is_away_nothing_is_answered_under_block(
    cluster: Cluster, database: str
) -> None:  # O-16
    journal = await open_postgres(database, settings=FAST)
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    cluster.stop(signal.SIGKILL)
    try:
        journal.accept(record(1))
        with pytest.raises(StoreError, match="connection"):
            await journal.flush()
        assert not journal.healthy
        with pytest.raises(StoreError, match="takes no writes"):
            journal.accept(record(2))
    finally:
        cluster.start()
    await until(lambda: journal.healthy)
    await journal.flush()
    assert ids(await journal.find(Filters())) == [record(1).id]
    await journal.aclose()


class Losing:
    """A session whose next COMMIT reaches the server, or not, and whose answer never comes."""

    def __init__(self, inner: Connection, error: type[Exception], plan: list[str]) -> None:
        self._inner, self._error, self._plan = inner, error, plan

    def execute(self, query: str, params: Sequence[object] | None = None) -> Cursor:
        if query == "COMMIT" and self._plan:
            if self._plan.pop(0) == "stored":
                self._inner.execute(query)
            self._inner.close()
            msg = "server closed the connection unexpectedly"
            raise self._error(msg)
        return self._inner.execute(query, params)

    def cursor(self, name: str = "") -> Cursor:
        return self._inner.cursor(name) if name else self._inner.cursor()

    def fileno(self) -> int:
        return self._inner.fileno()

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("fate", ["stored", "lost"])
@pytest.mark.parametrize("repeated", [False, True])
async def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_doubled(
    database: str, fate: str, repeated: bool
) -> None:  # O-16
    real, plan = load_driver(), list[str]()

    def losing(address: str, **options: object) -> Connection:
        return Losing(real.open(address, **options), real.error, plan)

    driver = replace(real, open=losing)
    sink = make_sink(database, driver=driver)
    sink.archive(VERSION, ARCHIVE.to_text())
    sink.write([record(0)])
    batch = [record(number) for number in ((0, 1, 1, 2) if repeated else (1, 2))]
    plan.append(fate)
    with pytest.raises(StoreError, match="closed the connection"):
        sink.write(batch)
    batch.append(record(3))  # the writer adds what came meanwhile
    assert [one.id for one in sink.write(batch)] == [record(number).id for number in (1, 2, 3)]
    assert sink.write([record(4)]) == [record(4)]
    sink.close()
    assert rows_of(database, "SELECT array_agg(seq ORDER BY seq) FROM guardrail_records") == [([1, 2, 3, 4, 5],)]
    assert differences(database) == []


def begun(number: int) -> Begun:
    row = record(number)
    return Begun(
        row.id, row.request_id, row.started, row.route, row.key_id, row.model, row.upstream, ("default",), VERSION
    )


async def test_streams_of_a_process_that_is_gone_are_taken_over_once(database: str) -> None:  # O-16
    gone = make_sink(database, "gone")
    gone.archive(VERSION, ARCHIVE.to_text())
    for number in (1, 2):
        gone.begin(begun(number))
    gone.write([])
    gone.write([record(2)])
    waiting = make_sink(database, "waiting", settled_s=0.0)
    assert waiting.leftovers() == []  # it lives
    gone.close()
    early = make_sink(database, "early", settled_s=1e9)
    assert early.leftovers() == []  # the server has just come up: the living may not be back
    heir, late = (make_sink(database, name, settled_s=0.0) for name in ("heir", "late"))
    assert heir.leftovers() == [(begun(1), ARCHIVE.to_text())]
    assert late.leftovers() == []
    heir.write([begun(1).to_record()])
    assert rows_of(database, "SELECT * FROM guardrail_begun") == []
    for one in (waiting, early, heir, late):
        one.close()


async def test_a_restored_database_is_not_written_on(database: str) -> None:  # O-15
    sink = make_sink(database)
    sink.write([record(1)])
    change(database, "UPDATE guardrail_boots SET seq = 0")
    with pytest.raises(StoreError, match="does not end where it was left"):
        sink.write([record(2)])
    sink.close()
    assert rows_of(database, "SELECT count(*) FROM guardrail_records") == [(1,)]


async def test_a_database_of_another_version_is_refused(database: str) -> None:
    with pytest.raises(StoreError, match="there is no journal in this database"):
        differences(database)
    sink = make_sink(database)
    assert sink.write([record(1)]) == [record(1)]
    sink.close()
    change(database, "UPDATE guardrail_schema SET version = 2")
    with pytest.raises(StoreError, match="has schema 2; this program reads and writes schema 1"):
        await open_postgres(database)


async def test_starts_at_the_same_time_make_the_tables_once(database: str) -> None:  # L-10
    async with asyncio.TaskGroup() as group:
        opening = [group.create_task(open_postgres(database)) for _ in range(4)]
    for one in opening:
        await one.result().aclose()
    assert rows_of(database, "SELECT count(*) FROM guardrail_boots") == [(4,)]


async def test_a_server_that_is_not_there_is_said_without_the_password() -> None:
    pytest.importorskip("psycopg")
    for address in ("postgresql://u:violet-umbrella@127.0.0.1:1/x", "password=violet-umbrella nonsense"):
        with pytest.raises(StoreError) as raised:
            await open_postgres(address)
        assert "violet" not in str(raised.value)


def test_the_head_is_a_link_of_the_chain(database: str) -> None:  # O-15
    sink = make_sink(database)
    sink.write([record(1), record(2)])
    sink.close()
    with open_postgres_audit(database) as audit:
        (boot,) = audit.boots().values()
        assert Link(boot.seq, boot.hash) == Link(2, str(audit.hash_at("boot-a", 2)))
