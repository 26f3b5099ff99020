"""Many values of which most are equal: each different one is kept once, with its places or its count."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")
H = TypeVar("H", bound=Hashable)
_LARGEST = 255


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


class Picked(Sequence[T]):
    """What is at some places, fetched when it is asked for.

    Args:
        get: gives what is at a place.
        places: in the order wanted.
    """

    def __init__(self, get: Callable[[int], T], places: Sequence[int]) -> None:
        self._get = get
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[T]:
        return map(self._get, self._places)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return what is at one of the places, or at several."""
        if isinstance(index, slice):
            return Picked(self._get, self._places[index])
        return self._get(self._places[index])


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


class Places(Sequence[int]):
    """Ascending whole numbers, kept as runs of those that follow each other.

    Args:
        places: read once.
    """

    def __init__(self, places: Iterable[int] = ()) -> None:
        self._starts = array("Q")
        self._counts = array("Q")  # of the runs before
        self._count = 0
        self._next = -1
        for place in places:
            self.append(place)

    def append(self, place: int) -> None:
        """Add a place behind the others."""
        if place != self._next:
            self._starts.append(place)
            self._counts.append(self._count)
        self._next = place + 1
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        ends = chain(islice(self._counts, 1, None), (self._count,))
        runs = zip(self._starts, self._counts, ends, strict=False)  # without any, there is one end too many
        return chain.from_iterable(range(start, start + end - first) for start, first, end in runs)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Return one place, or those of several as others."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._count))]
        at = range(self._count)[index]
        run = bisect_right(self._counts, at) - 1
        return self._starts[run] + at - self._counts[run]


class Codes:
    """Small whole numbers from 0 by place, one byte each until one of them is larger."""

    def __init__(self) -> None:
        self._codes = array("B")

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, place: int) -> int:
        return self._codes[place] if place < len(self._codes) else 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._codes)

    def __setitem__(self, place: int, code: int) -> None:
        if place >= len(self._codes):
            self._codes.extend([0] * (place + 1 - len(self._codes)))
        if code > _LARGEST and self._codes.itemsize == 1:
            self._codes = array("I", self._codes)
        self._codes[place] = code
