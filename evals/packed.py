"""Many values of which most are equal: each different one is kept once, with its places or its count."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")
H = TypeVar("H", bound=Hashable)


class Bag(Iterable[T]):
    """Values with how often each is there; equal ones may come as several.

    Args:
        counts: kept as they are.
    """

    def __init__(self, counts: Iterable[tuple[T, int]]) -> None:
        self._values: list[T] = []
        self._times = array("I")
        for value, times in counts:
            self._values.append(value)
            self._times.append(times)

    def counts(self) -> Iterator[tuple[T, int]]:
        """Yield the values with how often they are there."""
        return zip(self._values, self._times, strict=True)

    def map(self, make: Callable[[T], U]) -> Bag[U]:
        """Return what is made of each value, as often."""
        return Bag((make(value), times) for value, times in self.counts())

    def __len__(self) -> int:
        return sum(self._times)

    def __iter__(self) -> Iterator[T]:
        for value, times in self.counts():
            yield from repeat(value, times)


def count_equal(values: Iterable[T]) -> Iterator[tuple[T, int]]:
    """Yield values with how often they are there: of a bag each once, else as they come."""
    return values.counts() if isinstance(values, Bag) else ((value, 1) for value in values)


class Packed(Sequence[H]):
    """Values in the order they came.

    Args:
        values: what is kept; read once.
    """

    def __init__(self, values: Iterable[H] = ()) -> None:
        self._known: dict[H, int] = {}
        self._codes = array("I")
        for value in values:
            self.append(value)

    def append(self, value: H) -> None:
        """Add a value at the end."""
        self._codes.append(self._known.setdefault(value, len(self._known)))

    def __len__(self) -> int:
        return len(self._codes)

    def __iter__(self) -> Iterator[H]:
        values = list(self._known)
        return map(values.__getitem__, self._codes)

    @overload
    def __getitem__(self, index: int) -> H: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[H]: ...
    def __getitem__(self, index: int | slice) -> H | Sequence[H]:
        """Return one value, or those of several places as a list."""
        values = list(self._known)
        if isinstance(index, slice):
            return [values[code] for code in self._codes[index]]
        return values[self._codes[index]]
