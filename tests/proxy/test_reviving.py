"""A local model whose process dies is started again, a bounded number of times."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from proxy.local import LocalSettings
from proxy.reviving import KeptServer, LocalState, Revival, keep_local
from supervisors.transport import HttpClient, HttpRequest, TransportError
from tests.e2e.serving import until
from tests.proxy.fake_local import FakePackage


async def reach(state: LocalState, kept: KeptServer) -> None:
    await until(lambda: kept.state == state)


async def test_a_child_that_dies_is_started_again_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings, counted = LocalSettings(path=FakePackage(tmp_path, monkeypatch).weights), list[int]()
    async with (
        keep_local(settings, "own", lambda: counted.append(1), Revival(first_s=0.001)) as kept,
        HttpClient() as ask,
    ):
        known = (kept.url, kept.api_key)
        for times in (1, 2):
            died = kept.pid
            os.kill(died, signal.SIGKILL)
            await until(lambda times=times: len(counted) == times)  # type: ignore[misc]  # bound at once
            await reach("running", kept)
            assert kept.pid != died
            assert (kept.url, kept.api_key) == known
            assert (await ask.send(HttpRequest("GET", kept.url.removesuffix("/v1") + "/health"))).status == 200
        last = kept.pid
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)
    told = [(one.message, one.__dict__.get("exit_code")) for one in caplog.records if one.name == "proxy.reviving"]
    assert told[0] == ("local model ended and is started again", -signal.SIGKILL)
    assert told[1] == ("local model runs again", None)


async def test_a_child_that_never_comes_back_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, counted = FakePackage(tmp_path, monkeypatch), list[int]()
    revival = Revival(attempts=3, first_s=0.001)
    async with keep_local(LocalSettings(path=package.weights), "own", lambda: counted.append(1), revival) as kept:
        package.spoil()
        os.kill(kept.pid, signal.SIGKILL)
        await reach("given_up", kept)
        assert counted == []
        async with HttpClient() as ask:
            with pytest.raises(TransportError):
                await ask.send(HttpRequest("GET", kept.url))


async def test_a_child_that_dies_at_once_each_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, counted = FakePackage(tmp_path, monkeypatch), list[int]()
    revival = Revival(attempts=2, first_s=0.001, steady_s=1e9)
    async with keep_local(LocalSettings(path=package.weights), "own", lambda: counted.append(1), revival) as kept:
        for times in (1, 2):
            os.kill(kept.pid, signal.SIGKILL)
            await until(lambda times=times: len(counted) == times)  # type: ignore[misc]  # bound at once
        os.kill(kept.pid, signal.SIGKILL)
        await reach("given_up", kept)
        assert counted == [1, 1]


async def test_one_that_ran_for_long_has_all_its_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, counted = FakePackage(tmp_path, monkeypatch), list[int]()
    revival = Revival(attempts=1, first_s=0.001, steady_s=0.0)
    async with keep_local(LocalSettings(path=package.weights), "own", lambda: counted.append(1), revival) as kept:
        for times in (1, 2, 3):
            os.kill(kept.pid, signal.SIGKILL)
            await until(lambda times=times: len(counted) == times)  # type: ignore[misc]  # bound at once
    assert (kept.state, counted) == ("running", [1, 1, 1])


async def test_the_end_of_the_proxy_ends_the_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = FakePackage(tmp_path, monkeypatch)
    async with keep_local(LocalSettings(path=package.weights), revival=Revival(first_s=1e6, longest_s=1e6)) as kept:
        os.kill(kept.pid, signal.SIGKILL)
        await reach("starting", kept)
    assert kept.state == "starting"


@pytest.mark.parametrize(("tried", "pause_s"), [(0, 0.5), (1, 1.0), (5, 16.0), (6, 30.0), (500, 30.0)])
def test_each_pause_is_twice_the_last_up_to_a_longest(tried: int, pause_s: float) -> None:
    assert Revival().pause_s(tried) == pause_s
