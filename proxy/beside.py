"""Run something beside the work of a request, for as long as the work lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(*background: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run the coroutines while the body runs, and cancel them when it ends.

    An exception of one of them cancels the body, and comes out as itself rather than in a group; so does an
    exception of the body.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in background]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_leaf(errors) from None


def first_leaf(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception inside the group."""
    found = errors.exceptions[0]
    if not isinstance(found, BaseExceptionGroup):
        return found
    inner: BaseExceptionGroup[BaseException] = found  # pyright: ignore[reportUnknownVariableType] # isinstance widens
    return first_leaf(inner)
