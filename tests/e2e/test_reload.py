"""A changed config: all or nothing, and a request has one version from beginning to end (O-05, O-06, F-10)."""

from __future__ import annotations

import asyncio
import errno
import json
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.config import Config, load_config
from proxy.gateway import Gateway
from proxy.reload import ConfigSource
from supervisors.types import Context, Exchange, Verdict, safe
from tests.e2e.fake_replies import chat_chunks, sse
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import serve_process
from tests.e2e.serving import CANARY, Serving, chat_body, content_of, guarded, policy, serving, tree
from tests.timing import PATIENCE_S

WORDS = {"words": {"use": "rules", "keywords": [CANARY]}}


@dataclass(frozen=True, slots=True)
class Edited:
    """A proxy with the file it is configured by."""

    proxy: Serving
    path: Path

    async def version(self) -> str:
        health = (await self.proxy.client.get("/health")).json()
        assert health["workers"][0]["config_version"] == health["config_version"]
        return str(health["config_version"])

    async def metric(self, line: str) -> bool:
        return line in (await self.proxy.client.get("/metrics")).text

    async def wait_for(self, line: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await self.metric(line):  # noqa: ASYNC110 - polls as Prometheus would
                await asyncio.sleep(0.01)

    async def reload(self, text: str, result: str, count: int = 1) -> None:
        self.path.write_text(text)
        self.proxy.app.gateway.request_reload()
        await self.wait_for(f'config_reload_total{{result="{result}"}} {count}.0')


@asynccontextmanager
async def edited(up: FakeUpstream, folder: Path, poll_s: float = 60.0, **parts: Any) -> AsyncGenerator[Edited]:
    path = folder / "config.json"
    path.write_text(written(up, folder, **parts))
    async with serving(load_config(path), ConfigSource(path, poll_s=poll_s)) as proxy:
        yield Edited(proxy, path)


def written(up: FakeUpstream, folder: Path, **parts: Any) -> str:
    return json.dumps(tree(up.url, folder, **parts), default=str)


def judged(stage: str = "input") -> Mapping[str, Any]:
    rule = {"forced": ["words"]}
    return {"supervisors": WORDS, "policies": policy(rule) if stage == "input" else policy(None, rule)}


async def test_a_changed_policy_is_in_force_without_a_restart(tmp_path: Path) -> None:  # O-06, R-04
    async with FakeUpstream() as up, edited(up, tmp_path) as served:
        assert (await served.proxy.chat(CANARY)).status_code == 200
        before = await served.version()
        await served.reload(written(up, tmp_path, **judged()), "applied")
        reply = await served.proxy.chat(CANARY)
        after = await served.version()
        assert (reply.status_code, after != before) == (400, True)
        assert reply.headers["x-guardrail-policy-version"] == after[:12]
        assert await served.metric(f'config_info{{version="{after[:12]}"}} 1.0')
        versions = [row["policy"]["version"] for row in await served.proxy.records(2)]
        assert versions == [after, before]


async def test_a_file_that_cannot_be_served_changes_nothing(tmp_path: Path) -> None:
    async with FakeUpstream() as up, edited(up, tmp_path, **judged()) as served:
        before = await served.version()
        bad = ("a: [", written(up, tmp_path, nope=1), written(up, tmp_path, server={"port": 1}))
        for number, text in enumerate(bad, 1):
            await served.reload(text, "rejected", number)
            assert (await served.proxy.chat(CANARY)).status_code == 400
        assert await served.version() == before
        assert await served.metric('config_reload_total{result="applied"} 0.0')


DEEP = "a: " + "[" * 400 + "]" * 400
BOMB = "\n".join(["a0: &a0 [1]", *[f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]])
BROKEN = (DEEP, "{" * 5000, BOMB, "a: &a [*a]", "a: 2026-13-45", "a: " + "9" * 5000, '{"a": "\\ud800"}', "\0", "- 1")


async def test_a_file_of_any_shape_is_rejected_and_the_next_one_is_read(tmp_path: Path) -> None:  # O-05, R-05
    async with FakeUpstream() as up, edited(up, tmp_path, **judged()) as served:
        before = await served.version()
        for number, text in enumerate(BROKEN, 1):
            await served.reload(text, "rejected", number)
            assert (await served.proxy.chat(CANARY)).status_code == 400
        assert await served.version() == before
        await served.reload(written(up, tmp_path), "applied")
        assert (await served.proxy.chat(CANARY)).status_code == 200


class Trips(ConfigSource):
    """A source that fails as nothing of ours should."""

    def read(self) -> Config:
        """Fail."""
        raise RecursionError(0)


async def test_a_bug_in_the_check_of_a_file_does_not_end_what_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # O-05
    path = tmp_path / "config.json"
    async with FakeUpstream() as up:
        path.write_text(written(up, tmp_path))
        async with serving(load_config(path), Trips(path)) as proxy:
            served = Edited(proxy, path)
            await served.reload("a: 1", "rejected")
            assert (await proxy.chat()).status_code == 200
    (said,) = [one for one in caplog.records if one.message.startswith("changed config rejected")]
    assert vars(said)["problems"] == [f"{path}: RecursionError: 0"]
    assert said.exc_info is not None


async def test_a_stream_ends_under_the_config_it_began_with(tmp_path: Path) -> None:
    async with FakeUpstream() as up, edited(up, tmp_path, **judged("output")) as served:
        before = await served.version()
        up.script(Answer(frames=sse(*chat_chunks("a violet", " umbrella", " here")), hold_at=2))
        async with asyncio.TaskGroup() as group:
            streaming = group.create_task(served.proxy.chat(stream=True))
            await up.wait_received()
            await served.reload(written(up, tmp_path), "applied")
            up.script(Answer(frames=sse(*chat_chunks(CANARY))))
            assert content_of(await served.proxy.chat(stream=True)) == CANARY
            up.release()
        assert CANARY not in content_of(streaming.result())
        old = next(row for row in await served.proxy.wait_records(2) if row["policy"]["version"] == before)
        assert old["outcome"] == "blocked_output"


async def test_keys_hosts_and_limits_are_read_again(tmp_path: Path) -> None:
    key = {"keys": {"app": {"sha256": sha256(b"a" * 40).hexdigest()}}}
    async with FakeUpstream() as up, edited(up, tmp_path) as served:
        client = served.proxy.client
        await served.reload(written(up, tmp_path, **key), "applied")
        assert (await served.proxy.chat()).status_code == 401
        headers = {"authorization": f"Bearer {'a' * 40}"}
        assert (await client.post("/v1/chat/completions", json=chat_body(), headers=headers)).status_code == 200
        served.path.write_text(written(up, tmp_path, server={"allowed_hosts": ["proxy.example"]}))
        served.proxy.app.gateway.request_reload()
        async with asyncio.timeout(PATIENCE_S):
            while (await served.proxy.chat()).status_code != 421:  # noqa: ASYNC110 - polls as a client would
                await asyncio.sleep(0.01)


async def test_under_auto_the_file_alone_is_enough(tmp_path: Path) -> None:
    async with FakeUpstream() as up, edited(up, tmp_path, poll_s=0.02, reload="auto") as served:
        served.path.write_text(written(up, tmp_path, reload="signal", **judged()))
        await served.wait_for('config_reload_total{result="applied"} 1.0')
        assert (await served.proxy.chat(CANARY)).status_code == 400
        served.path.write_text(written(up, tmp_path))  # the file now says: at a signal only
        await asyncio.sleep(0.2)
        assert (await served.proxy.chat(CANARY)).status_code == 400


async def test_many_reloads_under_load_lose_no_request(tmp_path: Path) -> None:  # F-10
    texts = ("x", "y")
    async with FakeUpstream() as up, edited(up, tmp_path, **judged()) as served:
        statuses: list[int] = []
        done = asyncio.Event()

        async def send(text: str) -> None:
            while not done.is_set():
                statuses.append((await served.proxy.chat(text, stream=text == "x")).status_code)

        async with asyncio.TaskGroup() as group:
            for text in (*texts, CANARY):
                group.create_task(send(text))
            for number in range(20):
                parts = {**judged(), "tasks": [f"t{number}"]}
                await served.reload(written(up, tmp_path, **parts), "applied", number + 1)
            done.set()
        assert set(statuses) == {200, 400}
        assert len(await served.proxy.wait_records(len(statuses))) == len(statuses)


async def test_shadow_verdicts_of_a_retired_config_are_recorded(tmp_path: Path) -> None:
    shadow: dict[str, Any] = {"supervisors": WORDS, "policies": policy({"forced": ["words"], "mode": "shadow"})}
    async with FakeUpstream() as up, edited(up, tmp_path, **shadow) as served:
        up.script(Answer(hold_at=-1))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(served.proxy.chat(CANARY))
            await up.wait_received()
            await served.reload(written(up, tmp_path), "applied")
            up.release()
        assert waiting.result().status_code == 200
        (record,) = await served.proxy.wait_records()
        assert [row["label"] for row in record["verdicts"]] == ["unsafe"]


class Slow:
    """A supervisor that takes its time to open, and says when it has begun to."""

    def __init__(self, begun: asyncio.Event, go_on: asyncio.Event) -> None:
        self._begun, self._go_on = begun, go_on

    async def __aenter__(self) -> None:
        self._begun.set()
        await self._go_on.wait()

    async def __aexit__(self, *_: object) -> None:
        pass

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        return safe()


async def test_an_end_in_the_middle_of_a_reload_is_a_clean_end(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    async with FakeUpstream() as up:
        changed = Config.model_validate(guarded(up, tmp_path, supervisors={"words": Slow(begun, go_on)}))
        (tmp_path / "config.json").write_text(written(up, tmp_path))
        gateway = Gateway(changed, ConfigSource(tmp_path / "config.json", lambda _: changed))
        go_on.set()
        async with asyncio.timeout(PATIENCE_S), gateway.serving():
            begun.clear()
            go_on.clear()
            gateway.request_reload()
            await begun.wait()
            asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert not gateway.ready


async def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        config: dict[str, Any] = json.loads(written(up, tmp_path))
        async with serve_process(config, tmp_path) as proxy:
            before = (await proxy.client.get("/health")).json()["config_version"]
            path = tmp_path / "config.json"
            for text, said in (("a: [", "rejected"), (written(up, tmp_path, **judged()), "applied")):
                path.write_text(text)
                proxy.send(signal.SIGHUP)
                async with asyncio.timeout(PATIENCE_S):
                    while not any(f"changed config {said}" in line for line in proxy.log):  # noqa: ASYNC110 - a log
                        await asyncio.sleep(0.02)
            assert (await proxy.client.get("/health")).json()["config_version"] != before
            assert (await proxy.client.post("/v1/chat/completions", json=chat_body(CANARY))).status_code == 400
            (rejected,) = [json.loads(line) for line in proxy.log if "changed config rejected" in line]
            assert rejected["file"] == str(path)
            assert rejected["problems"][0].startswith(f"{path}:1:5: not valid YAML: ")
            proxy.send()
            assert await proxy.wait() == 0


async def test_an_edit_during_the_start_is_not_lost(tmp_path: Path) -> None:  # O-05
    path = tmp_path / "config.json"
    async with FakeUpstream() as up:
        path.write_text(written(up, tmp_path, reload="auto"))
        source = ConfigSource(path, poll_s=0.01)
        config = source.read()
        path.write_text(written(up, tmp_path, reload="auto", expose="none"))
        async with serving(config, source) as proxy:
            await Edited(proxy, path).wait_for('config_reload_total{result="applied"} 1.0')
            assert proxy.app.gateway.config.expose == "none"


class Short(ConfigSource):
    """A source that is short of descriptors at first."""

    shortages = 3

    def read(self) -> Config:
        if self.shortages:
            self.shortages -= 1
            msg = "Too many open files"
            raise OSError(errno.EMFILE, msg)
        return super().read()


async def test_what_a_shortage_has_rejected_is_read_again_under_auto(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # O-05
    path = tmp_path / "config.json"
    async with FakeUpstream() as up:
        path.write_text(written(up, tmp_path, reload="auto"))
        source = Short(path, poll_s=0.01)
        async with serving(load_config(path), source) as proxy:
            path.write_text(written(up, tmp_path, reload="auto", expose="none"))
            await Edited(proxy, path).wait_for('config_reload_total{result="applied"} 1.0')
            assert await Edited(proxy, path).metric('config_reload_total{result="rejected"} 3.0')
            assert proxy.app.gateway.config.expose == "none"
    said = [entry for entry in caplog.records if entry.message.startswith("changed config rejected")]
    assert [vars(entry)["problems"] for entry in said] == [[f"{path}: [Errno 24] Too many open files"]]


class Alone(ConfigSource):
    """A source that cannot tell the others."""

    def applied(self) -> None:
        msg = "No space left on device"
        raise OSError(errno.ENOSPC, msg)


async def test_a_config_that_the_others_cannot_be_told_is_rejected(tmp_path: Path) -> None:  # O-05, O-06
    path = tmp_path / "config.json"
    async with FakeUpstream() as up:
        path.write_text(written(up, tmp_path))
        async with serving(load_config(path), Alone(path)) as proxy:
            edit = Edited(proxy, path)
            before = await edit.version()
            await edit.reload(written(up, tmp_path, expose="none"), "rejected")
            assert await edit.version() == before
            assert (await proxy.client.get("/readyz")).status_code == 200
