"""Workers see each other over sockets in a common folder; who does not answer is shown as it was (L-10)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.counting import Family, Sample
from proxy.workers.merging import Snapshot
from proxy.workers.peers import Peers
from tests.e2e.serving import until


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="guardrail-") as name:  # a socket's path must be short
        yield Path(name)


class Worker:
    """A worker that has counted so much."""

    def __init__(self, folder: Path, boot: str) -> None:
        self.boot = boot
        self.count = 0
        self.peers = Peers(folder, self._take)

    async def _take(self) -> Snapshot:
        hits = Family("hits", "counter", "Help.", [Sample("hits_total", (), self.count)])
        return Snapshot(self.boot, 7, "f" * 64, self.count, [hits])

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.peers.run(self.boot))
            await until((folder / f"{self.boot}.sock").exists)
            yield
            task.cancel()


def seen(snapshots: Sequence[Snapshot]) -> list[tuple[str, int, bool]]:
    return [(one.boot, one.records, one.live) for one in snapshots]


async def test_what_a_worker_has_shown_stays_when_it_is_gone(folder: Path) -> None:  # L-10
    here, there = Worker(folder, "a"), Worker(folder, "b")
    async with here.running(folder):
        async with there.running(folder):
            here.count, there.count = 3, 5
            assert seen(await here.peers.gather()) == [("a", 3, True), ("b", 5, True)]
            there.count = 9  # never shown, never saved
        assert seen(await here.peers.gather()) == [("a", 3, True), ("b", 5, False)]
        assert seen(await here.peers.gather()) == [("a", 3, True), ("b", 5, False)]
        assert not (folder / "b.sock").exists()


async def test_a_worker_that_ends_in_good_order_keeps_everything(folder: Path) -> None:  # L-10
    here, there = Worker(folder, "a"), Worker(folder, "b")
    async with here.running(folder):
        async with there.running(folder):
            there.count = 9
        await there.peers.save()
        assert seen(await here.peers.gather()) == [("a", 0, True), ("b", 9, False)]


async def test_a_worker_that_answers_nonsense_is_shown_as_it_was(folder: Path) -> None:
    here, there = Worker(folder, "a"), Worker(folder, "b")
    there.count = 4
    await there.peers.save()

    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense")
        writer.close()

    async with here.running(folder), await asyncio.start_unix_server(talk, folder / "b.sock"):
        assert seen(await here.peers.gather()) == [("a", 0, True), ("b", 4, False)]
