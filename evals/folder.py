"""The folder of a run: its files, its lock, its texts (harness §3)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from evals.journal import JsonObject, canonical, parse_object
from evals.types import sha256_text
from supervisors.errors import StoreError


def make_run_id(now: datetime | None = None) -> str:
    """Return UTC time to the second and six random base32 characters, so that two starts never share a name."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{base64.b32encode(secrets.token_bytes(5)).decode().lower()[:6]}"


class RunFolder:
    """The paths of one run and the small files beside its journal.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "manifest.json"
        self.plan = path / "plan.jsonl"
        self.journal = path / "journal.jsonl"
        self.scores = path / "scores"
        self.summary = path / "summary.json"
        self.report = path / "report"
        self.comparison = path / "comparison.json"
        self.progress = path / "progress.json"
        self.published = path / "published.json"
        self.proxy_journal = path / "proxy.sqlite3"
        self._texts = path / "text"

    def make(self) -> None:
        """Make the folder, for its owner only.

        Raises:
            StoreError: it cannot be made.
        """
        make_folder(self.path)

    def text_path(self, sha256: str) -> Path:
        """Return where the text of this hash lies."""
        return self._texts / sha256[:2] / f"{sha256}.json"

    def keep_text(self, text: str) -> str:
        """Store a text by its hash and return the hash; a text already there is not written again.

        Raises:
            StoreError: the disk does not take it.
        """
        sha256 = sha256_text(text)
        path = self.text_path(sha256)
        if not path.exists():
            make_folder(path.parent)
            write_file(path, json.dumps({"text": text}, ensure_ascii=True))
        return sha256

    def read_text(self, sha256: str) -> str | None:
        """Return a stored text, None when it is not there (a run with hashes only) or is not the hashed one."""
        try:
            body = parse_object(self.text_path(sha256).read_bytes())
        except OSError:
            return None
        text = body.get("text") if body else None
        return text if isinstance(text, str) and sha256_text(text) == sha256 else None

    @contextmanager
    def locked(self) -> Generator[str | None]:
        """Keep other processes out while the body runs (H-112).

        Yields:
            a note when the lock of a dead process was taken over.

        Raises:
            StoreError: another process holds the run.
        """
        path = self.path / "lock"
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            held = file.read().strip()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                msg = f"{self.path} is in use by process {held or '?'}; stop it, or wait for it to end"
                raise StoreError(msg) from error
            here = socket.gethostname()
            if held and held.partition("@")[2] != here:
                msg = f"{self.path} was locked by {held} on another host; if it has ended, remove {path}"
                raise StoreError(msg)
            file.truncate(0)
            file.write(f"{os.getpid()}@{here}\n")
            file.flush()
            try:
                yield f"the lock of process {held}, which has ended, was taken over" if held else None
            finally:
                file.truncate(0)


def make_folder(path: Path) -> None:
    """Make a folder, for its owner only.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{path}: cannot be made: {error.strerror}"
        raise StoreError(msg) from error


def write_file(path: Path, text: str) -> None:
    """Write a file at once, for its owner only: a reader sees the old one or the new one, and after a crash too.

    Raises:
        StoreError: the disk does not take it.
    """
    _write(path, (text,))


def write_lines(path: Path, rows: Iterable[JsonObject]) -> None:
    """Write rows as JSON lines, as `write_file` does, without holding them all.

    Raises:
        StoreError: the disk does not take them.
    """
    _write(path, each_line(rows))


def copy_lines(source: Path, target: Path, wanted: Callable[[JsonObject], bool]) -> None:
    """Write the JSON lines of a file that are wanted to another one.

    Raises:
        StoreError: the disk does not give or take them.
    """
    try:
        with source.open(encoding="ascii", newline="") as stream:
            _write(target, (line for line in stream if wanted(parse_object(line) or {})))
    except OSError as error:
        msg = f"{source}: cannot be read: {error.strerror}"
        raise StoreError(msg) from error


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """Write a text that comes in pieces, as `write_file` does, without holding it.

    Raises:
        StoreError: the disk does not take it.
    """
    _write(path, pieces)


def _write(path: Path, parts: Iterable[str]) -> None:
    part: Path | None = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", dir=path.parent, delete=False) as stream:
            part = Path(stream.name)
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
        part = None
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}"
        raise StoreError(msg) from error
    finally:
        if part is not None:  # what gives the parts has failed, or the disk
            part.unlink(missing_ok=True)


def write_json(path: Path, value: JsonObject) -> None:
    """Write a JSON file for people: indented, names sorted, byte for byte the same for the same value."""
    write_file(path, json.dumps(value, ensure_ascii=True, sort_keys=True, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> JsonObject:
    """Read a JSON object.

    Raises:
        StoreError: it is missing or no JSON object.
    """
    try:
        value = parse_object(path.read_bytes())
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StoreError(msg) from error
    if value is None:
        msg = f"{path}: is not a JSON object"
        raise StoreError(msg)
    return value


def to_lines(rows: Iterable[JsonObject]) -> str:
    """Return rows as JSON lines."""
    return "".join(each_line(rows))


def each_line(rows: Iterable[JsonObject]) -> Iterator[str]:
    """Yield rows as JSON lines, each when it is asked for."""
    return (canonical(row) + "\n" for row in rows)
