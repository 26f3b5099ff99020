"""Bytes that lie in a file which ends with the process, so that memory does not grow with a run.

The file has no name and lies where `tempfile` puts such files (`$TMPDIR`); what fits a buffer never reaches it.
"""

from __future__ import annotations

import os
import tempfile
import weakref

from supervisors.errors import StoreError

BUFFER_BYTES = 1 << 15
_WHERE = "set TMPDIR to a folder with more space"


class Spill:
    """Bytes that are added at the end and read from anywhere."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._stored = 0
        self._fd = -1

    def __len__(self) -> int:
        return self._stored + len(self._tail)

    def append(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            StoreError: the disk does not take them.
        """
        self._tail += data
        if len(self._tail) >= BUFFER_BYTES:
            self._store()

    def read(self, start: int, size: int) -> bytes:
        """Return bytes, fewer when there are no more.

        Raises:
            StoreError: the disk does not give them.
        """
        if start >= self._stored:
            start -= self._stored
            return bytes(self._tail[start : start + size])
        try:
            found = os.pread(self._fd, min(size, self._stored - start), start)
        except OSError as error:
            msg = f"a temporary file cannot be read: {error.strerror}"
            raise StoreError(msg) from error
        return found if len(found) == size else found + bytes(self._tail[: size - len(found)])

    def _store(self) -> None:
        try:
            if self._fd < 0:
                with tempfile.TemporaryFile(buffering=0) as file:
                    self._fd = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._fd)
            left = memoryview(self._tail)
            while left:
                written = os.pwrite(self._fd, left, self._stored)
                self._stored += written
                left = left[written:]
        except OSError as error:
            msg = f"a temporary file in {tempfile.gettempdir()} cannot be written: {error.strerror}; {_WHERE}"
            raise StoreError(msg) from error
        self._tail = bytearray()
