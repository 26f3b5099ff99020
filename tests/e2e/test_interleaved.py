"""Fifty streams at once over all routes, each with a word of its own: nothing of one is in another (S-05, S-01)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import httpx

from proxy.matrix.judging import joined_texts
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.e2e.families import FAMILIES, answer_to, families_tree
from tests.e2e.serving import Serving, policy, serving

STREAMS = 50
WORDS = [f"w{number:02d}x{number * 7919 % 10007}" for number in range(STREAMS)]
BAD = [f"{word} lamp" for word in WORDS[::5]]
"""One stream in five says a phrase that is looked for, across deltas."""


def says(number: int) -> str:
    filler = f"This is what stream {WORDS[number]} has to say. " * 3
    return f"{filler} {WORDS[number]} lamp and more. " if number % 5 == 0 else f"{filler} {WORDS[number]} and more. "


def answer(received: Received) -> Answer:
    """Say what the asking stream shall get, in pieces of a few characters, unevenly paced."""
    number = next(number for number, word in enumerate(WORDS) if word.encode() in received.body)
    text = says(number)
    size = 3 + number % 5
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    paced = random.Random(number).choice([0.0, 0.001, 0.002])  # noqa: S311 - a made-up rhythm
    return answer_to(received, *pieces, frame_delay_s=paced)


async def ask(proxy: Serving, number: int) -> httpx.Response:
    family = FAMILIES[number % len(FAMILIES)]
    return await proxy.client.post(family.route, json=family.body(f"hello {WORDS[number]}", stream=True))


async def test_nothing_of_one_stream_is_in_another(tmp_path: Path) -> None:  # S-05
    words = {"words": {"use": "rules", "keywords": BAD}}
    stream = {"window_chars": 24, "overlap_chars": 64}
    rules = policy({"forced": ["words"]}, {"forced": ["words"], "stream": stream})
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, supervisors=words, policies=rules)) as proxy:
        up.script(*[answer] * STREAMS)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(proxy, number)) for number in range(STREAMS)]
        for number, task in enumerate(tasks):
            joined = "\n".join(joined_texts(task.result().content).values())
            others = [word for other, word in enumerate(WORDS) if other != number and word in joined]
            assert WORDS[number] in joined
            assert (task.result().status_code, others) == (200, []), number
            assert ("content policy" in joined) is (number % 5 == 0), number
            assert " lamp" not in joined
        records = await proxy.wait_records(STREAMS)
        assert sorted([record["outcome"] for record in records]) == ["answered"] * 40 + ["blocked_output"] * 10
        assert proxy.app.gateway.in_flight == 0
