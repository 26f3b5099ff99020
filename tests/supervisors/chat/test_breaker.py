"""G-47: the circuit breaker, with a clock of the test's own."""

from __future__ import annotations

from supervisors.chat import Breaker, BreakerState


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock, failures=5, open_s=60.0)
    for _ in range(5):
        assert breaker.allow()
        breaker.failed()
    return breaker


def test_it_opens_after_five_failures_in_a_row() -> None:
    breaker = opened(Clock())
    assert breaker.state is BreakerState.OPEN
    assert not breaker.allow()


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(Clock())
    for _ in range(4):
        breaker.failed()
    breaker.succeeded()
    for _ in range(4):
        breaker.failed()
    assert breaker.state is BreakerState.CLOSED


def test_after_the_pause_one_probe_is_let_through() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 59.9
    assert not breaker.allow()
    clock.now = 60.0
    assert breaker.state is BreakerState.HALF_OPEN
    assert [breaker.allow(), breaker.allow(), breaker.allow()] == [True, False, False]


def test_a_probe_that_succeeds_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 61.0
    assert breaker.allow()
    breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED


def test_a_probe_that_fails_opens_it_for_another_pause() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 61.0
    assert breaker.allow()
    breaker.failed()
    clock.now = 120.0
    assert breaker.state is BreakerState.OPEN
    clock.now = 121.0
    assert breaker.allow()


def test_a_probe_that_is_cancelled_makes_room_for_the_next() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 61.0
    assert breaker.allow()
    breaker.abandoned()
    assert breaker.allow()


def test_calls_that_were_under_way_when_it_opened_do_not_prolong_the_pause_of_a_probe() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 30.0
    breaker.failed()  # a late one, let through before it opened
    clock.now = 60.0
    assert breaker.allow()
