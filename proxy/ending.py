"""How a process ends while threads are still busy with what nobody waits for any more."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor


class Threads(ThreadPoolExecutor):
    """Threads whose end nobody waits for, the loop neither."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and leave alone what runs."""
        super().shutdown(wait=False, cancel_futures=True)


def take_fresh_threads() -> None:
    """Give the running loop threads for its end: those it has may all be busy with long texts."""
    asyncio.get_running_loop().set_default_executor(Threads(thread_name_prefix="ending"))


def end_with(code: int) -> int:
    """Return an exit code, or end the process with it where the interpreter would wait for threads.

    Everything has been flushed and closed. What a judge in a thread would still find interests nobody.
    """
    if all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()):
        return code
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
