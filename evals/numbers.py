"""Many numbers of which an order is wanted in the end, in a file until then."""

from __future__ import annotations

from array import array

import numpy as np

from evals.spill import BUFFER_BYTES, Spill


class Numbers:
    """Numbers that are put in order in the end.

    Args:
        spill: where they lie; several may share it, so that there is one file for all. None makes one.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        self._tail = array("d")
        self._spill = Spill() if spill is None else spill
        self._parts = array("Q")

    def __len__(self) -> int:
        return len(self._parts) * BUFFER_BYTES // self._tail.itemsize + len(self._tail)

    def append(self, value: float) -> None:
        """Add a number."""
        self._tail.append(value)
        if len(self._tail) * self._tail.itemsize >= BUFFER_BYTES:
            self._parts.append(len(self._spill))
            self._spill.append(self._tail.tobytes())
            self._tail = array("d")

    def ascending(self) -> array[float]:
        """Return the numbers in order, all of them in memory: eight bytes each, as long as the caller keeps them."""
        found = array("d")
        for start in self._parts:
            found.frombytes(self._spill.read(start, BUFFER_BYTES))
        found.extend(self._tail)
        if found:
            np.frombuffer(found, dtype=np.float64).sort()
        return found
