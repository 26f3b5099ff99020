"""`guardrail-proxy serve` as a process: exit codes, drain, signals (operations §1, O-03, O-09, R-05)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest

from proxy.app import create_app
from proxy.commands.serve import listen, serve
from proxy.config import Config, load_config
from proxy.reload import ConfigSource
from supervisors.errors import ConfigError
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import ROOT, Served, environment, run_command, serve_process
from tests.e2e.serving import chat_body, until
from tests.timing import HANGS_S, PATIENCE_S

ROUTE = "/v1/chat/completions"


def config(upstream: str, folder: Path, **server: Any) -> dict[str, Any]:
    return {
        "upstreams": {"main": {"base_url": upstream}},
        "models": {"gpt": {"upstream": "main"}},
        "journal": {"path": str(folder / "journal.sqlite3")},
        "server": {"drain_grace_s": 2.0, **server},
    }


def write(folder: Path, tree: object) -> Path:
    path = folder / "config.json"
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


async def until_draining(proxy: Served) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await proxy.client.get("/readyz")).status_code != 503:  # noqa: ASYNC110 - polls as a load balancer would
            await asyncio.sleep(0.01)


async def until_closed(proxy: Served) -> None:
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(trust_env=False) as other:
        while True:
            try:
                await other.get(f"{proxy.client.base_url}/livez", headers={"connection": "close"})
            except httpx.TransportError:
                return
            await asyncio.sleep(0.05)


def outcomes(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as database:
        return [json.loads(row[0])["outcome"] for row in database.execute("select body from records order by seq")]


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"upstreams": {"main": {"base": 1}}}, 2, "upstreams.main.base: unknown setting"),
        ({"policies": {"p": {"input": {"mode": "fast"}}}}, 2, "policies.p.input.mode: Input should be 'blocking'"),
        ({"upstreams": {"main": {"base_url": "ftp://x"}}}, 2, "upstreams.main.base_url: "),
        ({"server": {"host": "0.0.0.0"}}, 2, "server.host: 0.0.0.0 is not loopback and no key is configured"),  # noqa: S104
        (
            {"keys": {"a": {"key": {"env": "NOT_THERE"}}}},
            3,
            "keys.a.key: the environment variable NOT_THERE is not set",
        ),
        ({"journal": {"path": "/nowhere/at/all.sqlite3"}}, 3, "/nowhere"),
        ({"upstreams": {"main": {"use": "local", "path": "/nowhere.gguf"}}}, 3, "upstreams.main.path: no such file"),
    ],
)
async def test_a_proxy_that_cannot_serve_says_why(
    tmp_path: Path, change: dict[str, Any], code: int, said: str
) -> None:  # R-05, F-05, O-03
    path = write(tmp_path, {**config("http://127.0.0.1:1/v1", tmp_path), **change})
    ended = await run_command("serve", "--config", path, "--port", "0")
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err


async def test_a_taken_port_is_exit_code_4(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = write(tmp_path, config("http://127.0.0.1:1/v1", tmp_path))
        ended = await run_command("serve", "--config", path, "--port", str(port))
    assert (ended.code, ended.err.splitlines()[-1]) == (
        4,
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use; give another port with --port, or as "
        "server.port in the config",
    )


@pytest.mark.parametrize(
    ("options", "change", "said"),
    [
        (["--host", "0.0.0.0"], {}, "server.host: 0.0.0.0 is not loopback and no key is configured"),  # noqa: S104 - refused
        ([], {"policies": {"p": {"attach": {"models": ["gtp"]}}}}, "policies.p.attach.models: 'gtp' matches nothing"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_start_that_is_refused_opens_no_journal(
    workers: str, options: list[str], change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    tree = {**config("http://127.0.0.1:1/v1", tmp_path), **change}
    path = write(tmp_path, tree)
    ended = await run_command("serve", "--config", path, "--port", "0", "--workers", workers, *options)
    assert (ended.code, said in ended.err) == (2, True), ended.err
    assert not (tmp_path / "journal.sqlite3").exists()
    app = create_app(Config.model_validate({**tree, "server": {"host": "0.0.0.0"}}))  # noqa: S104 - as an ASGI application
    with pytest.raises(ConfigError, match="is not loopback"):
        async with app.gateway.serving():
            pass
    assert not (tmp_path / "journal.sqlite3").exists()


async def test_a_terminal_shows_where_the_proxy_is(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    path = write(tmp_path, config("http://127.0.0.1:9/v1", tmp_path))
    command = (sys.executable, "-m", "proxy.cli", "serve", str(path), "--port", "0")
    environ, log = environment({}), asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(*command, stdout=theirs, stderr=log, env=environ)
    os.close(theirs)
    shown = ""
    async with asyncio.timeout(PATIENCE_S):
        while "/readyz" not in shown:
            shown += (await asyncio.to_thread(os.read, ours, 4096)).decode()
        (url,) = re.findall(r"base_url +(http://127\.0\.0\.1:\d+)/v1", shown)
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            assert (await client.get("/readyz")).status_code == 200
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)
        assert await child.wait() == 0
    os.close(ours)


async def test_a_drain_ends_what_runs_and_flushes_records(tmp_path: Path) -> None:  # O-09, R-09
    async with FakeUpstream() as up, serve_process(config(up.url, tmp_path), tmp_path) as proxy:
        frames = sse(*chat_chunks("one", "two"))
        up.script(Answer(frames=frames, hold_at=2))
        async with proxy.client.stream("POST", ROUTE, json=chat_body(stream=True)) as reply:
            chunks = reply.aiter_bytes()
            got = await anext(chunks)
            proxy.send()
            ready = await proxy.client.get("/readyz")
            assert (ready.status_code, ready.json()["missing"]) == (503, ["draining"])
            assert (await proxy.client.post(ROUTE, json=chat_body())).status_code == 200  # still served in the grace
            await until_closed(proxy)
            up.release()
            async for chunk in chunks:
                got += chunk
        assert got == b"".join(frames)
        assert await proxy.wait() == 0
    assert sorted(outcomes(tmp_path)) == ["answered", "answered"]
    assert "Traceback" not in "".join(proxy.log)


async def test_the_version_is_the_one_that_validate_prints(tmp_path: Path) -> None:  # operations §2.1
    file = write(tmp_path, config("http://127.0.0.1:1/v1", tmp_path))
    printed = (await run_command("validate", file)).out
    async with serve_process(json.loads(file.read_text()), tmp_path, "--host", "127.0.0.1") as proxy:
        version = (await proxy.client.get("/health")).json()["config_version"]
    assert printed == f"valid, version {version[:12]}\n"


async def test_what_outlasts_the_drain_ends_with_an_error_frame(tmp_path: Path) -> None:  # O-09
    limits = config("", tmp_path, drain_grace_s=0.0, drain_timeout_s=0.5)
    async with FakeUpstream() as up:
        limits["upstreams"]["main"]["base_url"] = up.url
        async with serve_process(limits, tmp_path) as proxy:
            up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
            async with proxy.client.stream("POST", ROUTE, json=chat_body(stream=True)) as reply:
                chunks = reply.aiter_bytes()
                got = await anext(chunks)
                proxy.send()
                async for chunk in chunks:
                    got += chunk
            assert json.loads(got.split(b"data: ")[-1])["error"]["code"] == "shutting_down"
            assert await proxy.wait() == 0
            await up.wait_finished(0)
    assert outcomes(tmp_path) == ["unavailable"]


async def test_a_stream_that_the_end_cuts_is_recorded_as_cut_and_verifies(tmp_path: Path) -> None:  # O-09, O-11
    times = config("", tmp_path, drain_grace_s=0.0, drain_timeout_s=0.2)
    words = {"supervisors": {"words": {"use": "rules", "keywords": ["violet umbrella"]}}}
    output = {"forced": ["words"], "stream": {"mode": "hold", "heartbeat_s": 0.05}}
    async with FakeUpstream() as up:
        times["upstreams"]["main"]["base_url"] = up.url
        async with serve_process(times | words | {"policies": {"p": {"output": output}}}, tmp_path) as proxy:
            up.script(Answer(frames=sse(*chat_chunks("one", "two")), hold_at=2))
            async with proxy.client.stream("POST", ROUTE, json=chat_body(stream=True)) as reply:
                chunks = reply.aiter_bytes()
                got = await anext(chunks)  # a heartbeat: all of the text is held
                proxy.send()
                async for chunk in chunks:
                    got += chunk
            assert (b"shutting_down" in got, b"one" in got) == (True, False)
            assert await proxy.wait() == 0
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        (record,) = [json.loads(row[0]) for row in database.execute("select body from records")]
    assert (record["outcome"], record["client"]["terminator"]) == ("unavailable", "error")
    verified = await run_command("verify", "--journal", tmp_path / "journal.sqlite3")
    assert verified.code == 0, verified.err


async def test_a_stream_whose_end_has_left_is_not_cut_by_a_shutdown(tmp_path: Path) -> None:  # O-09
    times = config("", tmp_path, drain_grace_s=0.0, drain_timeout_s=0.0)
    frames = sse(*chat_chunks("one", "two"))
    async with FakeUpstream() as up:
        times["upstreams"]["main"]["base_url"] = up.url
        async with serve_process(times, tmp_path) as proxy:
            up.script(Answer(frames=[*frames, b": bye\n\n"], hold_at=len(frames)))
            async with proxy.client.stream("POST", ROUTE, json=chat_body(stream=True)) as reply:
                chunks, got = reply.aiter_bytes(), b""
                while not got.endswith(frames[-1]):
                    got += await anext(chunks)
                proxy.send()
                assert [chunk async for chunk in chunks] == []
            assert await proxy.wait() == 0
    assert outcomes(tmp_path) == ["answered"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once_with_records_flushed(tmp_path: Path, number: int) -> None:  # O-09
    async with FakeUpstream() as up, serve_process(config(up.url, tmp_path, drain_grace_s=HANGS_S), tmp_path) as proxy:
        assert (await proxy.client.post(ROUTE, json=chat_body())).status_code == 200
        up.script(Answer(hold_at=-1))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(proxy.client.post(ROUTE, json=chat_body()))
            await up.wait_received(2)
            proxy.send(number)
            await until_draining(proxy)
            proxy.send(number)
            assert await proxy.wait() == 0
        refused = waiting.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert len(outcomes(tmp_path)) == 2


async def test_records_that_cannot_be_written_at_the_end_are_said_and_no_success(tmp_path: Path) -> None:  # O-09
    async with FakeUpstream() as up, serve_process(config(up.url, tmp_path, drain_grace_s=0.0), tmp_path) as proxy:
        (tmp_path / "journal.sqlite3").rename(tmp_path / "moved.sqlite3")
        assert (await proxy.client.post(ROUTE, json=chat_body())).status_code == 200  # nobody knows of it yet
        proxy.send()
        assert await proxy.wait() == 1
    closed = next(json.loads(line) for line in proxy.log if "journal closed with unwritten records" in line)
    assert (closed["level"], closed["lost"]) == ("error", 1)
    assert proxy.log[-1] == "error: the proxy ended: the journal could not be written, 1 record is lost\n"


def judge_in_a_thread(folder: Path) -> None:
    """Install a supervisor that keeps its thread, in a distribution of its own."""
    (folder / "slow_judge.py").write_text(
        "import asyncio, pathlib, time\n"
        "from typing import Literal\n"
        "from pydantic import BaseModel\n"
        "class Slow(BaseModel, frozen=True):\n"
        "    use: Literal['slow']\n"
        "    async def assess(self, exchange, context):\n"
        f"        pathlib.Path({str(folder)!r}, exchange.id + '.asked').touch()\n"
        f"        await asyncio.to_thread(time.sleep, {HANGS_S})\n"
    )
    info = folder / "slow_judge-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-judge\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[guardrail_proxy.supervisors]\nslow = slow_judge:Slow\n")


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_judge_that_is_busy_in_a_thread_does_not_keep_the_process(tmp_path: Path, signals: int) -> None:  # O-09
    judge_in_a_thread(tmp_path)
    times = {"drain_grace_s": HANGS_S} if signals == 2 else {"drain_grace_s": 0.0, "drain_timeout_s": 0.2}
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    async with FakeUpstream() as up:
        tree = config(up.url, tmp_path, **times) | {
            "supervisors": {"slow": {"use": "slow"}},
            "policies": {"p": {"input": {"forced": ["slow"], "timeout_s": HANGS_S}}},
            "limits": {"request_timeout_s": HANGS_S},
        }
        async with serve_process(tree, tmp_path, environ=path) as proxy, asyncio.TaskGroup() as group:
            # More than there are threads: what the end needs one for must not wait behind them.
            waiting = [group.create_task(proxy.client.post(ROUTE, json=chat_body())) for _ in range(40)]
            await until(lambda: len(list(tmp_path.glob("*.asked"))) == 40)
            proxy.send()
            if signals == 2:
                await until_draining(proxy)
                proxy.send()
            assert await proxy.wait() == 0
    assert [task.result().status_code for task in waiting] == [503] * 40
    assert outcomes(tmp_path) == ["unavailable"] * 40


UPLOADS = [ROUTE, "/v1/moderations", "/v1/messages", "/v1/guardrails/check", "/v1/files"]


@pytest.mark.parametrize("signals", [1, 2])
async def test_callers_that_never_end_their_bodies_are_told_of_the_end(tmp_path: Path, signals: int) -> None:  # O-09
    times = {"drain_grace_s": HANGS_S} if signals == 2 else {"drain_grace_s": 0.0, "drain_timeout_s": 0.2}
    async with FakeUpstream() as up:
        files = {"unguarded_routes": [{"method": "POST", "path": "/v1/files"}]}
        async with serve_process(config(up.url, tmp_path, **times) | files, tmp_path) as proxy:
            callers = [await begin_upload(proxy, path) for path in UPLOADS]
            proxy.send()
            if signals == 2:
                await until_draining(proxy)
                proxy.send()
            async with asyncio.timeout(PATIENCE_S):
                answers = [await reader.read() for reader, _ in callers]
            assert await proxy.wait() == 0
            for _, writer in callers:
                writer.close()
    assert [(answer[9:12], b"shutting_down" in answer) for answer in answers] == [(b"503", True)] * len(UPLOADS)
    assert outcomes(tmp_path) == ["unavailable"] * len(UPLOADS)
    assert "Traceback" not in "".join(proxy.log)


@pytest.mark.parametrize("signals", [1, 2])
async def test_callers_that_take_nothing_are_hung_up_on_without_noise(tmp_path: Path, signals: int) -> None:  # O-09
    times = {"drain_grace_s": HANGS_S} if signals == 2 else {"drain_grace_s": 0.0, "drain_timeout_s": 0.2}
    tree: dict[str, Any] = config("", tmp_path, **times) | {
        "unguarded_routes": [{"method": "GET", "path": "/v1/files"}]
    }
    long = Answer(frames=sse(*chat_chunks(*["violet umbrella " * 4096] * 200)))
    async with FakeUpstream() as up:
        tree["upstreams"]["main"]["base_url"] = up.url
        async with serve_process(tree, tmp_path) as proxy:
            up.script(long, long, long)
            stream = json.dumps(chat_body(stream=True)).encode()
            asked = [("POST", ROUTE, stream), ("POST", "/v1/completions", stream), ("GET", "/v1/files", b"")]
            callers = [take_nothing(proxy, *one) for one in asked]
            await up.wait_received(3)
            proxy.send()
            if signals == 2:
                await until_draining(proxy)
                proxy.send()
            assert await proxy.wait() == 0
            for caller in callers:
                caller.close()
    assert len(outcomes(tmp_path)) == 3
    assert [line for line in proxy.log if '"level":"error"' in line or "Traceback" in line] == []


def take_nothing(proxy: Served, method: str, path: str, body: bytes) -> socket.socket:
    """Send a request and never read."""
    base = proxy.client.base_url
    caller = socket.create_connection((base.host, base.port or 80))
    caller.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return caller


async def begin_upload(proxy: Served, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a head and a part of its body; the proxy has it when it has said that it wants the rest."""
    base = proxy.client.base_url
    reader, writer = await asyncio.open_connection(base.host, base.port)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n"
    writer.write(head.encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{")
    return reader, writer


async def test_a_path_that_no_system_has_is_a_config_error(tmp_path: Path) -> None:  # O-03
    tree = {**config("http://127.0.0.1:1/v1", tmp_path), "journal": {"path": "a\0b"}}
    ended = await run_command("serve", "--config", write(tmp_path, tree), "--port", "0")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("journal.path: the text holds a character with the code 0")


def test_a_start_that_fails_for_whatever_reason_has_a_code(  # O-03
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, config("http://127.0.0.1:1/v1", tmp_path))
    read = load_config(path)
    unseen = read.model_copy(update={"journal": read.journal.model_copy(update={"path": Path("a\0b")})})
    with listen("127.0.0.1", 0) as listener:
        assert serve(create_app(unseen), listener, path) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: the proxy could not start: ValueError: embedded null byte"


class Breaking(ConfigSource):
    """A source that is broken once the proxy serves."""

    def behind(self) -> bool:
        msg = "nobody thought\nof this"
        raise RuntimeError(msg)


def test_a_failure_of_what_serving_needs_ends_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, config("http://127.0.0.1:1/v1", tmp_path))
    app = create_app(load_config(path), Breaking(path, poll_s=0.01))
    rescue = Timer(PATIENCE_S, os.kill, (os.getpid(), signal.SIGTERM))
    rescue.start()
    assert serve(app, listen("127.0.0.1", 0), path) == 1
    ended_itself = rescue.is_alive()
    rescue.cancel()
    assert ended_itself
    assert capsys.readouterr().err.splitlines()[-1] == "error: the proxy ended: RuntimeError: nobody thought of this"
