"""The journal is proven, or the command says where it is not."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from proxy.commands.verify import DIFFERS, HOLDS, UNPROVEN, add_parser, fetch_metrics, read_time
from proxy.metrics import Metrics, read_exposition
from proxy.record import ClientEnd, Record, UpstreamCall
from proxy.rows import complete
from proxy.store.audit import open_audit
from proxy.store.chain import canonical, digest, link_hash
from proxy.store.retention import Retention, forget
from proxy.store.rules import Archive
from proxy.store.schema import found_bits
from proxy.store.sqlite import open_journal
from proxy.store.testing import ARCHIVE, STARTED, VERSION, record, varied
from proxy.store.writer import WriterSettings
from proxy.verify import Difference, Request, Verification
from supervisors.errors import StoreError
from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
FAST = WriterSettings(delay_s=0.001)


async def write(
    path: Path, records: Sequence[Record], metrics: Metrics | None = None, archive: Archive = ARCHIVE
) -> None:
    """Write one process start with its archived config."""
    journal = await open_journal(path, settings=FAST, counted=metrics.count if metrics else None)
    if metrics:
        metrics.watch(journal)
    await journal.archive_config(VERSION, archive.to_text())
    for one in records:
        journal.accept(one)
    await journal.aclose()


def check(path: Path, request: Request | None = None) -> list[Difference]:
    with open_audit(path) as audit:
        return list(Verification(audit, request).differences())


def change(path: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(sql)


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["verify", *words])
    code: int = args.run(args)
    return code


CHILD = """
import asyncio, sys
from pathlib import Path
from proxy.store.sqlite import open_journal
from proxy.store.testing import ARCHIVE, VERSION, varied

async def main(path, first, last):
    journal = await open_journal(Path(path))
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    for number in range(first, last):
        journal.accept(varied(number))
        if number % 100 == 99:
            await journal.flush(60.0)
            print(number + 1, flush=True)
    await journal.aclose()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


def child(path: Path, first: int, last: int, kill_at: int | None = None) -> int:
    """Run a writer in a process of its own; return how many records it knew to be on disk."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(first), str(last)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        acknowledged = first
        for line in process.stdout:
            acknowledged = int(line)
            if kill_at is not None and acknowledged >= kill_at:
                os.kill(process.pid, signal.SIGKILL)
                kill_at = None
    return acknowledged


@pytest.mark.slow
def test_ten_thousand_records_with_two_kills_in_between_are_exact(tmp_path: Path) -> None:  # O-16
    path = tmp_path / "journal.db"
    sure = child(path, 0, 10_000, kill_at=3000)
    assert 3000 <= sure < 10_000
    with open_audit(path) as audit:
        stored = [row.id for row in audit.rows()]
    assert len(stored) >= sure
    assert stored == [f"rec-{number:09d}" for number in range(len(stored))]
    # Sent again from the last acknowledged one: what was on disk already must not come twice.
    sure = child(path, sure, 10_000, kill_at=6000)
    child(path, sure, 10_000)
    with open_audit(path) as audit:
        verification = Verification(audit)
        assert list(verification.differences()) == []
        assert [row.id for row in audit.rows()] == [f"rec-{number:09d}" for number in range(10_000)]
    assert (verification.summary.boots, verification.summary.records) == (3, 10_000)
    assert verification.summary.rechecked == 10_000


@pytest.mark.parametrize(
    ("sql", "seq", "field"),
    [
        ("UPDATE records SET body = CAST(replace(body, '\"safe\"', '\"sAfe\"') AS BLOB) WHERE seq = 7", 7, "hash"),
        ("UPDATE records SET body = x'7b' WHERE seq = 7", 7, "body"),
        ("UPDATE records SET hash = 'f' || substr(hash, 2, 62) || 'x' WHERE seq = 7", 7, "hash"),
        ("UPDATE records SET seq = 70 WHERE seq = 7", 7, "seq"),
        ("UPDATE records SET seq = 'seven' WHERE seq = 7", 7, "seq"),
        ("DELETE FROM records WHERE seq = 7", 8, "seq"),
        ("DELETE FROM records WHERE seq >= 19", 18, "head"),
        ("DELETE FROM records WHERE seq = 1", 2, "seq"),
        ("UPDATE records SET position = 1000 WHERE seq = 7", 8, "seq"),
        ("UPDATE records SET boot = 'ghost' WHERE seq = 7", 7, "boot"),
        ("UPDATE records SET id = 'rec-000000099' WHERE seq = 7", 7, "id"),
        ("UPDATE records SET request_id = 'x' WHERE seq = 7", 7, "request_id"),
        ("UPDATE records SET time = '2030-01-01T00:00:00Z' WHERE seq = 7", 7, "time"),
        ("UPDATE records SET found = 0 WHERE seq = 7", 7, "found"),
        ("UPDATE records SET content = x'00' WHERE seq = 7", 7, "content"),
        ("UPDATE records SET content = x'00' WHERE seq = 3", 3, "content"),
        ("UPDATE boots SET hash = 'x'", 20, "head"),
        ("UPDATE boots SET genesis = x'7b7d'", 1, "prev"),
        ("UPDATE configs SET text = replace(text, '\"block\"', '\"log\"')", 1, "config"),
        ("DELETE FROM configs", 1, "config"),
        (
            "UPDATE records SET position = -1 WHERE seq = 7; UPDATE records SET position = 7 WHERE seq = 8;"
            " UPDATE records SET position = 8 WHERE seq = 7",
            8,
            "seq",
        ),
        (
            "CREATE TABLE kept AS SELECT body, hash FROM records WHERE seq = 7;"
            " UPDATE records SET (body, hash) = (SELECT body, hash FROM records WHERE seq = 8) WHERE seq = 7;"
            " UPDATE records SET (body, hash) = (SELECT body, hash FROM kept) WHERE seq = 8; DROP TABLE kept",
            8,
            "seq",
        ),
    ],
)
async def test_whatever_is_changed_is_found_where_it_was_changed(
    tmp_path: Path, sql: str, seq: int, field: str
) -> None:  # O-15, X-15
    path = tmp_path / "journal.db"
    kept = {"mode": "full", "input": "violet umbrella"}
    await write(path, [replace(record(number), content=kept if number == 2 else None) for number in range(20)])
    assert check(path) == []
    change(path, sql)
    assert (seq, field) in [(found.seq, found.field) for found in check(path)]


async def test_a_rewritten_record_shows_at_the_one_after_it(tmp_path: Path) -> None:  # O-15
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(5)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        body = orjson.loads(connection.execute("SELECT body FROM records WHERE seq = 3").fetchone()[0])
        text = canonical({**body, "task": "other"})
        values = (text, link_hash(body["prev"], text))
        connection.execute("UPDATE records SET body = ?, hash = ? WHERE seq = 3", values)
    assert [(found.seq, found.field) for found in check(path)] == [(4, "prev")]


async def test_a_whole_start_that_vanished_is_missed_by_the_next_one(tmp_path: Path) -> None:  # O-15
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(5)])
    await write(path, [record(number) for number in range(5, 9)])
    assert check(path) == []
    change(path, "DELETE FROM records WHERE position <= 5; DELETE FROM boots WHERE seq = 5")
    (found,) = check(path)
    assert found.field == "genesis.previous"
    assert "is missing" in found.message


@pytest.mark.slow
async def test_a_flipped_byte_anywhere_in_the_file_is_found_or_meant_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # O-15
    path = tmp_path / "journal.db"
    await write(path, [varied(number) for number in range(100)])
    original = path.read_bytes()
    untouched = read_all(path)
    random = Random(7)  # noqa: S311 - places in a file, not keys
    outcomes = {HOLDS: 0, DIFFERS: 0, UNPROVEN: 0}
    for _ in range(200):
        damaged = bytearray(original)
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        outcome = command("--journal", str(path))
        outcomes[outcome] += 1
        if outcome == HOLDS:
            assert read_all(path) == untouched
        elif outcome == DIFFERS:
            assert "field=" in capsys.readouterr().out
    assert outcomes[DIFFERS] > 100  # most of the file is record text


def read_all(path: Path) -> list[object]:
    """Return everything a reader could be told: all rows, and the config."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = ("records", "boots", "anchors", "configs")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]  # noqa: S608 - constant


async def test_retention_leaves_a_journal_that_can_be_proven(tmp_path: Path) -> None:  # O-15
    path = tmp_path / "journal.db"
    kept = {"mode": "full", "input": "violet umbrella"}
    records = [replace(record(number), started=STARTED + number * 86_400, content=kept) for number in range(20)]
    await write(path, records[:10])
    await write(path, records[10:])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        forget(connection, Retention(record_days=8, content_days={"full": 4}), STARTED + 20 * 86_400)
    with open_audit(path) as audit:
        verification = Verification(audit)
        assert list(verification.differences()) == []
    assert verification.summary.records == 8
    change(path, "UPDATE anchors SET hash = 'x' WHERE seq = 2")
    assert [(found.seq, found.field) for found in check(path)] == [(3, "prev")]


def broken(change_record: str) -> Record:
    """Return a record as a faulty proxy would write it: chained all right, wrong inside."""
    one = record(3)
    first, *others = one.verdicts
    decision = one.decisions[0]
    changed = {
        "a verdict missing": replace(one, verdicts=tuple(others)),
        "a verdict twice": replace(one, verdicts=(first, *one.verdicts)),
        "a verdict nobody asked for": replace(one, prescribed=one.prescribed[1:]),
        "a forced one not prescribed": replace(one, prescribed=one.prescribed[1:], verdicts=tuple(others)),
        "a choice nobody judged": replace(one, client=replace(one.client, finish_reasons=("stop", "stop"))),
        "an output verdict without a choice": replace(
            one, verdicts=(*one.verdicts[:3], replace(one.verdicts[3], choice=None))
        ),
        "an input verdict with a choice": replace(one, verdicts=(replace(first, choice=0), *others)),
        "a shadow verdict": replace(one, verdicts=(replace(first, enforce=False), *others)),
        "an unknown name": replace(one, prescribed=(*one.prescribed, ("stranger", "input"))),
        "another action": replace(one, decisions=(replace(decision, action="flag"), *one.decisions[1:])),
        "a block taken back": replace(one, decisions=(replace(decision, blocked=True), *one.decisions[1:])),
        "no decision": replace(one, decisions=one.decisions[1:]),
        "two decisions": replace(one, decisions=(decision, *one.decisions)),
        "an unknown policy": replace(one, policies=("ghost",)),
        "an unknown version": replace(one, version="0" * 64),
    }
    return changed[change_record]


@pytest.mark.parametrize(
    ("fault", "field", "message"),
    [
        ("a verdict missing", "verdicts", "rules at input is prescribed and has no verdict"),
        ("a verdict twice", "verdicts", "rules at input has 2 verdicts, must have one"),
        ("a verdict nobody asked for", "verdicts", "rules has a verdict at input and is not prescribed there"),
        ("a forced one not prescribed", "prescribed", "rules is forced at input and was not prescribed"),
        ("a choice nobody judged", "verdicts", "panel at output, choice 1 is prescribed and has no verdict"),
        ("an output verdict without a choice", "verdicts", "panel at output judged without a choice"),
        ("an input verdict with a choice", "verdicts", "rules at input, choice 0 must have choice null"),
        ("a shadow verdict", "verdicts", "rules at input has mode shadow, the policy says enforce"),
        ("an unknown name", "prescribed", "stranger at input is in none of the policies default"),
        ("another action", "decisions.action", "default at input (enforce) is stored as 'flag', the verdicts lead to"),
        ("a block taken back", "decisions.blocked", "is stored as True, the verdicts lead to False"),
        ("no decision", "decisions", "default at input (enforce) has verdicts and no decision"),
        ("two decisions", "decisions", "default at input (enforce) is decided twice"),
        ("an unknown policy", "policy", "policy 'ghost' is not in the archived config"),
        ("an unknown version", "policy", "config version 000000000000 is not archived"),
    ],
)
async def test_a_record_that_is_wrong_inside_is_named(
    tmp_path: Path, fault: str, field: str, message: str
) -> None:  # O-11, O-12
    path = tmp_path / "journal.db"
    await write(path, [record(1), broken(fault), record(5)])
    found = check(path)
    assert {(one.seq, one.id) for one in found} == {(2, "rec-000000003")}
    assert [one for one in found if one.field == field and message in one.message]


def rewritten(
    path: Path, seq: int, edit: Callable[[dict[str, Any]], object], old: bytes = b"", new: bytes = b""
) -> None:
    """Change a record as somebody who can hash would: the chain behind it is made anew."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prev = digest(connection.execute("SELECT genesis FROM boots").fetchone()[0])
        for place, text in connection.execute("SELECT seq, body FROM records ORDER BY seq").fetchall():
            body: dict[str, Any] = {**orjson.loads(text), "prev": prev}
            if place == seq:
                edit(body)
            raw = canonical(body).replace(old, new) if place == seq and old else canonical(body)
            prev = link_hash(prev, raw)
            values = (raw, prev, found_bits(complete(orjson.loads(raw))), place)
            connection.execute("UPDATE records SET body = ?, hash = ?, found = ? WHERE seq = ?", values)
        connection.execute("UPDATE boots SET hash = ?", (prev,))


def unjudge(body: dict[str, Any], *stages: str) -> None:
    for stage in stages or ("input", "output"):
        body["prescribed"][stage] = []
        for rows in ("verdicts", "decisions"):
            body[rows] = [row for row in body[rows] if row["stage"] != stage]


def unname(body: dict[str, Any]) -> None:
    unjudge(body)
    body["policy"]["names"] = []


def unguard(body: dict[str, Any]) -> None:
    unname(body)
    body["kind"] = "unguarded"


def refuse(body: dict[str, Any]) -> None:
    unname(body)
    body["outcome"] = "unavailable"


NOT_ASKED = {"seconds": 0.0, "passes": 1, "chars_judged": 0}


def skip(body: dict[str, Any]) -> None:
    body["verdicts"] = [
        {"supervisor": name, "stage": "input", "label": "unknown", "cause": "skipped", **NOT_ASKED}
        for name in ("rules", "panel")
    ] + [row for row in body["verdicts"] if row["stage"] == "output"]
    body["decisions"] = [row for row in body["decisions"] if row["stage"] == "output"]


EDITS: list[tuple[Callable[[dict[str, Any]], object], str, str]] = [
    (unjudge, "prescribed", "rules is forced at input and was not prescribed"),
    (lambda body: unjudge(body, "output"), "prescribed", "panel is forced at output and was not prescribed"),
    (unname, "policy.names", "are none, the config attaches default"),
    (unguard, "kind", "is no unguarded route of its config version"),
    (refuse, "policy.names", "are none, the config attaches default"),
    (skip, "outcome", "is answered, and rules was skipped at input"),
    (lambda body: body.update(key_id=None), "key_id", "is None, which is no key of its config version"),
    (lambda body: body.update(kind="check"), "kind", "is check, which never calls a model server"),
    (lambda body: body.update(kind="moderation"), "kind", "is moderation, which /v1/chat/completions does not"),
    (lambda body: body.update(outcome="blocked_output"), "outcome", "and nothing was blocked at output"),
    (lambda body: body["upstream_call"].update(called=False), "outcome", "and no model server was called"),
]


@pytest.mark.parametrize(("edit", "field", "message"), EDITS)
async def test_an_answer_that_nobody_judged_is_found_however_it_is_rewritten(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], field: str, message: str
) -> None:  # O-11
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(4)])
    rewritten(path, 2, lambda body: None)
    assert check(path) == []
    rewritten(path, 2, edit)
    found = check(path)
    assert {one.seq for one in found} == {2}
    assert [one for one in found if one.field == field and message in one.message]


async def test_a_block_is_not_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    blocked = next(one for one in map(varied, range(99)) if one.outcome == "blocked_output")
    await write(path, [blocked])
    rewritten(path, 1, lambda body: body.update(outcome="answered"))
    assert [(one.field, one.message) for one in check(path)] == [("outcome", "is answered, and output was blocked")]


async def test_a_key_that_stands_twice_in_a_record_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(4)])
    rewritten(path, 2, lambda body: None, b'"label":"safe"', b'"label":"unsafe","label":"safe"')
    assert [(one.seq, one.field) for one in check(path)] == [(2, "body")]


@pytest.mark.parametrize(
    ("days", "time", "message"),
    [
        (None, "2026-01-01T00:00:00.000000Z", "no config of this journal has retention_days"),
        (8, "2026-01-01T00:00:00.000000Z", "younger than 8 days"),
        (8, "2199-01-01T00:00:00.000000Z", "is still to come"),
    ],
)
async def test_an_anchor_that_no_retention_left_is_found_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days: int | None, time: str, message: str
) -> None:  # O-15
    path = tmp_path / "journal.db"
    archive = replace(ARCHIVE, reach=replace(ARCHIVE.reach, retention_days=days))
    await write(path, [record(number) for number in range(6)], archive=archive)
    change(path, f"INSERT INTO anchors SELECT boot, seq, hash, '{time}' FROM records WHERE seq = 2")  # noqa: S608
    change(path, "DELETE FROM records WHERE seq <= 2")
    assert command("--journal", str(path)) == DIFFERS
    printed = capsys.readouterr().out
    assert message in printed
    assert "records 1 to 2 were removed by retention" in printed
    assert ", 2 removed by retention" in printed
    assert command("--journal", str(path), "--json") == DIFFERS
    told = orjson.loads(capsys.readouterr().out)
    assert told["removed_by_retention"] == 2
    assert [(one["first"], one["last"]) for one in told["removed"]] == [(1, 2)]


async def test_a_record_from_before_judging_needs_no_verdicts(tmp_path: Path) -> None:  # O-13
    path = tmp_path / "journal.db"
    bare = replace(record(1), verdicts=(), decisions=(), prescribed=(), policies=(), model="violet")
    early = replace(bare, outcome="client_error", upstream_call=UpstreamCall(), client=ClientEnd(404))
    await write(path, [early])
    assert check(path) == []


async def test_metrics_equal_the_journal_and_one_count_too_many_is_named(tmp_path: Path) -> None:  # §4.3 (5)
    path = tmp_path / "journal.db"
    metrics = Metrics(VERSION, ARCHIVE.labels)
    await write(path, [record(number) for number in range(3)])  # another start, not in these metrics
    await write(path, [varied(number) for number in range(100, 600)], metrics)
    scrape = read_exposition(metrics.render().decode())
    assert check(path, Request(metrics=scrape)) == []
    metrics.count(record(1))
    found = check(path, Request(metrics=read_exposition(metrics.render().decode())))
    assert found[0].message == "shows 501, the journal has 500 provable records up to there"
    assert any("guardrail_verdicts_total" in one.message for one in found)
    change(path, "DELETE FROM records WHERE seq = 500 AND position > 3")
    assert "guardrail_records_total" in [one.field for one in check(path, Request(metrics=scrape))]


async def test_an_older_scrape_covers_only_the_records_up_to_it(tmp_path: Path) -> None:  # §4.3 (5)
    path = tmp_path / "journal.db"
    metrics = Metrics(VERSION, ARCHIVE.labels)
    journal = await open_journal(path, settings=FAST, counted=metrics.count)
    metrics.watch(journal)
    await journal.archive_config(VERSION, ARCHIVE.to_text())
    for number in range(40):
        journal.accept(varied(number))
    await journal.flush()
    scrape = read_exposition(metrics.render().decode())
    for number in range(40, 80):
        journal.accept(varied(number))
    await journal.flush()
    assert check(path, Request(metrics=scrape)) == []  # beside the running writer
    await journal.aclose()


async def test_metrics_of_another_start_or_after_retention_are_not_called_equal(tmp_path: Path) -> None:
    path, other = tmp_path / "journal.db", tmp_path / "other.db"
    metrics = Metrics(VERSION, ARCHIVE.labels)
    await write(path, [record(number) for number in range(3)], metrics)
    scrape = read_exposition(metrics.render().decode())
    await write(other, [record(1)])
    with pytest.raises(StoreError, match="has no chain in this journal"):
        check(other, Request(metrics=scrape))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        forget(connection, Retention(record_days=1), STARTED + 1 + 86_400)
    with pytest.raises(StoreError, match="retention has deleted records"):
        check(path, Request(metrics=scrape))


@contextlib.contextmanager
def serving(body: bytes, status: int = 200) -> Generator[str]:
    """Serve one body on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)


async def test_the_command_says_what_it_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.db"
    metrics = Metrics(VERSION, ARCHIVE.labels)
    await write(path, [record(number) for number in range(4)], metrics)
    with serving(metrics.render()) as url:
        assert command("--journal", str(path), "--metrics", url) == HOLDS
        counts = "4 records of 1 start, 4 decided again, 0 removed by retention"
        head, shown = capsys.readouterr().out.splitlines()
        assert shown == f"everything holds: {counts}; the metrics equal the journal"
        assert re.fullmatch("head=[0-9a-f]{24}:4:[0-9a-f]{64}", head)
        assert command("--journal", str(path), "--metrics", url, "--json") == HOLDS
    shown = orjson.loads(capsys.readouterr().out)
    assert (shown["holds"], shown["records"], shown["metrics_compared"]) == (True, 4, True)
    change(path, "UPDATE records SET model = 'violet' || char(27) WHERE seq = 2")
    assert command("--journal", str(path)) == DIFFERS
    line, total = capsys.readouterr().out.splitlines()
    assert "seq=2 id=rec-000000001 field=model: the column says 'violet\\x1b', the record 'small'" in line
    assert total.startswith("1 difference:")
    assert command("--journal", str(path), "--json") == DIFFERS
    (difference,) = orjson.loads(capsys.readouterr().out)["differences"]
    assert (difference["seq"], difference["field"]) == (2, "model")


async def test_what_cannot_be_checked_is_not_called_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.db"
    await write(path, [record()])
    assert command("--journal", str(tmp_path / "missing.db")) == UNPROVEN
    assert "there is no journal at" in capsys.readouterr().err
    (tmp_path / "text.db").write_text("not a database " * 100)
    assert command("--journal", str(tmp_path / "text.db")) == UNPROVEN
    assert command("--journal", str(path), "--metrics", "http://127.0.0.1:1/metrics") == UNPROVEN
    assert "cannot read the metrics at http://127.0.0.1:1/metrics: ConnectError" in capsys.readouterr().err
    for body, status, reason in ((b"", 404, "status 404"), (b"up 1\n", 200, "name no boot"), (b"{", 200, "not Prom")):
        with serving(body, status) as url:
            assert command("--journal", str(path), "--metrics", url) == UNPROVEN
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize("path", ["", "/", "/?since=1"])
def test_an_address_without_metrics_gets_the_one_that_was_meant(path: str) -> None:
    with serving(b"", 404) as url:
        base = url.removesuffix("/metrics")
        with pytest.raises(StoreError, match="status 404, must be 200; the metrics are probably at") as refused:
            fetch_metrics(base.replace("//", "//me:word@") + path)
        assert str(refused.value).endswith(f" at {url}")
        with pytest.raises(StoreError, match=r"must be 200$"):
            fetch_metrics(url)


async def test_since_and_until_limit_what_is_decided_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(10)])
    # STARTED is 2027-01-15T08:00:00Z
    words = ("--since", "2027-01-15T09:00:02+01:00", "--until", "2027-01-15T08:00:06")
    assert command("--journal", str(path), *words) == HOLDS
    assert "10 records of 1 start, 4 decided again" in capsys.readouterr().out
    with pytest.raises(argparse.ArgumentTypeError, match="'soon' is not a time such as"):
        read_time("soon")
