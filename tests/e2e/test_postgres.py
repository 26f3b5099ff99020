"""The proxy with its journal in a real Postgres, from the config to `verify`, also when either is killed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import run_command, run_python, serve_process
from tests.e2e.serving import chat_body, tree, until
from tests.e2e.test_interrupted import read_and_kill
from tests.e2e.test_kill import load
from tests.postgres import Cluster

VARIABLE = "GUARDRAIL_TEST_JOURNAL"
NEW = """
supervisors: {words: {use: rules, keywords: [violet umbrella]}}
policies: {default: {input: {forced: [words]}}}
upstreams: {main: {base_url: "http://127.0.0.1:9/v1"}}
"""


def config(up: FakeUpstream, folder: Path, **journal: object) -> dict[str, Any]:
    made = tree(up.url, folder)
    made["journal"] = {"postgres": {"env": VARIABLE}, **journal}
    made["supervisors"] = {"words": {"use": "rules", "keywords": ["violet umbrella"]}}
    made["policies"] = {"default": {"input": {"forced": ["words"]}}}
    made["server"] = {"drain_grace_s": 0}
    return made


async def verify(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capsys.readouterr()
    code = await asyncio.to_thread(main, ["verify", "--journal", f"env:{VARIABLE}", *options])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


async def test_a_journal_in_postgres_from_the_config_to_verify_and_replay(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # §4.3, §4.4, W-37
    monkeypatch.setenv(VARIABLE, database)
    async with FakeUpstream() as up, serve_process(config(up, tmp_path, input="full"), tmp_path) as proxy:
        for text in ("hello", "a violet umbrella", "hello again"):
            await proxy.client.post("/v1/chat/completions", json=chat_body(text))
        scrape = (await proxy.client.get("/metrics")).text
        assert "guardrail_records_total 3.0" in scrape
        found = (await proxy.client.get("/v1/decisions", params={"decision": "block", "supervisor": "words"})).json()
        assert [row["outcome"] for row in found["data"]] == ["blocked_input"]
        wrong = await proxy.client.get("/v1/decisions", params={"after": "nobody"})
        assert (wrong.status_code, "after names no record" in wrong.text) == (400, True)
        code, said = await verify(capsys, "--metrics", f"{proxy.client.base_url}/metrics")
        assert (code, "the metrics equal the journal" in said) == (0, True), said
        proxy.send()
        assert await proxy.wait() == 0
    (tmp_path / "new.yaml").write_text(NEW)
    replay = ("-m", "evals.cli", "replay", f"journal:env:{VARIABLE}", "--policy", tmp_path / "new.yaml", "--yes")
    ended = await run_python(
        *replay, "--run-name", "week", "--runs-dir", tmp_path / "runs", environ={VARIABLE: database}
    )
    assert ended.code == 0, ended.err
    assert (tmp_path / "runs" / "week" / "summary.json").is_file()


async def test_proxy_and_server_killed_under_load_leave_a_journal_that_holds(
    tmp_path: Path,
    cluster: Cluster,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # O-15, O-16
    monkeypatch.setenv(VARIABLE, database)
    async with FakeUpstream() as up:
        async with serve_process(config(up, tmp_path), tmp_path) as proxy, asyncio.TaskGroup() as group:
            sending = group.create_task(load(str(proxy.client.base_url).rstrip("/"), 600))
            await until(lambda: len(up.received) > 50)
            await asyncio.to_thread(cluster.stop, signal.SIGKILL)
            await until(lambda: any("journal cannot be written" in line for line in proxy.log))
            refused = await proxy.client.post("/v1/chat/completions", json=chat_body())
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "record_unavailable")
            found = await proxy.client.get("/v1/decisions")
            assert (found.status_code, str(cluster.folder) in found.text) == (503, False)
            await asyncio.to_thread(cluster.start)
            await until(lambda: any("journal writes again" in line for line in proxy.log))
            await sending
            code, said = await verify(capsys, "--metrics", f"{proxy.client.base_url}/metrics")
            assert (code, "the metrics equal the journal" in said) == (0, True), said
            group.create_task(load(str(proxy.client.base_url).rstrip("/"), 300))
            before = len(up.received)
            await until(lambda: len(up.received) > before + 30)
            proxy.send(signal.SIGKILL)
            await proxy.wait()
        async with serve_process(config(up, tmp_path), tmp_path) as proxy:
            await load(str(proxy.client.base_url).rstrip("/"), 60)
            code, said = await verify(capsys, "--metrics", f"{proxy.client.base_url}/metrics")
            assert (code, "of 2 starts" in said) == (0, True), said


async def test_without_its_database_the_proxy_does_not_start_and_says_why(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    async with FakeUpstream() as up:
        path = tmp_path / "config.json"
        made = config(up, tmp_path)
        path.write_text(str(made).replace("'", '"'))
        command = ("serve", "--config", path, "--port", "0")
        ended = await run_command(*command, environ={VARIABLE: f"host={tmp_path} dbname=none password=violet"})
        assert (ended.code, "error: OperationalError: connection" in ended.err) == (3, True)
        assert "violet" not in ended.err


async def test_a_stream_cut_off_by_a_kill_is_recorded_by_a_later_start(
    tmp_path: Path,
    cluster: Cluster,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # O-16
    monkeypatch.setenv(VARIABLE, database)
    assert cluster.folder.is_dir()
    async with FakeUpstream() as up, serve_process(config(up, tmp_path, stream_notes="durable"), tmp_path) as proxy:
        up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
        await read_and_kill(proxy)
        await proxy.wait()
    code, said = await verify(capsys)
    assert (code, "a stream without a record" in said) == (0, True), said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("env:GUARDRAIL_NOT_SET", "the environment variable GUARDRAIL_NOT_SET is not set"),
        ("secret:nowhere", "cannot read the file nowhere"),
        ("postgresql://u:violet@127.0.0.1/x", "an address may hold a password"),
    ],
)
def test_a_journal_that_cannot_be_opened_is_not_proven(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--journal", name]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "violet" not in shown
