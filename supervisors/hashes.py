"""SHA-256 of large files, remembered in a side file, so that a restart need not read gigabytes again (PL-04).

A remembered hash counts for one identity of a file: path, device, inode, size, and the times of its last change of
content and of metadata. Setting the time of content back changes the other, so it does not help to hide a change. Who
can write the side file can also write the weights: it saves time, it guards nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

log = logging.getLogger(__name__)

_CHUNK = 1 << 20
_VERSION = 1
_SETTLED_NS = 2_000_000_000
"""A file that changed this lately may change again within the same tick of the file system's clock."""

Identity = list[int]


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Hashes:
    """Hashes of files, read from and kept in a side file.

    Args:
        side: the side file; one that is missing or cannot be read is empty, one that cannot be written is left alone.
    """

    def __init__(self, side: Path) -> None:
        self._side = side
        self._known: dict[str, tuple[Identity, str]] = _read(side)
        self._new = False

    def digest(self, file: Path) -> str:
        """Return the SHA-256 of a file in hex; the file is read unless its identity is known."""
        name, before = str(file.resolve()), _identify(file)
        known = self._known.get(name)
        if known is not None and known[0] == before:
            return known[1]
        found = hash_file(file)
        after = _identify(file)
        if before == after and time.time_ns() - max(after[3:]) > _SETTLED_NS:
            self._known[name] = (after, found)
            self._new = True
        return found

    def save(self) -> None:
        """Keep what was learned; files that are gone are forgotten."""
        if not self._new:
            return
        kept = {name: [*identity, found] for name, (identity, found) in self._known.items() if Path(name).is_file()}
        text = json.dumps({"version": _VERSION, "files": kept}, indent=0, sort_keys=True)
        try:
            _replace(self._side, text)
        except OSError as error:  # a read-only folder: the next start hashes again
            log.debug("hashes are not kept", extra={"file": str(self._side), "error": type(error).__name__})
        self._new = False


def _identify(file: Path) -> Identity:
    """Return device, inode, size, and the two times in nanoseconds; the times are last."""
    found = file.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read(side: Path) -> dict[str, tuple[Identity, str]]:
    try:
        content: object = json.loads(side.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    files = _member(content, "files") if _member(content, "version") == _VERSION else None
    if not isinstance(files, dict):
        return {}
    entries = cast("Mapping[str, object]", files)
    return {name: entry for name, value in entries.items() if (entry := _read_entry(value)) is not None}


def _read_entry(value: object) -> tuple[Identity, str] | None:
    parts = cast("list[object]", value) if isinstance(value, list) else []
    numbers = [part for part in parts[:-1] if isinstance(part, int)]
    if len(parts) != 6 or len(numbers) != 5 or not isinstance(parts[-1], str):
        return None
    return numbers, parts[-1]


def _member(content: object, name: str) -> object:
    return cast("Mapping[str, object]", content).get(name) if isinstance(content, dict) else None


def _replace(file: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old content or the new."""
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
