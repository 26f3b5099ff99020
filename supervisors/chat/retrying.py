"""Try again with tenacity, at no cost for the call that succeeds at once. Used here and by the proxy's upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    on: type[E],
    wait_s: Callable[[E, int], float],
    enough: Callable[[E, int], bool],
    until: float,
) -> T:
    """Call `attempt` until it succeeds, raises something else than `on`, or must not be tried again.

    Args:
        attempt: one try.
        on: the error after which another try may help.
        wait_s: seconds to wait after this error of this attempt (counted from 1).
        enough: whether this attempt was the last one allowed.
        until: loop time; no wait is begun that would end after it.

    Raises:
        E: the error of the last attempt.
    """
    try:
        return await attempt()  # tenacity costs more than the request itself: not before it is needed
    except on as error:
        return await retry_after(error, attempt, on, wait_s, enough, until)


async def retry_after(
    failed: E,
    attempt: Callable[[], Awaitable[T]],
    on: type[E],
    wait_s: Callable[[E, int], float],
    enough: Callable[[E, int], bool],
    until: float,
) -> T:
    """Go on after a first attempt that has failed; the rest as for `retry`."""
    first: E | None = failed
    loop = asyncio.get_running_loop()

    async def once() -> T:
        nonlocal first
        if first is not None:
            error, first = first, None
            raise error
        return await attempt()

    def error_of(state: RetryCallState) -> E:
        error = state.outcome.exception() if state.outcome is not None else None
        assert isinstance(error, on)  # noqa: S101 - tenacity asks only after `retry` said so
        return error

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(on),
        wait=lambda state: wait_s(error_of(state), state.attempt_number),
        stop=lambda state: enough(error_of(state), state.attempt_number) or loop.time() + state.upcoming_sleep >= until,
        sleep=asyncio.sleep,
        reraise=True,
    )
    return await retrying(once)
