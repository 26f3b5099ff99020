"""How a command ends when whoever reads its output, such as `head`, has read enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

UNREAD = 141
"""What a shell says of a process that SIGPIPE ended."""


def end_unread(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, `UNREAD` when its output was not read to the end."""
    code = 0
    try:
        try:
            code = run()
        finally:
            sys.stdout.flush()
    except* BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = UNREAD
    return code
