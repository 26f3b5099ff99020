"""The exit codes of the command, the only ones it uses (H-101)."""

from __future__ import annotations

from enum import IntEnum

from supervisors import unread


class Exit(IntEnum):
    """What a caller such as a CI job learns from the process."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DRIFT = 3
    GATE_FAILED = 10
    INCONCLUSIVE = 11
    INCOMPLETE = 12
    INTERRUPTED = 130
    UNREAD = unread.UNREAD
