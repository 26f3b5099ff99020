"""Long texts are judged beside the loop, huge ones one after another, and not for callers that have left (PF-05)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from supervisors.offload import HUGE_CHARS, Abandoned, Offload, Stop, run_pieces

PATIENCE_S = 20


class Work:
    """Judge until told to stop, and remember how many did so at the same time."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.lock = threading.Lock()  # keeps the threads that judge from counting over each other
        self.running = self.most = self.total = 0

    def __call__(self) -> int:
        with self.lock:
            self.running, self.total = self.running + 1, self.total + 1
            self.most = max(self.most, self.running)
        self.begun.release()
        assert self.go.wait(PATIENCE_S)
        with self.lock:
            self.running -= 1
        return threading.get_ident()


async def begin(work: Work) -> None:
    assert await asyncio.to_thread(work.begun.acquire, timeout=PATIENCE_S)


async def test_huge_texts_are_judged_one_after_another() -> None:
    work, offload = Work(), Offload()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        tasks = [group.create_task(offload.run(HUGE_CHARS + 1, work)) for _ in range(4)]
        await begin(work)
        work.go.set()
    threads = {task.result() for task in tasks}
    assert (work.most, work.total, len(threads)) == (1, 4, 1)
    assert threading.get_ident() not in threads


async def test_long_texts_wait_for_no_huge_one() -> None:
    huge, long, offload = Work(), Work(), Offload()
    long.go.set()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task(offload.run(HUGE_CHARS + 1, huge))
        await begin(huge)
        await offload.run(HUGE_CHARS, long)
        huge.go.set()
    assert (huge.total, long.total) == (1, 1)


async def test_who_leaves_before_its_turn_costs_nothing() -> None:
    first, left, offload = Work(), Work(), Offload()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task(offload.run(HUGE_CHARS + 1, first))
        await begin(first)
        waiting = [group.create_task(offload.run(HUGE_CHARS + 1, left)) for _ in range(10)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        first.go.set()
    left.go.set()
    await offload.run(HUGE_CHARS + 1, left)
    assert left.total == 1


class Pieces:
    """Judge piece after piece, each once it is let."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.over = threading.Event()
        self.judged = 0

    def __call__(self, stop: Stop) -> int:
        try:
            for _ in stop.watch(range(10)):
                self.judged += 1
                self.begun.release()
                assert self.go.acquire(timeout=PATIENCE_S)
        finally:
            self.over.set()
        return self.judged


@pytest.mark.parametrize("chars", [10, HUGE_CHARS + 1])
async def test_what_nobody_waits_for_ends_within_a_piece(chars: int) -> None:  # G-45
    work = Pieces()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(Offload().run_pieces(chars, work))
        assert await asyncio.to_thread(work.begun.acquire, timeout=PATIENCE_S)
        task.cancel()
    for _ in range(10):
        work.go.release()
    assert await asyncio.to_thread(work.over.wait, PATIENCE_S)
    assert work.judged == 1


async def test_what_is_waited_for_is_judged_to_its_end() -> None:
    work = Pieces()
    for _ in range(10):
        work.go.release()
    assert await run_pieces(work) == 10


def test_a_stop_ends_whoever_asks() -> None:
    stop = Stop()
    stop.check()
    stop.leave()
    with pytest.raises(Abandoned):
        stop.check()
