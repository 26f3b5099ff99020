"""`serve --workers N`: several processes behind one port that show as one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.cli import main
from proxy.metrics import Exposition, read_exposition
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.processes import Served, run_command, serve_process
from tests.e2e.serving import chat_body, tree, until
from tests.e2e.test_kill import load
from tests.timing import PATIENCE_S

RECORDS = ("guardrail_records_total", ())


def config(up: FakeUpstream, folder: Path, *words: str, **parts: Any) -> dict[str, Any]:
    made = tree(up.url, folder)
    made["supervisors"] = {"words": {"use": "rules", "keywords": ["violet umbrella", *words]}}
    made["policies"] = {"default": {"input": {"forced": ["words"]}}}
    made["server"] = {"drain_grace_s": 0}
    made["journal"] = {"path": str(folder / "journal.sqlite3")}
    return {**made, **parts}


async def workers_of(proxy: Served) -> list[dict[str, Any]]:
    """Ask on a connection of its own, so that any worker may answer."""
    async with httpx.AsyncClient(base_url=proxy.client.base_url, trust_env=False, timeout=PATIENCE_S) as client:
        reply = await client.get("/health")
    found: list[dict[str, Any]] = reply.json()["workers"]
    return found


async def wait_workers(proxy: Served, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(httpx.TransportError):
                found = await workers_of(proxy)
                if wanted(found):
                    return found
            await asyncio.sleep(0.2)


async def scrape(proxy: Served) -> Exposition:
    async with httpx.AsyncClient(base_url=proxy.client.base_url, trust_env=False, timeout=PATIENCE_S) as client:
        return read_exposition((await client.get("/metrics")).text)


async def load_both(proxy: Served) -> tuple[int, Exposition]:
    """Send until both workers have served; return how much that was, and what the metrics say."""
    sent = 0
    async with asyncio.timeout(PATIENCE_S):
        while True:
            sent += await load(address(proxy), 100)
            shown = await scrape(proxy)
            if min(shown.boots.values()) > 0:
                return sent, shown


def verify(journal: Path, proxy: Served) -> int:
    return main(["verify", "--journal", str(journal), "--metrics", f"{proxy.client.base_url}/metrics"])


def address(proxy: Served) -> str:
    return str(proxy.client.base_url).rstrip("/")


async def test_a_worker_that_is_killed_neither_resets_nor_doubles_a_counter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # L-10, R-05, §4.3, O-16
    journal = tmp_path / "journal.sqlite3"
    async with (
        FakeUpstream() as up,
        serve_process(config(up, tmp_path, journal={"path": str(journal)}), tmp_path, "--workers", "2") as proxy,
    ):
        first = await wait_workers(proxy, lambda found: len(found) == 2)
        sent, before = await load_both(proxy)
        assert (before.samples[RECORDS], len(before.boots)) == (sent, 2)
        (tmp_path / "config.json").write_text("no config, and nobody has asked for it")
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(load(address(proxy), 200))
            os.kill(first[0]["pid"], signal.SIGKILL)
        lost = 200 - sending.result()
        second = await wait_workers(
            proxy, lambda found: len(found) == 2 and first[0]["pid"] not in [one["pid"] for one in found]
        )
        assert first[1]["pid"] in [one["pid"] for one in second]
        assert {one["config_version"] for one in second} == {first[0]["config_version"]}  # O-05
        assert await load(address(proxy), 100) == 100
        after = await scrape(proxy)
        for series, value in before.samples.items():
            if series[0].endswith(("_total", "_count", "_bucket", "_sum")):
                assert after.samples[series] >= value, series
        assert sent + 300 - lost - 64 <= after.samples[RECORDS] <= sent + 300
        assert len(after.boots) == 3
        code = await asyncio.to_thread(verify, journal, proxy)
        said = capsys.readouterr().out
        assert (code, "of 3 starts" in said, "the metrics equal the journal" in said) == (0, True, True), said
        proxy.send()
        assert await proxy.wait() == 0
    assert any("worker ended, another one is started" in line for line in proxy.log)


async def test_all_workers_agree_on_a_changed_config(tmp_path: Path) -> None:  # O-06, R-04, O-05
    path = tmp_path / "config.json"
    async with (
        FakeUpstream() as up,
        serve_process(config(up, tmp_path), tmp_path, "--workers", "2") as proxy,
    ):
        first = await wait_workers(proxy, lambda found: len(found) == 2)
        (version,) = {one["config_version"] for one in first}
        path.write_text("{}")
        proxy.send(signal.SIGHUP)
        await until(lambda: len([line for line in proxy.log if "changed config rejected" in line]) == 2)
        assert {one["config_version"] for one in await workers_of(proxy)} == {version}
        path.write_text(json.dumps(config(up, tmp_path, "green parasol")))
        os.kill(first[0]["pid"], signal.SIGHUP)  # one is told, the other finds out
        changed = await wait_workers(
            proxy, lambda found: {one["config_version"] for one in found}.isdisjoint({version})
        )
        assert [one["config_version"] for one in changed] == [changed[0]["config_version"]] * 2
        shown = {dict(labels)["version"] for name, labels in (await scrape(proxy)).samples if name == "config_info"}
        assert shown == {changed[0]["config_version"][:12]}
        for _ in range(6):
            async with httpx.AsyncClient(base_url=address(proxy), trust_env=False, timeout=PATIENCE_S) as client:
                reply = await client.post("/v1/chat/completions", json=chat_body("a green parasol"))
                assert reply.status_code == 400


async def test_workers_end_with_the_process_above_them(tmp_path: Path) -> None:
    async with (
        FakeUpstream() as up,
        serve_process(config(up, tmp_path), tmp_path, "--workers", "2") as proxy,
    ):
        pids = [one["pid"] for one in await wait_workers(proxy, lambda found: len(found) == 2)]
        proxy.send(signal.SIGKILL)
        await until(lambda: not any(is_running(pid) for pid in pids))
        assert await proxy.wait() == -signal.SIGKILL


def is_running(pid: int) -> bool:
    try:
        return re.search(r"State:\s+Z", Path(f"/proc/{pid}/status").read_text()) is None
    except OSError:
        return False


async def test_what_is_wrong_at_the_start_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    async with FakeUpstream() as up:
        path.write_text(json.dumps(config(up, tmp_path, journal={"path": str(tmp_path / "nowhere" / "j.sqlite3")})))
    ended = await run_command("serve", "--config", path, "--port", "0", "--workers", "2")
    assert (ended.code, ended.err.count("error: cannot open the journal")) == (3, 1)
    wrong = await run_command("serve", "--config", path, "--workers", "0")
    assert "is no number of workers; give one from 1 to 64" in wrong.err
