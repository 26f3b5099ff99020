"""Supervisors with a bounded number of places (G-46)."""

from __future__ import annotations

import asyncio
import json

import pytest

from proxy.bounded import Bounded, bound_supervisors
from proxy.config import parse_config
from proxy.limits import Places
from supervisors.ask import ask, is_local, stream_capability
from supervisors.errors import ConfigError
from supervisors.rules import Rules
from supervisors.testing import context, exchange
from supervisors.types import Cause, Context, Exchange, Label, Verdict, safe
from tests.timing import PATIENCE_S


class Held:
    """Answers when it is let go, and counts how many ask at a time."""

    local = True
    capability = "final"

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.go.wait()
        self.inside -= 1
        return safe()


async def until(places: Places, *, taken: int, waiting: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (places.taken, places.waiting) != (taken, waiting):  # noqa: ASYNC110 - one turn of the loop at a time
            await asyncio.sleep(0)


async def test_further_ones_wait_and_what_finds_the_queue_full_is_unknown_with_its_own_cause() -> None:
    held, places = Held(), Places(2, 3)
    bounded = Bounded(held, places)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask("s", bounded, exchange("x"), context())) for _ in range(5)]
        await until(places, taken=2, waiting=3)
        refused = (await ask("s", bounded, exchange("x"), context())).verdict
        assert (refused.label, refused.cause, refused.detail) == (Label.UNKNOWN, Cause.OVERLOADED, "max_concurrency")
        held.go.set()
    assert {task.result().verdict.label for task in tasks} == {Label.SAFE}
    assert (held.most, places.taken, places.waiting) == (2, 0, 0)


async def test_whoever_waits_keeps_its_own_deadline_and_gives_its_place_back() -> None:
    held, places = Held(), Places(1, 5)
    bounded = Bounded(held, places)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(ask("s", bounded, exchange("x"), context()))
        await until(places, taken=1, waiting=0)
        late = await ask("s", bounded, exchange("x"), context(seconds=0.05))
        assert (late.verdict.cause, places.taken, places.waiting) == (Cause.TIMEOUT, 1, 0)
        first.cancel()
    assert (places.taken, places.waiting) == (0, 0)


async def test_a_supervisor_that_raises_gives_its_place_back() -> None:
    class Broken:
        async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
            raise RuntimeError

    places = Places(1, 0)
    for _ in range(3):
        assert (await ask("s", Bounded(Broken(), places), exchange("x"), context())).verdict.cause is Cause.ERROR
    assert places.taken == 0


def test_in_everything_else_it_is_the_supervisor_itself() -> None:
    bounded = Bounded(Held(), Places(1, 1))
    assert stream_capability(bounded) == "final"
    assert not is_local(bounded)  # it may wait, so it is asked with a deadline
    assert Bounded(Rules(keywords=("violet",)), Places(1, 1)).keywords == ("violet",)


def test_without_numbers_nothing_is_wrapped() -> None:
    plain = {"a": Held(), "b": Held()}
    assert bound_supervisors(plain, {}, 9) is plain
    bounded = bound_supervisors(plain, {"b": 2}, 9)
    assert bounded["a"] is plain["a"]
    assert isinstance(bounded["b"], Bounded)


def written(**options: object) -> str:
    entry = {"use": "rules", "keywords": ["violet"], **options}
    return json.dumps({"upstreams": {"main": {"base_url": "http://127.0.0.1:9/v1"}}, "supervisors": {"words": entry}})


def test_the_number_stands_in_the_entry_of_the_supervisor() -> None:
    assert parse_config(written(max_concurrency=3)).places == {"words": 3}
    with pytest.raises(ConfigError, match=r"supervisors\.words\.max_concurrency: .*greater than or equal to 1"):
        parse_config(written(max_concurrency=0))


def test_a_number_is_given_once_and_to_a_supervisor_that_exists() -> None:
    tree = json.loads(written(max_concurrency=3))
    with pytest.raises(ConfigError, match="give 'max_concurrency' in the entry or under 'places', not both"):
        parse_config(json.dumps({**tree, "places": {"words": 2}}))
    with pytest.raises(ConfigError, match=r"places\.nobody: unknown supervisor"):
        parse_config(json.dumps({**tree, "places": {"nobody": 2}}))
