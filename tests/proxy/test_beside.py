import asyncio

import pytest

from proxy.beside import LOOK_S, PATIENCE_S, Attendance, Later
from tests import timing


class Left(Exception):
    pass


class Caller:
    """A caller that leaves when told to, and notes whether anybody looked."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.watched = asyncio.Event()
        self.let_go = asyncio.Event()

    async def watch(self) -> None:
        self.watched.set()
        try:
            await self.gone.wait()
        finally:
            self.let_go.set()
        raise Left

    async def end(self) -> None:
        """Wait until nobody looks any more."""
        async with asyncio.timeout(timing.PATIENCE_S):
            await self.let_go.wait()


async def test_a_short_body_is_not_watched() -> None:
    caller = Caller()
    with Attendance(5.0).attend(caller.watch):
        await asyncio.sleep(0)
    assert not caller.watched.is_set()


async def test_a_long_body_is_watched_and_the_watch_ends_with_it() -> None:
    caller = Caller()
    with Attendance(5.0).attend(caller.watch):
        await caller.watched.wait()
        assert not caller.let_go.is_set()
    await caller.end()
    assert caller.let_go.is_set()


async def test_a_caller_that_leaves_cancels_the_body() -> None:  # W-07
    caller = Caller()
    caller.gone.set()
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Left), Attendance(5.0).attend(caller.watch):
        await work()
    task = asyncio.current_task()
    assert cancelled.is_set()
    assert task is not None
    assert not task.cancelling()


@pytest.mark.parametrize("timeout_s", [PATIENCE_S / 4, LOOK_S * 2])
async def test_the_deadline_ends_the_body(timeout_s: float) -> None:
    caller = Caller()
    with pytest.raises(TimeoutError), Attendance(timeout_s).attend(caller.watch):
        await asyncio.Event().wait()
    assert caller.watched.is_set() == (timeout_s > PATIENCE_S)
    if caller.watched.is_set():
        await caller.end()


async def test_an_error_of_the_body_comes_out_as_itself() -> None:
    caller = Caller()

    async def work() -> None:
        await caller.watched.wait()
        msg = "mine"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="mine"), Attendance(5.0).attend(caller.watch):
        await work()
    await caller.end()


async def test_a_cancellation_from_outside_stays_one() -> None:
    caller = Caller()

    async def body() -> None:
        with Attendance(5.0).attend(caller.watch):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await caller.watched.wait()
        task.cancel()
    assert task.cancelled()
    await caller.end()


async def test_a_body_that_ends_as_its_caller_leaves_keeps_its_result() -> None:
    caller = Caller()
    result = ""
    with Attendance(5.0).attend(caller.watch):
        await caller.watched.wait()
        caller.gone.set()
        result = "kept"
    await caller.end()
    assert result == "kept"  # the caller's leaving came too late to be raised


async def test_one_timer_looks_after_many_and_ends_with_the_last() -> None:
    attendance = Attendance(5.0)
    callers = [Caller() for _ in range(20)]

    async def serve(caller: Caller) -> None:
        with attendance.attend(caller.watch):
            await caller.watched.wait()

    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(serve(caller))
    callers[0].watched.clear()
    with attendance.attend(callers[0].watch):  # begun anew after all have gone
        await callers[0].watched.wait()
    assert all(caller.watched.is_set() for caller in callers)


async def test_all_can_be_ended_at_once() -> None:  # O-09
    attendance = Attendance(5.0)
    begun = asyncio.Event()

    async def serve() -> None:
        with attendance.attend(Caller().watch):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(serve())
    await begun.wait()
    attendance.end_all(lambda: ValueError("the end"))
    with pytest.raises(ValueError, match="the end"):
        await task
    with pytest.raises(ValueError, match="the end"):  # nor is anything begun after that
        await serve()


async def test_a_body_that_notices_its_caller_itself_has_a_deadline_only() -> None:
    with pytest.raises(TimeoutError), Attendance(0.2).attend(None):
        await asyncio.Event().wait()


async def test_what_comes_later_is_not_begun_for_a_short_body() -> None:
    caller = Caller()
    async with Later(timing.HANGS_S, caller.watch):
        await asyncio.sleep(0)
    assert not caller.watched.is_set()


async def test_what_comes_later_ends_with_the_body() -> None:
    caller = Caller()
    async with Later(0.001, caller.watch):
        await caller.watched.wait()
    await caller.end()
    assert caller.let_go.is_set()


async def test_an_error_of_what_comes_later_cancels_the_body() -> None:
    caller = Caller()
    caller.gone.set()
    with pytest.raises(Left):
        async with Later(0.001, caller.watch):
            await asyncio.Event().wait()
