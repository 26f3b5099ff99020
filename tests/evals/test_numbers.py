from __future__ import annotations

import pytest

from evals.numbers import Numbers


@pytest.mark.parametrize("count", [0, 1, 9_999])
def test_numbers_come_in_order(count: int) -> None:
    values = [((7919 * number) % 10_007) / 3 - 1000 for number in range(count)]
    numbers = Numbers()
    for value in values:
        numbers.append(value)
    assert len(numbers) == count
    assert list(numbers.ascending()) == sorted(values)
    assert list(numbers.ascending()) == sorted(values)
