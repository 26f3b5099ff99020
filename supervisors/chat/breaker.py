"""A circuit breaker for one remote dependency (G-47)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class BreakerState(IntEnum):
    """The values of the metric ``guardrail_breaker_state``."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Stop calling a dependency after failures in a row; let one probe through when the pause is over.

    Every `allow` that said yes is followed by exactly one of `succeeded`, `failed` and `abandoned`.

    Args:
        clock: monotonic seconds.
        failures: in a row, after which it opens.
        open_s: pause before the probe.
    """

    def __init__(self, clock: Callable[[], float], failures: int = 5, open_s: float = 60.0) -> None:
        self._clock = clock
        self._limit = failures
        self._open_s = open_s
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        """Return the state now."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        paused = self._clock() - self._opened_at < self._open_s
        return BreakerState.OPEN if paused and not self._probing else BreakerState.HALF_OPEN

    @property
    def wait_s(self) -> float:
        """Return the seconds until a probe may be made."""
        return 0.0 if self._opened_at is None else max(0.0, self._opened_at + self._open_s - self._clock())

    def allow(self) -> bool:
        """Say whether a call may be made now; in the half-open state only one at a time."""
        match self.state:
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                if self._probing:
                    return False
                self._probing = True
                return True

    def succeeded(self) -> None:
        """Close: the dependency answered."""
        self._failures = 0
        self._opened_at = None
        self._probing = False

    def failed(self) -> None:
        """Count a failure; open when it is one too many, or when it was the probe."""
        self._failures += 1
        late = self._opened_at is not None and not self._probing  # let through before it opened
        if not late and (self._probing or self._failures >= self._limit):
            self._opened_at = self._clock()
        self._probing = False

    def abandoned(self) -> None:
        """Note that a call was cancelled: it says nothing about the dependency."""
        self._probing = False
