"""The process above the workers, with workers that are three lines of Python (L-10, O-09)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from proxy.workers.crew import Crew
from tests.e2e.serving import until
from tests.timing import PATIENCE_S

WORKER = """
import os, pathlib, signal, sys, time
name = pathlib.Path(sys.argv[1]) / f"{os.getpid()}.sock"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while not name.with_suffix(".go").exists() and "slow" in sys.argv:
    time.sleep(0.01)
signal.signal(signal.SIGHUP, lambda *_: name.with_suffix(".told").touch())
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
name.touch()
time.sleep(600)
"""


def pids(folder: Path, kind: str = "sock") -> set[int]:
    return {int(path.stem) for path in folder.glob(f"*.{kind}")}


async def test_dead_workers_are_replaced_and_signals_passed_on(tmp_path: Path) -> None:  # L-10, O-09
    crew = Crew([sys.executable, "-c", WORKER, str(tmp_path)], 2, tmp_path)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(crew.run())
        await until(lambda: len(pids(tmp_path)) == 2)
        first = pids(tmp_path)
        os.kill(min(first), signal.SIGKILL)
        await until(lambda: len(pids(tmp_path)) == 3)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: len(pids(tmp_path, "told")) == 2)
        assert pids(tmp_path, "told") == pids(tmp_path) - {min(first)}
        os.kill(os.getpid(), signal.SIGTERM)
    assert running.result() == 0


async def test_a_signal_during_the_start_of_a_worker_is_kept_for_it(tmp_path: Path) -> None:  # O-06
    crew = Crew([sys.executable, "-c", WORKER, str(tmp_path), "slow"], 1, tmp_path)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(crew.run())
        child = await started_child()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: is_pending(child, signal.SIGHUP))
        (tmp_path / f"{child}.go").touch()
        await until(lambda: pids(tmp_path, "told") == {child})
        os.kill(os.getpid(), signal.SIGTERM)
    assert running.result() == 0


async def started_child() -> int:
    """Return the only child of this process, as the kernel lists it."""
    before = children()
    await until(lambda: bool(children() - before))
    return (children() - before).pop()


def children() -> set[int]:
    return {int(word) for word in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


def is_pending(pid: int, number: int) -> bool:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["ShdPnd"], 16) >> (number - 1) & 1)


async def test_a_first_worker_that_cannot_start_ends_the_crew_with_its_code(tmp_path: Path) -> None:
    script = f"import pathlib, sys; pathlib.Path({str(tmp_path)!r}, 'tried').open('a').write('x'); sys.exit(3)"
    assert await Crew([sys.executable, "-c", script], 4, tmp_path).run() == 3
    assert (tmp_path / "tried").read_text() == "x"


async def test_a_stop_reaches_a_worker_that_is_being_started(tmp_path: Path) -> None:  # O-09
    crew = Crew(
        [sys.executable, "-c", WORKER, str(tmp_path)], 2, tmp_path, (), lambda: os.kill(os.getpid(), signal.SIGTERM)
    )
    async with asyncio.timeout(PATIENCE_S):
        assert await crew.run() == 0
    assert len(pids(tmp_path)) <= 2
