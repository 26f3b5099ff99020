"""How many trials are in flight: fixed, or adapted to what the server bears (H-123). Pure; the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass

COOL_DOWN_S = 15.0


@dataclass(slots=True)
class Limiter:
    """The present limit.

    An overload episode multiplies it by 0.8, once in a cool-down; a clean round of one full window adds 5 %.

    Args:
        current: limit at the start.
        low: smallest limit.
        high: largest limit.
        adapts: false keeps the limit where it is.
    """

    current: int = 20
    low: int = 10
    high: int = 100
    adapts: bool = True
    _clean: int = 0
    _quiet_until: float = 0.0

    def overloaded(self, now: float) -> bool:
        """Take note of a 429, or a 503 with retry-after, and say whether the limit changed."""
        self._clean = 0
        if not self.adapts or now < self._quiet_until:
            return False
        self._quiet_until = now + COOL_DOWN_S
        before, self.current = self.current, max(self.low, int(self.current * 0.8))
        return self.current != before

    def succeeded(self, now: float) -> bool:
        """Take note of an answer and say whether the limit changed."""
        self._clean += 1
        if not self.adapts or self._clean < self.current or now < self._quiet_until:
            return False
        self._clean = 0
        before, self.current = self.current, min(self.high, self.current + max(1, round(self.current * 0.05)))
        return self.current != before


def fixed(limit: int) -> Limiter:
    """Return a limit that never changes."""
    return Limiter(limit, limit, limit, adapts=False)
