import asyncio
from functools import partial

from supervisors.transport.batch import WriteBatch, batch_of


class Clock(asyncio.SelectorEventLoop):
    """A loop whose clock moves when told."""

    now = 1.0

    def time(self) -> float:
        return self.now


def test_an_idle_loop_writes_at_once() -> None:
    loop = Clock()
    batch = WriteBatch(loop)
    waits: list[bool] = []
    for tick in range(20):
        loop.now = float(tick)
        waits.append(batch.waits())
    loop.close()
    assert waits == [False] * 20


def test_many_writes_in_one_tick_wait_until_a_turn_has_only_one() -> None:  # PF-07
    loop = Clock()
    batch = WriteBatch(loop)
    flushed: list[int] = []

    async def turn(count: int) -> list[bool]:
        waited = [batch.waits() for _ in range(count)]
        for number, waits in enumerate(waited):
            if waits:
                batch.defer(partial(flushed.append, number))
        await asyncio.sleep(0)
        return waited

    async def run() -> list[list[bool]]:
        found = [await turn(count) for count in (5, 2, 1)]
        loop.now = 2.0
        return [*found, await turn(2)]

    found = loop.run_until_complete(run())
    loop.close()
    assert found == [[False, False, False, True, True], [True, True], [True], [False, False]]
    assert flushed == [3, 4, 0, 1, 0]


def test_connections_of_one_loop_share_a_batch() -> None:
    one, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    assert batch_of(one) is batch_of(one)
    assert batch_of(one) is not batch_of(other)
    one.close()
    other.close()
