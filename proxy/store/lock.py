"""Who else has the journal open: a lock on a file beside it, which the kernel releases when its holder dies."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from supervisors.errors import StoreError

if sys.platform != "win32":
    import fcntl


class Lock:
    """Held, together with others, as long as the journal is open.

    Args:
        path: of the journal.

    Attributes:
        alone: nobody else had it open: whoever wrote to the journal before is gone.

    Raises:
        StoreError: the file beside the journal cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}-lock")
        try:
            self._file, self.alone = _take(self._path)
        except OSError as error:
            why = f"the lock beside it: {error.strerror}"
            if not path.parent.is_dir():
                why = f"the folder {path.parent} does not exist; make it before the start"
            msg = f"cannot open the journal {path}: {why}"
            raise StoreError(msg) from error

    def close(self) -> None:
        """Let go; the last one takes the file away."""
        if _take_alone(self._file):
            with suppress(OSError):
                self._path.unlink()
        os.close(self._file)


def _take(path: Path) -> tuple[int, bool]:
    """Return the open file, held with others, and whether nobody else held it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        alone = _take_alone(file)
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_SH)
        if _is_there(file, path):
            return file, alone
        os.close(file)  # the last holder took it away in between


def _take_alone(file: int) -> bool:
    if sys.platform == "win32":
        return False  # nobody can tell there, so nobody is alone
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(file: int, path: Path) -> bool:
    try:
        return path.stat().st_ino == os.fstat(file).st_ino
    except FileNotFoundError:
        return False
