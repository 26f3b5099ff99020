"""Rates and numbers of callers, and bounded queues (X-07, G-46)."""

from __future__ import annotations

import asyncio

import pytest

from proxy.limits import Allowance, Places
from proxy.wire.errors import RequestError
from tests.timing import PATIENCE_S


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_minutes_worth_may_come_at_once_and_then_one_a_share() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=3, clock=clock)
    for _ in range(3):
        allowance.enter()
    with pytest.raises(RequestError, match="3 requests a minute") as caught:
        allowance.enter()
    assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
    assert caught.value.headers == {"retry-after": "20"}
    clock.now = 19.9
    with pytest.raises(RequestError):
        allowance.enter()
    clock.now = 20.1
    allowance.enter()


def test_a_silent_hour_saves_up_no_more_than_a_minute() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=2, clock=clock)
    clock.now = 3600.0
    allowance.enter()
    allowance.enter()
    with pytest.raises(RequestError):
        allowance.enter()


def test_a_place_that_is_given_back_can_be_taken_again() -> None:
    allowance = Allowance(at_once=1)
    allowance.enter()
    with pytest.raises(RequestError, match="1 requests under way"):
        allowance.enter()
    allowance.leave()
    allowance.enter()


async def test_those_beyond_the_queue_are_turned_away_and_the_others_come_in_turn() -> None:  # G-46, F-11
    places, order = Places(1, 2), list[int]()
    await places.take()

    async def come(number: int) -> None:
        await places.take()
        order.append(number)
        places.give()

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(come(number))
            await asyncio.sleep(0)
        with pytest.raises(RequestError) as caught:
            await places.take()
        assert (caught.value.code, caught.value.headers["retry-after"]) == ("overloaded", "30")
        places.give()
    assert (order, places.taken, places.waiting) == ([0, 1], 0, 0)


async def test_one_that_leaves_the_queue_leaves_no_trace() -> None:
    places = Places(1, 1)
    await places.take()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(places.take())
        await asyncio.sleep(0)
        waiting.cancel()
    assert (places.taken, places.waiting) == (1, 0)
    places.give()
    await places.take()
