"""How a process ends while threads are busy."""

from __future__ import annotations

import asyncio
import threading

from proxy.ending import Threads, take_fresh_threads
from tests.e2e.processes import run_python
from tests.timing import HANGS_S, PATIENCE_S

BUSY = f"""
import sys, threading, time
from proxy.ending import end_with
threading.Thread(target=time.sleep, args=({HANGS_S},)).start()
sys.stdout.write("said")
sys.exit(end_with(7))
"""


async def test_a_busy_thread_does_not_keep_the_process() -> None:  # O-09
    ended = await run_python("-c", BUSY)
    assert (ended.code, ended.out) == (7, "said")


async def test_without_one_the_code_is_returned() -> None:
    ended = await run_python("-c", "import sys; from proxy.ending import end_with; sys.exit(end_with(3) + 1)")
    assert ended.code == 4


async def test_fresh_threads_do_not_wait_behind_busy_ones_and_nobody_for_them() -> None:
    free = threading.Event()
    busy = Threads(1)
    asyncio.get_running_loop().set_default_executor(busy)
    working = asyncio.get_running_loop().run_in_executor(None, free.wait, PATIENCE_S)
    take_fresh_threads()
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.to_thread(lambda: 3) == 3
    busy.shutdown()
    assert not working.done()
    free.set()
    assert await working
