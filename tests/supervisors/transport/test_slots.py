"""Places are given in the order they are asked for, and none is lost to a cancellation."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from supervisors.transport.slots import Slots


async def test_free_places_are_taken_at_once_and_no_others() -> None:
    slots = Slots(2)
    assert [slots.take_free() for _ in range(3)] == [True, True, False]
    slots.give()
    assert slots.take_free()


async def test_who_waits_is_served_in_order_before_anybody_new() -> None:
    slots, served = Slots(1), list[int]()
    await slots.take()

    async def wait(number: int) -> None:
        await slots.take()
        served.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(wait(number))
        await asyncio.sleep(0)
        for _ in range(3):
            slots.give()
            assert not slots.take_free()  # it is meant for the next one who waits
        await asyncio.sleep(0)
    assert served == [0, 1, 2]


@pytest.mark.parametrize("handed_over", [False, True])
async def test_a_place_of_somebody_cancelled_goes_to_the_next(handed_over: bool) -> None:
    slots = Slots(1)
    await slots.take()
    gone = asyncio.ensure_future(slots.take())
    stays = asyncio.ensure_future(slots.take())
    await asyncio.sleep(0)
    if handed_over:
        slots.give()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    if not handed_over:
        slots.give()
    await stays
    assert not slots.take_free()
    slots.give()
    assert slots.take_free()


async def test_places_stay_the_same_number_whatever_is_cancelled() -> None:
    slots, random, inside = Slots(3), Random(5), 0  # noqa: S311 - an order, no keys
    most = 0

    async def work() -> None:
        nonlocal inside, most
        await slots.take()
        try:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
        finally:
            inside -= 1
            slots.give()

    tasks = [asyncio.ensure_future(work()) for _ in range(200)]
    for _ in range(400):
        await asyncio.sleep(0)
        random.choice(tasks).cancel()
    await asyncio.wait(tasks)
    assert (most, inside) == (3, 0)
    assert [slots.take_free() for _ in range(4)] == [True, True, True, False]
