"""What a test may say about memory: how its peak grows, counted by the interpreter and not by the system."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def memory_of(work: Callable[[], object]) -> int:
    """Return the most bytes that some work had in memory beyond what there was before it."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
