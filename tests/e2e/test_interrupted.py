"""A process that is killed in the middle of a stream leaves a trace of the exchange (operations O-16)."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.cli import main
from proxy.record import Begun
from proxy.store.sqlite import open_journal
from supervisors.testing import Finds
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import Served, serve_process
from tests.e2e.serving import CANARY, Held, chat_body, guarded, policy, serving, tree

ROUTE = "/v1/chat/completions"


def config(up: FakeUpstream, folder: Path, notes: str) -> dict[str, Any]:
    made = tree(up.url, folder)
    made["journal"] = {"path": str(folder / "journal.sqlite3"), "stream_notes": notes}
    made["supervisors"] = {"words": {"use": "rules", "keywords": ["violet umbrella"]}}
    made["policies"] = {"default": {"input": {"forced": ["words"]}}}
    return made


@dataclass(frozen=True, slots=True)
class Breaks(Finds):
    """A supervisor with a bug outside of `assess`, which nobody turns into a verdict."""

    at: str = ""

    def first_open(self, text: str) -> int:
        """Raise once a word has come."""
        if self.at in text:
            msg = "bug"
            raise RuntimeError(msg)
        return len(text)


@pytest.mark.parametrize(("at", "status"), [("well", 500), ("far", 200)])
async def test_a_bug_is_recorded_as_what_the_caller_saw_not_as_its_leaving(
    tmp_path: Path, at: str, status: int
) -> None:  # O-11, L-08
    policies = policy(output={"forced": ["words"], "stream": {"window_chars": 1, "overlap_chars": 16}})
    judges = {"words": Breaks(CANARY, at=at)}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=judges, policies=policies)) as proxy:
        said = "well and good it is so far and no further than this"
        up.script(Answer(frames=sse(*chat_chunks(*said.split(" "))), frame_delay_s=0.01))
        reply: httpx.Response | None = None
        with suppress(httpx.RemoteProtocolError):  # cut off without its end
            reply = await proxy.chat(stream=True)
        assert (reply.status_code if reply is not None else 200) == status
        (record,) = await proxy.wait_records()
        assert (record["outcome"], record["client"]["status"]) == ("unavailable", status)
        assert (record["client"]["terminator"], record["client"]["cancelled_phase"]) == ("none", None)
    assert main(["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0


async def read_and_kill(proxy: Served) -> None:
    """Kill the proxy once text of a stream has come."""
    got = b""
    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
        async with proxy.client.stream("POST", ROUTE, json=chat_body(stream=True)) as reply:
            async for chunk in reply.aiter_bytes():
                got += chunk
                if b"one" in got:
                    proxy.send(signal.SIGKILL)
    assert b"one" in got
    assert b"[DONE]" not in got


@pytest.mark.parametrize(("notes", "found"), [("durable", 1), ("off", 0)])
async def test_a_killed_stream_is_recorded_at_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], notes: str, found: int
) -> None:
    arguments = ["verify", "--journal", str(tmp_path / "journal.sqlite3")]
    async with FakeUpstream() as up:
        async with serve_process(config(up, tmp_path, notes), tmp_path) as proxy:
            up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
            await read_and_kill(proxy)
            await proxy.wait()
        assert await asyncio.to_thread(main, arguments) == 0
        shown = capsys.readouterr().out
        assert ("a stream without a record: it is under way, or a crash cut it off" in shown) is bool(found)
        async with serve_process(config(up, tmp_path, notes), tmp_path) as proxy:
            rows = (await proxy.client.get("/v1/decisions")).json()["data"]
            assert [(row["outcome"], row["route"], row["stream"]) for row in rows] == [
                ("interrupted", ROUTE, True)
            ] * found
            metrics = [*arguments, "--metrics", f"{proxy.client.base_url}/metrics"]
            code = await asyncio.to_thread(main, metrics)
            shown = capsys.readouterr().out
            assert (code, "the metrics equal the journal" in shown) == (0, True), shown
            assert ("1 stream interrupted by a crash" in shown) is bool(found)
            text = (await proxy.client.get("/metrics")).text
            line = 'guardrail_exchanges_total{kind="exchange",model="gpt",outcome="interrupted"} 1.0'
            assert (line in text) is bool(found)
            assert any("streams were interrupted by a crash" in line for line in proxy.log) is bool(found)


@pytest.mark.parametrize("notes", ["off", "batched", "durable"])
async def test_a_stream_that_ends_leaves_its_record_and_nothing_else(tmp_path: Path, notes: str) -> None:
    journal = {"path": tmp_path / "journal.sqlite3", "stream_notes": notes}
    async with FakeUpstream() as up:
        async with serving(guarded(up, tmp_path, journal=journal)) as proxy:
            for text in ("hello", "violet umbrella"):
                await proxy.chat(text, stream=True)
            assert [row["outcome"] for row in await proxy.records(2)] == ["blocked_input", "answered"]
        async with serving(guarded(up, tmp_path, journal=journal)) as proxy:
            assert proxy.app.gateway.journal.leftovers == []


async def test_a_note_that_cannot_be_written_first_lets_nothing_leave(tmp_path: Path) -> None:
    journal = {"path": tmp_path / "journal.sqlite3", "stream_notes": "durable"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, journal=journal)) as proxy:
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
            database.execute("drop table begun")
            database.commit()
        reply = await proxy.chat(stream=True)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "record_unavailable")


async def test_a_stream_of_a_version_with_another_schema_does_not_keep_the_proxy_down(tmp_path: Path) -> None:  # O-16
    version = "a" * 64
    async with FakeUpstream() as up:
        config_ = config(up, tmp_path, "durable")
        journal = await open_journal(Path(config_["journal"]["path"]))
        await journal.archive_config(version, '{"schema":1}')
        journal.begin(Begun("cut", "cut", 1.0, ROUTE, None, "gpt", "main", (), version))
        await journal.flush()
        await journal.aclose()
        async with serve_process(config_, tmp_path) as proxy:
            rows = (await proxy.client.get("/v1/decisions")).json()["data"]
            assert [(row["id"], row["outcome"]) for row in rows] == [("cut", "interrupted")]
            shown = (await proxy.client.get("/metrics")).text
            assert 'outcome="interrupted"' in shown
            assert 'model="gpt"' not in shown


UNJUDGED = policy({"forced": ["words"]})
FILES = {"unguarded_routes": [{"method": "GET", "path": "/v1/files"}]}


async def test_a_stream_leaves_only_with_a_place_for_its_record(tmp_path: Path) -> None:  # operations §4.4
    journal = {"path": tmp_path / "journal.sqlite3", "max_backlog": 2, "stream_notes": "off"}
    async with FakeUpstream() as up:
        up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2), Answer(frames=[b"a", b"b"], hold_at=1))
        config = guarded(up, tmp_path, journal=journal, policies=UNJUDGED, **FILES)
        async with serving(config) as proxy, AsyncExitStack() as stack:
            stream = proxy.client.stream("POST", ROUTE, json=chat_body(stream=True))
            begun = [await stack.enter_async_context(one) for one in (stream, proxy.client.stream("GET", "/v1/files"))]
            refused = await proxy.chat(stream=True)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "record_unavailable")
            assert (await proxy.client.get("/v1/files")).status_code == 503
            assert len(up.received) == 2
            up.release()
            for one in begun:
                assert (one.status_code, len(await one.aread()) > 0) == (200, True)
            await stack.aclose()
            records = await proxy.wait_records(2)
            assert sorted(one["kind"] for one in records if one["outcome"] == "answered") == ["exchange", "unguarded"]
            assert (await proxy.chat(stream=True)).status_code == 200
            assert proxy.app.gateway.journal.lost == 0


async def test_a_whole_answer_has_a_place_before_its_model_is_called(tmp_path: Path) -> None:  # operations §4.4
    """A caller that leaves can be refused nothing: its record must not depend on who filled the queue meanwhile."""
    journal = {"path": tmp_path / "journal.sqlite3", "max_backlog": 1}
    async with FakeUpstream() as up:
        up.script(Answer(hold_at=-1))
        async with serving(guarded(up, tmp_path, journal=journal)) as proxy:
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(proxy.chat())
                await up.wait_received(1)
                refused = await proxy.chat()
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "record_unavailable")
                assert len(up.received) == 1
                asked.cancel()
            (left,) = await proxy.wait_records(1)
            assert left["outcome"] == "cancelled"
            assert (await proxy.chat()).status_code == 200
            assert proxy.app.gateway.journal.lost == 0


@pytest.mark.parametrize(
    ("route", "body"), [("/v1/guardrails/check", {"input": "a"}), ("/v1/moderations", {"input": "a"})]
)
async def test_what_is_only_judged_has_a_place_before_it_is_judged(tmp_path: Path, route: str, body: Any) -> None:
    """As for exchanges with a model: operations §4.4."""
    held = Held()
    journal = {"path": tmp_path / "journal.sqlite3", "max_backlog": 1}
    parts = {"supervisors": {"words": held}, "policies": UNJUDGED, "journal": journal}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, **parts)) as proxy:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(proxy.client.post(route, json=body))
            await held.asked.wait()
            refused = await proxy.client.post(route, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "record_unavailable")
            assert held.calls == 1
            asked.cancel()
        (left,) = await proxy.wait_records(1)
        assert left["outcome"] == "cancelled"
        held.go.set()
        assert (await proxy.client.post(route, json=body)).status_code == 200
        assert proxy.app.gateway.journal.lost == 0
