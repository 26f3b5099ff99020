"""Several questions about one exchange: a few at a time, answered in order, and never later than the deadline."""

from __future__ import annotations

import asyncio

import pytest

from supervisors.asking import ask_each, time_for_calls


async def test_answers_come_in_the_order_of_the_questions_and_a_few_at_a_time() -> None:
    running: list[int] = []
    most = 0

    async def ask(number: int) -> int:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        for _ in range(10 - number):  # the last one is the quickest
            await asyncio.sleep(0)
        running.remove(number)
        return number * 10

    answers = await ask_each(range(6), ask, lambda _: -1, seconds=10, parallel=2)
    assert answers == [0, 10, 20, 30, 40, 50]
    assert most == 2


async def test_a_question_without_an_answer_in_time_is_late_and_keeps_the_others() -> None:  # G-45
    async def ask(question: str) -> str:
        if question == "slow":
            await asyncio.Event().wait()
        return "answered"

    answers = await ask_each(["quick", "slow"], ask, lambda question: f"{question} is late", seconds=0.5, parallel=2)
    assert answers == ["answered", "slow is late"]


@pytest.mark.parametrize("remaining_s", [0.01, 0.1, 1.0, 60.0])
def test_time_is_left_to_say_what_was_found(remaining_s: float) -> None:  # G-45
    assert 0.75 * remaining_s <= time_for_calls(remaining_s) < remaining_s
