from __future__ import annotations

import pytest

from evals.numbers import Numbers
from evals.spill import Spill


@pytest.mark.parametrize("count", [0, 1, 9_999])
def test_numbers_come_in_order(count: int) -> None:
    values = [((7919 * number) % 10_007) / 3 - 1000 for number in range(count)]
    numbers = Numbers()
    for value in values:
        numbers.append(value)
    assert len(numbers) == count
    assert list(numbers.ascending()) == sorted(values)
    assert list(numbers.ascending()) == sorted(values)


def test_numbers_that_share_a_file_stay_apart() -> None:
    spill = Spill()
    one, two = Numbers(spill), Numbers(spill)
    for number in range(20_000):
        one.append(-number)
        two.append(number / 3)
    assert list(one.ascending()) == [-float(number) for number in reversed(range(20_000))]
    assert list(two.ascending()) == [number / 3 for number in range(20_000)]
